//! The configuration, read from texts.

mod cluster_toml;
mod garbage;
mod loopback;
mod membership;
mod zoo_cfg;

use std::io;
use std::path::Path;

use zoolet_replica::ServerId;

use super::draft::Loaded;
use super::error::{ConfigError, Warning};
use super::files::{Files, Source};
use super::model::ServerConfig;

/// Files that exist only in a test.
struct Texts<'a>(&'a [(&'a str, &'a str)]);

impl Files for Texts<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let text = self.0.iter().find(|(name, _)| Path::new(name) == path);
        text.map(|(_, text)| text.as_bytes().to_vec()).ok_or(io::ErrorKind::NotFound.into())
    }
}

fn source(file: &str, text: &str) -> Source {
    Source { file: file.into(), text: text.to_owned() }
}

fn sid(id: u8) -> ServerId {
    ServerId(id)
}

/// Reads a `zoo.cfg` that no other file goes with.
fn zoo(text: &str) -> Result<Loaded, ConfigError> {
    zoo_with(text, None, &[])
}

fn zoo_with(text: &str, id: Option<u8>, files: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
    super::zoo::read(&source("zoo.cfg", text), id.map(sid), &Texts(files))
}

fn toml(text: &str, id: Option<u8>) -> Result<Loaded, ConfigError> {
    super::toml_file::read_one(&source("cluster.toml", text), id.map(sid))
}

/// `file:line` and a part of the message, for errors and warnings alike.
#[track_caller]
fn assert_says(shown: &str, expected: &str) {
    let (place, part) = expected.split_once(' ').unwrap();
    assert!(
        shown.starts_with(&format!("{place}: ")) && shown.contains(part),
        "expected `{place}` … `{part}`, got `{shown}`"
    );
}

/// The only warning of a configuration that was read.
#[track_caller]
fn only_warning(loaded: &Loaded) -> &Warning {
    let (_, warnings) = loaded;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    &warnings[0]
}

/// The configuration, which nothing was to be said about.
#[track_caller]
fn silent(loaded: Result<Loaded, ConfigError>) -> ServerConfig {
    let (config, warnings) = loaded.unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    config
}
