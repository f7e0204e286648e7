//! Logins by SASL with the mechanism DIGEST-MD5 (RFC 2831), as `ZooKeeper`'s clients use it: the
//! server's side, without files and sockets. Those are in `config` and `net`.

mod digest_md5;
mod directives;
mod jaas;
mod logins;
mod users;

pub(crate) use self::digest_md5::Login;
use self::digest_md5::{Answer, LoginError};
pub(crate) use self::jaas::users_of_section;
pub(crate) use self::logins::{Logins, OnFailure, Outcome};
pub(crate) use self::users::Users;
