//! Retention: how much history a catalog keeps.

mod floor;

pub use floor::{Floor, History, Pin, floor};
