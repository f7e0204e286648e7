//! TLS, as the options ask for it.

use std::path::Path;

use zoolet_client::tls::{Password, StoreFile, TlsConnector, TlsOptions};

use crate::args::Secret;
use crate::error::{CtlError, Exit};
use crate::options::TlsFiles;

impl TlsFiles {
    /// Loads the files; `None` if TLS is not asked for.
    pub(crate) fn connector(&self) -> Result<Option<TlsConnector>, CtlError> {
        let Some(trust_store) = &self.trust_store else {
            if self.key_store.is_some() {
                let message = "--key-store without --trust-store: nothing vouches for the servers";
                return Err(CtlError::new(Exit::Usage, message));
            }
            return Ok(None);
        };
        let mut options = TlsOptions::new()
            .trust_store(store(trust_store, self.trust_store_password.as_ref()))
            .verify_server_name(!self.any_server_name);
        if let Some(key_store) = &self.key_store {
            options = options.key_store(store(key_store, self.key_store_password.as_ref()));
        }
        let connector = options.connector();
        connector.map(Some).map_err(|error| CtlError::new(Exit::Io, format!("TLS: {error}")))
    }
}

fn store(file: &Path, password: Option<&Secret>) -> StoreFile {
    let mut store = StoreFile::new(file);
    store.password = Password::new(password.map_or("", |secret| secret.0.as_str()));
    store
}
