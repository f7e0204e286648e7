//! The headers in front of every body but the handshake's (protocol §1.5).

use crate::wire::record;
use crate::{ErrorCode, Xid, Zxid};

record! {
    /// In front of every request.
    #[derive(Copy)]
    pub struct RequestHeader {
        /// The client's number, echoed in the reply.
        pub xid: Xid,
        /// The operation code, known or not; see [`crate::OpCode`].
        pub op: i32,
    }
}

record! {
    /// In front of every reply and notification.
    #[derive(Copy)]
    pub struct ReplyHeader {
        /// The request's number, or one of the special ones.
        pub xid: Xid,
        /// The last transaction that the server had applied.
        pub zxid: Zxid,
        /// Why the request was refused; `None` for success. A refused request has no body.
        pub err: Option<ErrorCode>,
    }
}
