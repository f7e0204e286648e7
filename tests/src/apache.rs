//! The commands of Apache ZooKeeper, the oracle that zoolet is compared with.
//!
//! The jars are resolved once with Maven, at the version that `interop/apache/pom.xml` pins.

use std::ffi::{OsStr, OsString};
use std::process::Command;

use crate::tools::{self, ToolError};

/// The command of one server, up to the path of its `zoo.cfg`.
pub fn server_command(classpath: &OsStr, jvm_options: &[String]) -> Vec<OsString> {
    let java = java(classpath);
    let mut command = vec![java.get_program().to_owned()];
    command.extend(java.get_args().map(OsStr::to_owned));
    command.extend(jvm_options.iter().map(OsString::from));
    command.push("org.apache.zookeeper.server.quorum.QuorumPeerMain".into());
    command
}

/// `java` with a small heap and a quick start, for servers and command lines alike.
pub fn java(classpath: &OsStr) -> Command {
    let mut command = Command::new("java");
    command
        .args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"])
        .args(["-Djava.net.preferIPv4Stack=true", "-Dfile.encoding=UTF-8", "-Duser.timezone=UTC"])
        .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        .arg("-cp")
        .arg(classpath);
    command
}

/// The jars of Apache ZooKeeper and of its command line, resolved on the first call.
pub fn classpath() -> Result<OsString, ToolError> {
    resolved("apache", "apache", &[])
}

/// The jars of a server of another version, resolved on the first call.
pub fn classpath_of(version: &str) -> Result<OsString, ToolError> {
    let option = format!("-Dzookeeper.version={version}");
    resolved(&format!("apache-{version}"), "apache-versions", &[option])
}

/// The jars that a pom names, kept under `name`.
fn resolved(name: &str, pom: &str, options: &[String]) -> Result<OsString, ToolError> {
    for program in ["java", "mvn"] {
        if tools::find_program(program).is_none() {
            return Err(ToolError::Missing { what: program.to_owned() });
        }
    }
    let pom = tools::interop_dir(pom).join("pom.xml");
    let directory = tools::prepare_once(name, &[pom], |directory| {
        tools::run(
            Command::new("mvn")
                .args(["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"])
                .args(options)
                .current_dir(directory),
        )
    })?;
    Ok(directory.join("jars").join("*").into_os_string())
}
