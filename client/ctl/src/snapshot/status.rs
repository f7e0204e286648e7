//! `snapshot status`: what is in a backup, and whether it is whole.

use std::path::Path;

use serde_json::json;
use zoolet_replica::state::{RestoreError, State};
use zoolet_storage::{SnapshotReader, StorageError};

use crate::error::{CtlError, Exit};
use crate::output::Output;

/// `snapshot status`. The whole state is read into memory, as a restore does.
pub(super) fn status(path: &Path, output: Output) -> Result<(), CtlError> {
    let damaged =
        |why: &str| CtlError::new(Exit::Failed, format!("{} is damaged: {why}", path.display()));
    // Its text names the file, and where it is damaged.
    let unreadable = |error: StorageError| {
        let is_io = matches!(error, StorageError::Io { .. });
        CtlError::new(if is_io { Exit::Io } else { Exit::Failed }, error.to_string())
    };
    let reader = SnapshotReader::open_file(path).map_err(unreadable)?;
    let name = reader.name();
    let summary = reader.verify().map_err(unreadable)?;
    let restored = State::restore(reader);
    let state = restored.map_err(|error: RestoreError| damaged(&error.to_string()))?;
    let zxid = state.last_zxid().0.cast_unsigned();
    if (zxid, state.digest()) != (name.zxid, summary.digest) {
        return Err(damaged("its content is not what its header and its end say"));
    }
    let lines = [
        ("zxid", format!("{zxid:#x}")),
        ("epoch", name.term.to_string()),
        ("znodes", state.node_count().to_string()),
        ("ephemerals", state.ephemerals_count().to_string()),
        ("sessions", state.session_count().to_string()),
        ("data bytes", state.data_bytes().to_string()),
        ("feature level", state.level().0.to_string()),
        ("digest", format!("{:#018x}", state.digest())),
        ("checksum", "ok".to_owned()),
    ];
    let text = || {
        let lines = lines.iter().map(|(what, value)| format!("{what:<14}{value}"));
        lines.collect::<Vec<_>>().join("\n")
    };
    output.result(text, || {
        json!({
            "file": path.display().to_string(),
            "zxid": format!("{zxid:#x}"),
            "epoch": name.term,
            "znodes": state.node_count(),
            "ephemerals": state.ephemerals_count(),
            "sessions": state.session_count(),
            "data_bytes": state.data_bytes(),
            "feature_level": state.level().0,
            "digest": format!("{:#018x}", state.digest()),
            "checksum": "ok",
        })
    })
}
