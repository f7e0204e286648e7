//! A run that fails made smaller: fewer faults, fewer clients, a shorter time, as long as it still
//! breaks the same promise.

use std::io;

use super::child::{Child, Ended};
use crate::run::Options;

/// Drops faults and clients while the run breaks the same promise. `say` gets what is tried.
pub fn minimize(
    options: &Options,
    faults: usize,
    say: &mut dyn FnMut(String),
) -> io::Result<Option<Options>> {
    let Some(promise) = broken_promise(options)? else { return Ok(None) };
    say(format!("broken: {promise}"));
    let mut best = options.clone();
    let mut kept: Vec<usize> = (0..faults).filter(|at| !best.without.contains(at)).collect();
    // Halves first, then quarters, down to one.
    let mut piece = kept.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        while at < kept.len() {
            let end = (at + piece).min(kept.len());
            let mut fewer = kept.clone();
            let dropped: Vec<usize> = fewer.drain(at..end).collect();
            let mut tried = best.clone();
            tried.without.extend(&dropped);
            if broken_promise(&tried)?.as_ref() == Some(&promise) {
                say(format!("without {dropped:?}: still broken, {} faults are left", fewer.len()));
                (best, kept) = (tried, fewer);
            } else {
                at = end;
            }
        }
        piece = if piece == 1 { 0 } else { piece.div_ceil(2) };
    }
    for clients in 1..best.clients.unwrap_or(12) {
        let tried = Options { clients: Some(clients), ..best.clone() };
        if broken_promise(&tried)?.as_ref() == Some(&promise) {
            say(format!("with {clients} clients: still broken"));
            best = tried;
            break;
        }
    }
    best.without.sort_unstable();
    Ok(Some(best))
}

/// The name of the first promise that a run breaks: the text up to the first colon.
fn broken_promise(options: &Options) -> io::Result<Option<String>> {
    let ended: Ended = Child { options: options.clone() }.run()?;
    let first = ended.violations().into_iter().next();
    Ok(first.map(|text| text.split(':').next().unwrap_or_default().to_owned()))
}
