//! hoglake.
fn main() {}
