//! Replays the fuzz targets' seeds.

#[path = "../../../../fuzz/properties.rs"]
mod properties;
#[path = "../../../../fuzz/tables.rs"]
mod tables;

use hoglake_model::table::TableFormat;

use std::path::Path;

fn replay(target: &str, property: fn(&[u8])) {
    replay_cut(target, property, 64);
}

/// Every seed, and every seed cut short in about `cuts` places.
fn replay_cut(target: &str, property: fn(&[u8]), cuts: usize) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let seed = std::fs::read(&path).unwrap();
        for length in (0..seed.len()).step_by(seed.len() / cuts + 1).chain([seed.len()]) {
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

#[test]
fn delta_seeds_hold() {
    replay_cut("delta", tables::delta, 8);
}

#[test]
fn iceberg_seeds_hold() {
    replay_cut("iceberg", tables::iceberg, 8);
}

#[test]
fn hudi_seeds_hold() {
    replay_cut("hudi", tables::hudi, 8);
}

/// What a table of ours holds in each role reads, and so do its beginnings, and it with single bits turned.
#[test]
fn objects_of_every_role_may_be_damaged() {
    for (format, property) in [
        (TableFormat::Delta, tables::delta as fn(&[u8])),
        (TableFormat::Iceberg, tables::iceberg),
        (TableFormat::Hudi, tables::hudi),
    ] {
        let seeds = tables::seeds(format);
        assert!(seeds.len() >= 5);
        for mut seed in seeds {
            for at in (1..seed.len()).step_by(seed.len() / 24 + 1) {
                property(&seed[..at]);
                seed[at] ^= 1 << (at % 8);
                property(&seed);
                seed[at] ^= 1 << (at % 8);
            }
        }
    }
    if let Some(folder) = std::env::var_os("HOGLAKE_SEEDS_INTO") {
        for (name, format) in
            [("delta", TableFormat::Delta), ("iceberg", TableFormat::Iceberg), ("hudi", TableFormat::Hudi)]
        {
            let folder = Path::new(&folder).join(name);
            std::fs::create_dir_all(&folder).unwrap();
            for (number, seed) in tables::seeds(format).iter().enumerate() {
                std::fs::write(folder.join(format!("own-{number}")), seed).unwrap();
            }
        }
    }
}
