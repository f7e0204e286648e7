//! The time of a step, which its caller passes in.

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds on a clock that never jumps and never goes back; its zero means nothing.
    /// Sessions are judged by it.
    pub mono_ms: u64,
    /// Milliseconds since 1970 on the wall clock, which may jump. The leader's
    /// travels in the log, for `ctime`, `mtime` and times to live.
    pub wall_ms: i64,
}
