//! Maintenance with real files: what is compacted, expired and cleaned reads the same as before.

mod commands;
mod deep_verify;
mod faults;
mod histories;
mod in_front;
mod killed;
pub mod lake;
mod looking;
mod names;
mod object_store;
mod on_s3;
mod sharing;
mod tasks;
mod timers;
