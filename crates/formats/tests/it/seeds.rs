//! Replays the fuzz targets' seeds.

#[path = "../../../../fuzz/properties.rs"]
mod properties;

use std::path::Path;

fn replay(target: &str, property: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let seed = std::fs::read(&path).unwrap();
        // Every seed, and every seed cut short.
        for length in (0..seed.len()).step_by(seed.len() / 64 + 1).chain([seed.len()]) {
            property(&seed[..length]);
        }
        count += 1;
    }
    assert!(count >= 10, "{target} has lost its seeds");
}

#[test]
fn puffin_seeds_hold() {
    replay("puffin", properties::puffin);
}

#[test]
fn bounds_seeds_hold() {
    replay("bounds", properties::bounds);
}

#[test]
fn footer_seeds_hold() {
    replay("footer", properties::footer);
}
