//! The primitive encodings of jute (protocol §1.2): everything big-endian, −1 for null.
//!
//! Lengths are compared with the bytes at hand before anything is allocated, so a hostile length
//! costs nothing. Decoding shares the input's memory: a buffer is a slice of the frame.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::DecodeError;

/// A value that can be written to the wire.
pub trait Encode {
    /// Appends the value to `out`.
    fn encode(&self, out: &mut BytesMut);
}

/// A value that can be read from the wire.
pub trait Decode: Sized {
    /// Takes the value off the front of `input`; `field` names it in errors.
    fn decode(input: &mut Bytes, field: &'static str) -> Result<Self, DecodeError>;
}

impl Encode for i32 {
    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(*self);
    }
}

impl Decode for i32 {
    fn decode(input: &mut Bytes, field: &'static str) -> Result<Self, DecodeError> {
        input.try_get_i32().map_err(|_| DecodeError::UnexpectedEnd { field })
    }
}

impl Encode for i64 {
    fn encode(&self, out: &mut BytesMut) {
        out.put_i64(*self);
    }
}

impl Decode for i64 {
    fn decode(input: &mut Bytes, field: &'static str) -> Result<Self, DecodeError> {
        input.try_get_i64().map_err(|_| DecodeError::UnexpectedEnd { field })
    }
}

impl Encode for bool {
    fn encode(&self, out: &mut BytesMut) {
        out.put_u8(u8::from(*self));
    }
}

impl Decode for bool {
    /// Any byte but zero is true, as in the reference reader.
    fn decode(input: &mut Bytes, field: &'static str) -> Result<Self, DecodeError> {
        input.try_get_u8().map(|byte| byte != 0).map_err(|_| DecodeError::UnexpectedEnd { field })
    }
}

impl Encode for Bytes {
    fn encode(&self, out: &mut BytesMut) {
        put_slice(self, out);
    }
}

impl Decode for Bytes {
    fn decode(input: &mut Bytes, field: &'static str) -> Result<Self, DecodeError> {
        Option::decode(input, field)?.ok_or(DecodeError::Null { field })
    }
}

impl Encode for Option<Bytes> {
    fn encode(&self, out: &mut BytesMut) {
        match self {
            Some(bytes) => put_slice(bytes, out),
            None => out.put_i32(-1),
        }
    }
}

impl Decode for Option<Bytes> {
    fn decode(input: &mut Bytes, field: &'static str) -> Result<Self, DecodeError> {
        let Some(length) = decode_length(input, field)? else { return Ok(None) };
        if length > input.len() {
            return Err(DecodeError::UnexpectedEnd { field });
        }
        Ok(Some(input.split_to(length)))
    }
}

impl Encode for str {
    fn encode(&self, out: &mut BytesMut) {
        put_slice(self.as_bytes(), out);
    }
}

impl Encode for String {
    fn encode(&self, out: &mut BytesMut) {
        self.as_str().encode(out);
    }
}

impl Decode for String {
    fn decode(input: &mut Bytes, field: &'static str) -> Result<Self, DecodeError> {
        Option::decode(input, field)?.ok_or(DecodeError::Null { field })
    }
}

impl Encode for Option<String> {
    fn encode(&self, out: &mut BytesMut) {
        match self {
            Some(text) => text.encode(out),
            None => out.put_i32(-1),
        }
    }
}

impl Decode for Option<String> {
    /// Invalid UTF-8 becomes U+FFFD, which no path may hold, so a bad path is answered with −8
    /// instead of a closed connection (protocol §1.2).
    fn decode(input: &mut Bytes, field: &'static str) -> Result<Self, DecodeError> {
        let bytes = Option::<Bytes>::decode(input, field)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(wire_length(self.len()));
        for element in self {
            element.encode(out);
        }
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(input: &mut Bytes, field: &'static str) -> Result<Self, DecodeError> {
        Option::decode(input, field)?.ok_or(DecodeError::Null { field })
    }
}

impl<T: Encode> Encode for Option<Vec<T>> {
    fn encode(&self, out: &mut BytesMut) {
        match self {
            Some(elements) => elements.encode(out),
            None => out.put_i32(-1),
        }
    }
}

impl<T: Decode> Decode for Option<Vec<T>> {
    /// The count is not trusted: the vector grows as elements really come out of the input.
    fn decode(input: &mut Bytes, field: &'static str) -> Result<Self, DecodeError> {
        let Some(count) = decode_length(input, field)? else { return Ok(None) };
        let mut elements = Vec::with_capacity(count.min(CAPACITY_UNTRUSTED_MAX));
        for _ in 0..count {
            elements.push(T::decode(input, field)?);
        }
        Ok(Some(elements))
    }
}

/// The most elements for which room is made on the word of the wire alone.
const CAPACITY_UNTRUSTED_MAX: usize = 16;

/// Reads a length: `None` for null, an error below −1.
fn decode_length(input: &mut Bytes, field: &'static str) -> Result<Option<usize>, DecodeError> {
    match i32::decode(input, field)? {
        -1 => Ok(None),
        length => usize::try_from(length)
            .map(Some)
            .map_err(|_| DecodeError::NegativeLength { field, length }),
    }
}

fn put_slice(bytes: &[u8], out: &mut BytesMut) {
    out.put_i32(wire_length(bytes.len()));
    out.put_slice(bytes);
}

/// The length as jute writes it. Nothing longer than a frame is ever sent, and a frame is far below
/// 2 GiB: of what is longer the senders look at the length, and do not send it.
pub(crate) fn wire_length(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

/// Declares a record: a struct whose fields follow each other on the wire, without tags. It is
/// exhaustive: without tags no field can be added to a record, and its users construct it.
macro_rules! record {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[$field_meta])* pub $field: $type,)* }

        impl $crate::Encode for $name {
            fn encode(&self, out: &mut ::bytes::BytesMut) {
                $($crate::Encode::encode(&self.$field, out);)*
            }
        }

        impl $crate::Decode for $name {
            fn decode(input: &mut ::bytes::Bytes, _: &'static str) -> Result<Self, $crate::DecodeError> {
                Ok(Self { $($field: $crate::Decode::decode(input, stringify!($field))?,)* })
            }
        }
    };
}
pub(crate) use record;
