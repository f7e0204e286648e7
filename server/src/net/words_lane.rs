//! Four-letter words when all places are taken: a probe must not find a full server dead.

use std::net::IpAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::context::PortContext;
use super::four_letter::{self, Word};
use crate::transport::Stream;

/// The time limit for such a connection to send its word and read the answer.
const TIME_MAX: Duration = Duration::from_secs(2);

/// Answers a word, if a connection over a limit begins with one. Returns whether it did. A connection
/// more than there are places takes the place of another.
pub(super) async fn answer(
    stream: &mut dyn Stream,
    address: IpAddr,
    context: &PortContext,
) -> bool {
    let (number, pushed_out) = context.asking.begin(address);
    let answered = tokio::select! {
        answered = timeout(TIME_MAX, answer_word(stream, context)) => answered,
        _ = pushed_out => return false,
    };
    context.asking.end(number);
    answered.unwrap_or(false)
}

async fn answer_word(stream: &mut dyn Stream, context: &PortContext) -> bool {
    let mut word = [0; 4];
    if stream.read_exact(&mut word).await.is_err() {
        return false;
    }
    // `stmk` has more than its word, and does not probe.
    let Some(word) = Word::of(&word).filter(|word| *word != Word::Stmk) else { return false };
    let answer = four_letter::answer(word, context).await;
    let written = async {
        stream.write_all(answer.text.as_bytes()).await?;
        stream.shutdown().await?;
        // A socket that is closed over unread bytes may take the answer back.
        stream.read(&mut [0; 64]).await
    };
    // The client may have left, which changes nothing.
    let _ = written.await;
    true
}
