//! The holders of one lock over time, drawn.

use std::fmt::Write as _;

use crate::run_history::{Claim, Mode, RunHistory, Write};

const WIDTH: u64 = 1400;
const LANE: usize = 28;
const LEFT: u64 = 110;
const TOP: usize = 48;
/// One color for each contender, over and over.
const COLORS: [&str; 6] = ["#3b6ea5", "#c7772b", "#4d8f58", "#8a5aa3", "#a8443f", "#6b6b6b"];

/// Draws the lock with the most refused writes: the one on which most happened. Each contender has
/// a lane under its name.
pub fn draw(history: &RunHistory, name: impl Fn(usize) -> String) -> String {
    let refused = |path: &str| {
        history.writes.iter().filter(|write| !write.accepted && write.lock == path).count()
    };
    let lock = history
        .locks
        .iter()
        .filter(|lock| lock.recipe.is_lock())
        .max_by_key(|lock| (refused(&lock.path), history.claims_of(lock).len()));
    let Some(lock) = lock else { return String::new() };
    let claims = history.claims_of(lock);
    let writes: Vec<&Write> =
        history.writes.iter().filter(|write| write.lock == lock.path && !write.accepted).collect();
    let end_us = claims.iter().map(|claim| claim.believed_until_us).max().unwrap_or(1).max(1);
    let lanes = claims.iter().map(|claim| claim.contender + 1).max().unwrap_or(1);
    let height = TOP + lanes * LANE + 40;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"8\" y=\"18\">holders of {} ({}): bars are what each believed to hold, \
         crosses are stale writes that were refused, lines are faults</text>\n",
        LEFT + WIDTH + 20,
        lock.path,
        lock.recipe
    );
    let at = |us: u64| LEFT + us.saturating_mul(WIDTH) / end_us;
    for (when, what) in &history.marks {
        let x = at(u64::try_from(when.as_micros()).unwrap_or(u64::MAX).min(end_us));
        let bottom = TOP + lanes * LANE;
        let _ = writeln!(
            svg,
            "<line x1=\"{x}\" y1=\"{TOP}\" x2=\"{x}\" y2=\"{bottom}\" stroke=\"#ddd\">\
             <title>{}</title></line>",
            escape(what)
        );
    }
    for contender in 0..lanes {
        let y = TOP + contender * LANE + LANE / 2 + 4;
        let _ = writeln!(svg, "<text x=\"8\" y=\"{y}\">{}</text>", escape(&name(contender)));
    }
    for claim in &claims {
        bar(&mut svg, claim, &at);
    }
    for write in writes {
        let (x, y) = (at(write.at_us), TOP + write.contender * LANE + LANE / 2);
        let _ = writeln!(
            svg,
            "<path d=\"M{} {}l8 8m0 -8l-8 8\" stroke=\"#d00\" stroke-width=\"2\">\
             <title>token {} refused</title></path>",
            x.saturating_sub(4),
            y.saturating_sub(4),
            write.token
        );
    }
    let y = TOP + lanes * LANE + 24;
    for tenth in 0..=10 {
        let us = end_us * tenth / 10;
        let seconds = us / 1_000_000;
        let tenths = us / 100_000 % 10;
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{y}\">{seconds}.{tenths} s</text>", at(us));
    }
    svg.push_str("</svg>\n");
    svg
}

fn bar(svg: &mut String, claim: &Claim, at: &impl Fn(u64) -> u64) {
    let (from, to) = (at(claim.granted_us), at(claim.believed_until_us));
    let y = TOP + claim.contender * LANE + 4;
    let color = COLORS.get(claim.contender % COLORS.len()).copied().unwrap_or("black");
    let opacity = if claim.mode == Mode::Exclusive { "1" } else { "0.4" };
    let _ = writeln!(
        svg,
        "<rect x=\"{from}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"{color}\" \
         opacity=\"{opacity}\"><title>token {}</title></rect>",
        (to - from).max(1),
        LANE - 8,
        claim.token
    );
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
