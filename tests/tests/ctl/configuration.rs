//! Named ensembles and credentials: from a configuration file, the environment and files of their
//! own, and never from the command line.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use zoolet_tests::scenes::Scene;
use zoolet_tests::zooletctl;

use crate::harness::{CtlScene, Said, said};

/// Writes a file that its owner alone may read.
fn write(directory: &Path, name: &str, text: &str) -> PathBuf {
    let file = directory.join(name);
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    file
}

/// Runs a command that has its configuration from a file.
fn configured(file: &Path, words: &[&str]) -> Said {
    said(command(file).args(words))
}

fn command(file: &Path) -> Command {
    let mut command = zooletctl::command().unwrap();
    command.env("ZOOLETCTL_CONFIG", file).args(["--timeout", "30s"]).stdin(Stdio::null());
    command
}

pub(crate) async fn ensembles_have_names_and_identities(scene: &Scene) {
    let directory = tempfile::tempdir().unwrap();
    let servers = &scene.servers;
    write(directory.path(), "others", "# the second one\n\ndigest:second:x\ndigest:third:y\n");
    let file = write(
        directory.path(),
        "config.toml",
        &format!(
            "default_ensemble = \"here\"\n\
             [ensembles.here]\nservers = \"{servers}\"\nauth = \"digest:first:x\"\n\
             [ensembles.root]\nservers = \"{servers}{}\"\nauth_file = \"others\"\n",
            scene.znode().await
        ),
    );
    let names = |said: Said| {
        let mut names: Vec<String> = said.well().lines().map(str::to_owned).collect();
        names.retain(|line| line.starts_with("digest: "));
        names.sort();
        names
    };
    assert_eq!(names(configured(&file, &["whoami"])), ["digest: first"]);
    let root = ["--ensemble", "root"];
    let whoami = [&root[..], &["whoami"]].concat();
    assert_eq!(names(configured(&file, &whoami)), ["digest: second", "digest: third"]);
    assert_eq!(configured(&file, &[&root[..], &["ls", "/"]].concat()).well(), "");
    let mut chosen = command(&file);
    chosen.args(["whoami"]).env("ZOOLETCTL_ENSEMBLE", "root");
    assert_eq!(names(said(&mut chosen)), ["digest: second", "digest: third"]);
    // Other servers get none of them, and a flag precedes the environment.
    assert_eq!(names(configured(&file, &["--servers", servers, "whoami"])), [""; 0]);
    let others = directory.path().join("others");
    let mut own = command(&file);
    own.args(["whoami", "--auth-file"]).arg(&others).env("ZOOLETCTL_AUTH", "digest:fourth:z");
    assert_eq!(names(said(&mut own)), ["digest: second", "digest: third"]);
    let mut own = command(&file);
    own.arg("whoami").env("ZOOLETCTL_AUTH", "digest:fourth:z\ndigest:fifth:z");
    assert_eq!(names(said(&mut own)), ["digest: fifth", "digest: fourth"]);

    configured(&file, &["--ensemble", "nowhere", "ls", "/"]).badly(3, "names here, root");
    configured(&file, &["--ensemble", "here", "-s", servers, "ls", "/"]).badly(128, "both");
    let broken = write(directory.path(), "broken.toml", "[ensembles.x]\nserver = \"a:1\"\n");
    configured(&broken, &["ls", "/"]).badly(3, "broken.toml:2: unknown key \"server\"; known are ");
    // What needs no server needs no configuration.
    configured(&broken, &["version"]).well();
    configured(&directory.path().join("none"), &["ls", "/"]).badly(6, "none: No such file");
}

pub(crate) async fn passwords_are_kept_from_other_users(scene: &Scene) {
    let directory = tempfile::tempdir().unwrap();
    let text =
        format!("[ensembles.x]\nservers = \"{}\"\nauth = \"digest:a:hidden\"\n", scene.servers);
    let file = write(directory.path(), "config.toml", &text);
    let whoami = ["--ensemble", "x", "whoami"];
    configured(&file, &whoami).well();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let warned = configured(&file, &whoami);
    assert!(warned.code == Some(0) && warned.out.contains("digest: a"), "{warned:?}");
    let warning = format!("Warning: {}: other users may read the credentials", file.display());
    assert!(warned.err.starts_with(&warning) && warned.err.contains("chmod 600"), "{warned:?}");
    let warned = configured(&file, &[&["--json"], &whoami[..]].concat());
    assert!(warned.err.starts_with("{\"warning\":{\"message\":"), "{warned:?}");
    // A file without credentials may be read by all.
    fs::write(&file, text.replace("auth", "# auth")).unwrap();
    configured(&file, &whoami).well();

    for (words, instead) in [
        (&["--auth", "digest:a:hidden", "ls", "/"][..], "--auth-file"),
        (&["ls", "/", "--auth", "digest:a:hidden"], "ZOOLETCTL_AUTH"),
        (&["--trust-store-password", "hidden", "ls", "/"], "ZOOLETCTL_TRUST_STORE_PASSWORD"),
        (&["--key-store-password", "hidden", "ls", "/"], "ZOOLETCTL_KEY_STORE_PASSWORD"),
        (&["addauth", "digest", "a:hidden"], "ZOOLETCTL_AUTH"),
        (&["digest", "a:hidden"], "standard input"),
    ] {
        let refused = scene.ctl(words);
        assert!(!refused.err.contains("hidden"), "{refused:?}");
        refused.badly(128, instead);
    }
}
