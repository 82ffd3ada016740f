#![no_main]

#[path = "../tables.rs"]
#[allow(dead_code)]
mod tables;

libfuzzer_sys::fuzz_target!(|data: &[u8]| tables::delta(data));
