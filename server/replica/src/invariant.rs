//! `invariant!(holds, "message {numbers}")`: what must hold whatever clients, peers, files and the
//! configuration contain. It stays on in release, and each one costs a comparison or two: a server
//! that disagrees with itself must stop before it replies. Checks of a whole state are in `check`
//! methods, which tests call.

/// Ends the server with the message if the condition is false.
#[macro_export]
macro_rules! invariant {
    ($holds:expr, $message:literal $(, $value:expr)* $(,)?) => {
        assert!($holds, "invariant broken: {}", format_args!($message $(, $value)*))
    };
}
