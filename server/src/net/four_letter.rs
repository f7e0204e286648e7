//! Four-letter words (protocol §14): asked in place of a handshake, answered with text.

use std::sync::atomic::Ordering;

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

/// The answer to a word. Long ones are put together in turns, one at a time.
pub(super) async fn answer(word: Word, context: &PortContext) -> String {
    if !context.options.server_info.words.allow(word.text()) {
        return format!("{} is not executed because it is not in the whitelist.\n", word.text());
    }
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
        Word::Stat => listing(context, format::stat(context)).await,
        Word::Mntr => format::mntr(context),
        Word::Cons => listing(context, format::cons(context)).await,
        Word::Dump => listing(context, format::dump(context)).await,
        Word::Wchs => listing(context, format::wchs(context)).await,
        Word::Wchc => listing(context, format::wchc(context)).await,
        Word::Wchp => listing(context, format::wchp(context)).await,
        Word::Crst => format::reset_connections(context),
        Word::Srst => format::reset_server(context),
    }
}

/// Waits until no other list is put together: each of them takes memory, and as long as it has
/// entries.
async fn listing(context: &PortContext, list: impl Future<Output = String>) -> String {
    // The semaphore is never closed.
    let _place = context.listing.acquire().await;
    list.await
}

fn has_diverged(context: &PortContext) -> bool {
    context
        .options
        .server_info
        .ensemble
        .as_ref()
        .is_some_and(|ensemble| ensemble.figures().diverged)
}
