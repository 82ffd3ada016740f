//! Tests of the codecs against files written by others, hostile bytes, and readers of other projects.

mod deletion_vector;
mod judges;
mod puffin;
