//! Tests of the reader of `zoo.cfg`.

mod keys;
mod properties;
