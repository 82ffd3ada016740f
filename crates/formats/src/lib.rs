//! hoglake.
