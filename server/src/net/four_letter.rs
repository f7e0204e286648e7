//! Four-letter words (protocol §14): asked in place of a handshake, answered with text.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::SemaphorePermit;

use super::context::PortContext;
use super::format;

macro_rules! words {
    ($($name:ident = $text:literal,)*) => {
        /// A word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Word { $($name,)* }

        impl Word {
            /// The word of a connection's first four bytes, if they are one.
            pub(super) fn of(bytes: &[u8; 4]) -> Option<Self> {
                $(if bytes == $text.as_bytes() { return Some(Self::$name); })*
                None
            }

            fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

words! {
    Ruok = "ruok",
    Srvr = "srvr",
    Stat = "stat",
    Mntr = "mntr",
    Cons = "cons",
    Conf = "conf",
    Envi = "envi",
    Dump = "dump",
    Wchs = "wchs",
    Wchc = "wchc",
    Wchp = "wchp",
    Crst = "crst",
    Srst = "srst",
    Isro = "isro",
    Dirs = "dirs",
    Gtmk = "gtmk",
    Stmk = "stmk",
}

/// What a server without a leader says.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

/// The time limit for a client to read an answer. It is shorter than the default for handshakes, so that
/// a client that waits for its list has time left after a slow reader.
pub(super) const READ_TIME: Duration = Duration::from_secs(5);

/// The answer to a word. There is one list at a time, until it is written or dropped: each takes memory,
/// and as long as it has entries.
pub(super) struct Answer<'a> {
    pub(super) text: String,
    _place: Option<SemaphorePermit<'a>>,
}

/// Returns the answer to a word. Long ones are put together in turns.
pub(super) async fn answer(word: Word, context: &PortContext) -> Answer<'_> {
    if !context.options.server_info.words.allow(word.text()) {
        let name = word.text();
        let text = format!("{name} is not executed because it is not in the whitelist.\n");
        return Answer { text, _place: None };
    }
    let is_list =
        matches!(word, Word::Stat | Word::Cons | Word::Dump | Word::Wchs | Word::Wchc | Word::Wchp);
    // The semaphore is never closed.
    let place = if is_list { context.listing.acquire().await.ok() } else { None };
    Answer { text: text(word, context).await, _place: place }
}

async fn text(word: Word, context: &PortContext) -> String {
    let serving = context.host.serving();
    match word {
        // Monitoring must be able to see why this server does not serve.
        Word::Mntr if has_diverged(context) => format::mntr(context),
        Word::Ruok => "imok".to_owned(),
        Word::Isro if serving && context.host.read_only() => "ro".to_owned(),
        Word::Isro => if serving { "rw" } else { "null" }.to_owned(),
        Word::Envi => format::envi(),
        // Nothing is traced by it.
        Word::Gtmk | Word::Stmk => context.trace_mask.load(Ordering::Relaxed).to_string(),
        Word::Conf
        | Word::Dirs
        | Word::Srvr
        | Word::Stat
        | Word::Mntr
        | Word::Cons
        | Word::Dump
        | Word::Wchs
        | Word::Wchc
        | Word::Wchp
        | Word::Crst
        | Word::Srst
            if !serving =>
        {
            NOT_SERVING.to_owned()
        }
        Word::Conf => format::conf(context),
        Word::Dirs => format::dirs(context),
        Word::Srvr => format::srvr(context),
        Word::Stat => format::stat(context).await,
        Word::Mntr => format::mntr(context),
        Word::Cons => format::cons(context).await,
        Word::Dump => format::dump(context).await,
        Word::Wchs => format::wchs(context).await,
        Word::Wchc => format::wchc(context).await,
        Word::Wchp => format::wchp(context).await,
        Word::Crst => format::reset_connections(context),
        Word::Srst => format::reset_server(context),
    }
}

fn has_diverged(context: &PortContext) -> bool {
    context
        .options
        .server_info
        .ensemble
        .as_ref()
        .is_some_and(|ensemble| ensemble.figures().diverged)
}
