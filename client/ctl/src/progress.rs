//! What a person sees of long work: a line on stderr, when that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often the line changes.
const TICK: Duration = Duration::from_millis(100);

/// A line that shows how far the work is. It goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Work whose end is not known.
    pub(crate) fn spinner(what: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        // The style of a bar shows no message.
        bar.set_style(ProgressStyle::default_spinner());
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// Work of `steps` steps.
    pub(crate) fn steps(what: &str, steps: usize) -> Self {
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} {eta}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(what.to_owned());
        Self(bar)
    }

    /// Whether it is not shown.
    pub(crate) fn is_hidden(&self) -> bool {
        self.0.is_hidden()
    }

    pub(crate) fn set_message(&self, message: String) {
        self.0.set_message(message);
    }

    /// Does something that prints, with the line out of its way.
    pub(crate) fn aside<T>(&self, prints: impl FnOnce() -> T) -> T {
        self.0.suspend(prints)
    }

    pub(crate) fn advance(&self, steps: u64) {
        self.0.inc(steps);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
