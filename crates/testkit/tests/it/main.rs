//! The stage itself: what the other crates' tests lean on.

mod postgres;
