//! Tests of the reader of `zoo.cfg`.

mod granting;
mod https_keys;
mod keys;
mod properties;
