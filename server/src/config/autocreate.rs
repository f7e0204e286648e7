//! The settings that allow a start to create missing directories and data.

/// The missing things that a start may create (`datadir.autocreate`, `db.autocreate`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Autocreate {
    /// The directories of the data and of the log, if they are missing.
    pub data_dir: bool,
    /// An empty database, and with it a new ensemble. Otherwise, a server without data waits for that
    /// of its ensemble, unless its data directory has a file `initialize`.
    pub db: bool,
}

impl Default for Autocreate {
    fn default() -> Self {
        Self { data_dir: true, db: true }
    }
}
