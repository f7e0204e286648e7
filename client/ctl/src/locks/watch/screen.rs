//! A screen of its own on the terminal. What was there before comes back at the end.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, stdin, stdout};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::error::CtlError;
use crate::output;

/// Takes the other screen, without a cursor, and cuts lines that are too long.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";

const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Lines of a terminal that does not say how many it has.
const LINES_DEFAULT: usize = 24;

/// Keys are read one by one and not shown. Dropping it restores the terminal.
#[derive(Debug)]
pub(super) struct Screen {
    before: Option<Termios>,
}

impl Screen {
    pub(super) fn enter() -> Result<Self, CtlError> {
        let input = stdin();
        let before = input.is_terminal().then(|| tcgetattr(&input)).transpose();
        let before = before.map_err(io::Error::from)?;
        // From here on it is restored.
        let screen = Self { before };
        if let Some(before) = &screen.before {
            let mut changed = before.clone();
            changed.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
            tcsetattr(&input, OptionalActions::Now, &changed).map_err(io::Error::from)?;
        }
        output::bytes(ENTER.as_bytes())?;
        Ok(screen)
    }

    /// Replaces what is shown. What does not fit is left out.
    #[expect(clippy::unused_self, reason = "only a screen that was entered can be drawn on")]
    pub(super) fn draw(&self, lines: &[String]) -> Result<(), CtlError> {
        let height = tcgetwinsize(stdout()).map_or(0, |size| usize::from(size.ws_row));
        let height = if height == 0 { LINES_DEFAULT } else { height };
        output::bytes(frame(lines, height).as_bytes())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that is gone.
        let _ = output::bytes(LEAVE.as_bytes());
        if let Some(before) = &self.before {
            let _ = tcsetattr(stdin(), OptionalActions::Now, before);
        }
    }
}

/// The lines over those that were there, without a moment in which nothing is there.
fn frame(lines: &[String], height: usize) -> String {
    let mut frame = String::from("\x1b[H");
    let shown = if lines.len() > height { height.saturating_sub(1) } else { lines.len() };
    for (at, line) in lines.iter().take(shown).enumerate() {
        let end = if at > 0 { "\r\n" } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(frame, "{end}{line}\x1b[K");
    }
    if shown < lines.len() {
        let _ = write!(frame, "\r\n… {} more\x1b[K", lines.len() - shown);
    }
    frame.push_str("\x1b[J");
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_fits_the_terminal() {
        let lines: Vec<String> = (0..4).map(|line| line.to_string()).collect();
        assert_eq!(frame(&lines[..2], 2), "\x1b[H0\x1b[K\r\n1\x1b[K\x1b[J");
        assert_eq!(frame(&lines, 3), "\x1b[H0\x1b[K\r\n1\x1b[K\r\n… 2 more\x1b[K\x1b[J");
    }
}
