//! Tests of the reader of `zoo.cfg`.

mod https_keys;
mod keys;
mod properties;
