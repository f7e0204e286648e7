//! The version that a write expects.

use std::fmt;

use crate::ErrorKind;

/// The version that a znode must have for a write, a delete or a check to happen; otherwise it fails
/// with [`ErrorCode::BadVersion`](crate::ErrorCode::BadVersion).
///
/// On the wire, −1 means any version. No conversion from a number does the same here, so that a
/// version of −1, which comes from a mistake or from a znode that the server has built in, does not
/// turn a write into an unconditional one: with `Exactly(-1)` a request fails with
/// [`ErrorKind::Protocol`] and is not sent. Servers give no znode that version by counting up to it.
///
/// ```
/// use zoolet_client::{Stat, Version};
///
/// let stat = Stat { version: 7, aversion: 2, ..Stat::default() };
/// // For `set_data`, `delete` and `check`; an ACL is counted for itself.
/// assert_eq!(Version::Exactly(stat.version), Version::Exactly(7));
/// assert_eq!(Version::Exactly(stat.aversion), Version::Exactly(2));
/// ```
///
/// It is exhaustive: a request has a number or has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version<N = i32> {
    /// Any version: the write overwrites what others have written.
    Any,
    /// This version and no other, as a read has returned it: of the data
    /// [`Stat::version`](crate::Stat), of an ACL [`Stat::aversion`](crate::Stat).
    Exactly(N),
}

impl<N: Copy + PartialEq + From<i8> + fmt::Display> Version<N> {
    /// Returns the number on the wire.
    pub(crate) fn number(self) -> Result<N, ErrorKind> {
        let any = N::from(-1);
        match self {
            Self::Any => Ok(any),
            Self::Exactly(version) if version == any => Err(ErrorKind::Protocol(format!(
                "version {version} on the wire means any version: use Version::Any"
            ))),
            Self::Exactly(version) => Ok(version),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_but_any_becomes_the_wildcard() {
        assert_eq!(Version::<i32>::Any.number(), Ok(-1));
        assert_eq!(Version::<i64>::Any.number(), Ok(-1));
        assert_eq!(Version::Exactly(0).number(), Ok(0));
        // Versions wrap, so that negative ones exist.
        assert_eq!(Version::Exactly(i32::MIN).number(), Ok(i32::MIN));
        assert!(matches!(Version::Exactly(-1).number(), Err(ErrorKind::Protocol(_))));
        assert!(matches!(Version::Exactly(-1_i64).number(), Err(ErrorKind::Protocol(_))));
    }
}
