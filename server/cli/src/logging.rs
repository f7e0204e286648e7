//! Structured logs, on standard error.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

/// What is logged by default. Of openraft errors only: a heartbeat that does not get
/// through is a warning there, and `peer` reports it once instead of ten times a second.
const FILTER_DEFAULT: &str = "info,openraft=error";

/// Starts the log; `filter` goes before `RUST_LOG`.
pub(crate) fn start(filter: Option<&str>) -> Result<(), ParseError> {
    let filter = match (filter, std::env::var("RUST_LOG")) {
        (Some(filter), _) => EnvFilter::try_new(filter)?,
        (None, Ok(filter)) if !filter.is_empty() => EnvFilter::try_new(filter)?,
        (None, _) => EnvFilter::try_new(FILTER_DEFAULT)?,
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .finish();
    // Only a program that embeds this one can have set a subscriber before; it then rules.
    let _ = tracing::subscriber::set_global_default(subscriber);
    Ok(())
}
