//! The server as its clients meet it.

mod contract;
