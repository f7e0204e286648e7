//! `zoolet doctor`: looks at a configuration and at the machine that it is for, and says what would
//! go wrong. It changes nothing: the file with which it measures the disk has no name.

mod addresses;
mod directories;
mod disk;
mod file;
mod finding;
mod machine;
mod members;
mod ports;
mod sasl;
mod tls;

use std::io::{self, Write};

use zoolet_server::embed::config::{self, ServerConfig};

use self::finding::Findings;
use crate::cli::DoctorArgs;

/// Checks the configuration that the arguments name, and prints what was found. Returns the exit
/// code: 0 when all is well, 1 with warnings, 2 with errors.
pub(crate) async fn doctor(args: &DoctorArgs) -> io::Result<u8> {
    let mut findings = Findings::default();
    match config::load(&args.config, args.id) {
        Ok((config, warnings)) => {
            file::check(&args.config, &config, &warnings, &mut findings);
            check_server(&config, &mut findings).await;
        }
        Err(error) => findings.error("file", error.to_string()),
    }
    let mut stdout = io::stdout().lock();
    if args.json {
        writeln!(stdout, "{}", findings.to_json())?;
    } else {
        writeln!(stdout, "{findings}")?;
    }
    stdout.flush()?;
    Ok(findings.level().exit_code())
}

/// Looks at everything that a server with this configuration needs.
async fn check_server(config: &ServerConfig, findings: &mut Findings) {
    directories::check(config, findings);
    machine::check(config, findings);
    tls::check(config, findings);
    sasl::check(config, findings);
    ports::check(config, findings).await;
    members::check(config, findings).await;
}
