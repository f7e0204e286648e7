//! What can be wrong with bytes from the wire.

use thiserror::Error;

/// A frame or a record that cannot be decoded.
///
/// An incomplete frame is not here: [`crate::frame::split`] answers `Ok(None)` and waits for more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The record ends before the field does.
    #[error("the record ends inside {field}")]
    UnexpectedEnd {
        /// The field that was being read.
        field: &'static str,
    },
    /// A length below −1; −1 alone is null (protocol §1.2).
    #[error("{field} has the negative length {length}")]
    NegativeLength {
        /// The field that was being read.
        field: &'static str,
        /// The length on the wire.
        length: i32,
    },
    /// A frame longer than the receiver accepts (`jute.maxbuffer`, protocol §1.3).
    #[error("{field} has {length} bytes, more than the {max} allowed")]
    TooLong {
        /// The field that was being read.
        field: &'static str,
        /// The length on the wire.
        length: usize,
        /// The longest length that the receiver accepts.
        max: usize,
    },
    /// Null where the record needs a value.
    #[error("{field} is null")]
    Null {
        /// The field that was being read.
        field: &'static str,
    },
    /// A number outside the values that the field may take.
    #[error("{field} has the unknown value {value}")]
    UnknownValue {
        /// The field that was being read.
        field: &'static str,
        /// The number on the wire.
        value: i32,
    },
    /// An operation code that is unknown, or only for servers.
    #[error("unknown operation code {0}")]
    UnknownOp(i32),
}
