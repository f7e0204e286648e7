//! Runtimes that are not Rust's (Java, Python, Go, …): is one there, and what it needs, prepared once.
//!
//! A suite that needs a foreign runtime calls [`require_foreign`] first. On a developer's machine
//! without that runtime the suite says so and ends; with `ZOOLET_REQUIRE_FOREIGN=1`, as in CI, a
//! missing runtime is a failure. Nothing is compared or downloaded here: see `apache.rs` and the
//! suites for what they prepare.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::Once;

use thiserror::Error;

/// Set to `1` where every foreign suite has to run.
pub const REQUIRE_FOREIGN: &str = "ZOOLET_REQUIRE_FOREIGN";
/// Overrides the directory in which prepared runtimes are kept.
pub const CACHE: &str = "ZOOLET_CACHE";

/// Marks a directory of the cache whose preparation came to its end.
const READY: &str = ".ready";

/// Why a foreign runtime cannot be used.
#[derive(Debug, Error)]
pub enum ToolError {
    #[error("needs {what}, which is not installed")]
    Missing { what: String },
    #[error("{command} failed: {why}")]
    Failed { command: String, why: String },
    #[error("{} is not built: cargo build -p {package}", program.display())]
    NotBuilt { program: PathBuf, package: &'static str },
    #[error("invalid number {variable}={text}")]
    NoNumber { variable: &'static str, text: String },
    #[error("{op} {}: {source}", path.display())]
    Io { op: &'static str, path: PathBuf, source: io::Error },
}

impl ToolError {
    pub(crate) fn io(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { op, path: path.to_owned(), source }
    }
}

/// Says whether `suite` can run: `true` when every program of `needs` is in the `PATH`.
///
/// `false` means that the suite is to return; what is missing was printed to stderr, past the
/// capture of the test runner. Where foreign suites are required, a missing program is an error.
pub fn require_foreign(suite: &str, needs: &[&str]) -> Result<bool, ToolError> {
    let missing: Vec<&str> = needs.iter().copied().filter(|p| find_program(p).is_none()).collect();
    if missing.is_empty() {
        return Ok(true);
    }
    skip_unless_required(suite, ToolError::Missing { what: missing.join(", ") })?;
    Ok(false)
}

/// Turns a [`ToolError::Missing`] into a loud skip where foreign suites are not required; every
/// other error comes back as it is.
pub fn skip_unless_required(suite: &str, error: ToolError) -> Result<(), ToolError> {
    if !matches!(error, ToolError::Missing { .. }) || foreign_is_required() {
        return Err(error);
    }
    announce(&format!("SKIPPED: {suite} {error}"));
    Ok(())
}

/// Writes a line that is seen although the test passes: straight to stderr, which the capture of
/// the test runner does not cover.
pub fn announce(line: &str) {
    // Nothing can be done about a closed stderr, and no result depends on the line.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Is a missing foreign runtime a failure here?
pub fn foreign_is_required() -> bool {
    env::var(REQUIRE_FOREIGN).is_ok_and(|value| value == "1")
}

/// Finds a program in the `PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

/// The directory in which prepared runtimes are kept: `$ZOOLET_CACHE`, or `foreign` in Cargo's
/// target directory.
pub fn cache_dir() -> PathBuf {
    env::var_os(CACHE).map_or_else(|| target_dir().join("foreign"), PathBuf::from)
}

/// A directory of committed foreign programs and manifests, such as `tests/interop/kazoo`.
pub fn interop_dir(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("interop").join(name)
}

/// The path of a program of this build, made by a package of the workspace. The environment's
/// `variable` names another program.
pub(crate) fn built_program(
    name: &str,
    package: &'static str,
    variable: &str,
) -> Result<PathBuf, ToolError> {
    let program = match env::var_os(variable) {
        Some(program) => program.into(),
        None => profile_dir()
            .map_err(ToolError::io("find the programs of", Path::new(package)))?
            .join(name),
    };
    if program.is_file() { Ok(program) } else { Err(ToolError::NotBuilt { program, package }) }
}

/// Where the programs of this build lie: Cargo puts test programs into `deps` beside them.
fn profile_dir() -> io::Result<PathBuf> {
    let exe = env::current_exe()?;
    Ok(exe.ancestors().nth(2).ok_or(io::ErrorKind::NotFound)?.to_owned())
}

/// Whether this run is one of a longer tier, by its name in `ZOOLET_TIER`, which may have several with
/// commas between them.
pub fn is_tier(name: &str) -> bool {
    env::var("ZOOLET_TIER").is_ok_and(|tiers| tiers.split(',').any(|tier| tier == name))
}

/// Whether `suite` runs on Apache `ZooKeeper`: in the tier `apache`, if Java, Maven and the programs of
/// `needs` are installed, as [`require_foreign`] has it.
pub fn is_due_on_apache(suite: &str, needs: &[&str]) -> Result<bool, ToolError> {
    static SAID: Once = Once::new();
    if is_tier("apache") {
        return require_foreign(suite, &[needs, &["java", "mvn"]].concat());
    }
    SAID.call_once(|| {
        announce("NOT RUN: suites on Apache ZooKeeper are run by `make apache`");
    });
    Ok(false)
}

/// The number in a variable of the environment, such as the rounds of a longer run.
pub fn number<T: FromStr>(variable: &'static str, default: T) -> Result<T, ToolError> {
    let Ok(text) = env::var(variable) else { return Ok(default) };
    text.parse().map_err(|_| ToolError::NoNumber { variable, text })
}

/// Cargo marks its target directory with a tag file, wherever it was configured to be.
pub fn target_dir() -> PathBuf {
    let tagged = env::current_exe().ok().and_then(|exe| {
        exe.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file()).map(Path::to_owned)
    });
    tagged.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"))
}

/// Prepares a directory of the cache once: test threads, test binaries and worktrees that share a
/// cache wait for the first of them on a file lock.
///
/// The files `inputs` (manifests, sources) are copied into the new directory before `prepare` is
/// called with it. Their contents are part of the directory's name, so a changed version is
/// prepared anew beside the old one.
pub fn prepare_once(
    name: &str,
    inputs: &[PathBuf],
    prepare: impl FnOnce(&Path) -> Result<(), ToolError>,
) -> Result<PathBuf, ToolError> {
    let cache = cache_dir();
    fs::create_dir_all(&cache).map_err(ToolError::io("create", &cache))?;
    let dir = cache.join(format!("{name}-{:016x}", fingerprint(inputs)?));
    let lock_path = cache.join(format!("{name}.lock"));
    let lock = File::create(&lock_path).map_err(ToolError::io("create", &lock_path))?;
    lock.lock().map_err(ToolError::io("lock", &lock_path))?;
    if dir.join(READY).is_file() {
        return Ok(dir);
    }
    if dir.exists() {
        // Left by a preparation that was cut short.
        fs::remove_dir_all(&dir).map_err(ToolError::io("remove", &dir))?;
    }
    fs::create_dir_all(&dir).map_err(ToolError::io("create", &dir))?;
    for input in inputs {
        let copy = dir.join(input.file_name().unwrap_or(OsStr::new("input")));
        fs::copy(input, &copy).map_err(ToolError::io("copy", input))?;
    }
    prepare(&dir)?;
    let ready = dir.join(READY);
    File::create(&ready).map_err(ToolError::io("create", &ready))?;
    Ok(dir)
}

fn fingerprint(inputs: &[PathBuf]) -> Result<u64, ToolError> {
    let mut hasher = DefaultHasher::new();
    for input in inputs {
        input.file_name().hash(&mut hasher);
        fs::read(input).map_err(ToolError::io("read", input))?.hash(&mut hasher);
    }
    Ok(hasher.finish())
}

/// Runs a preparing command to its end; what it printed becomes the error when it fails.
pub fn run(command: &mut Command) -> Result<(), ToolError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = match command.stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ToolError::Missing { what: program });
        }
        Err(error) => return Err(ToolError::Failed { command: program, why: error.to_string() }),
    };
    if output.status.success() {
        return Ok(());
    }
    let why = format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Err(ToolError::Failed { command: format!("{command:?}"), why })
}

/// Cargo, without what it has said of the running test's package: build scripts that look at those
/// variables, ring's among them, would run again, and everything above them would be compiled anew.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let of_package = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_NAME", "CARGO_BIN_"];
    for (name, _) in env::vars_os() {
        let bytes = name.as_encoded_bytes();
        if of_package.iter().any(|prefix| bytes.starts_with(prefix.as_bytes())) {
            command.env_remove(name);
        }
    }
    command
}

/// Cargo for a package that is not of this workspace: by the compiler itself, not by the one that the
/// gate puts in its place, which lints.
pub fn cargo_of_others() -> Command {
    let mut command = cargo();
    command.env_remove("RUSTC_WORKSPACE_WRAPPER").env_remove("CLIPPY_ARGS");
    command
}

/// Builds an example of this workspace. It asks for the whole workspace, as the tests do: a package
/// by itself may want other features, and then everything below it is compiled once more.
pub fn example(name: &str) -> Result<Command, ToolError> {
    run(cargo().args(["build", "-q", "--workspace", "--example", name]))?;
    let found = profile_dir();
    let profile = found.map_err(|source| ToolError::Io {
        op: "find",
        path: "the test program".into(),
        source,
    })?;
    Ok(Command::new(profile.join("examples").join(name)))
}

/// The same command once more: a [`Command`] cannot be cloned.
pub fn copy(command: &Command) -> Command {
    let mut copy = Command::new(command.get_program());
    copy.args(command.get_args());
    copy.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    copy
}
