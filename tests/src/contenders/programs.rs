//! The commands of the programs in `interop/contest`; each is built once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::apache;
use crate::programs::require_c_library;
use crate::tools::{self, ToolError};

/// Compiles a Java program once, with the jars it needs beside it.
pub fn java(name: &str, sources: &[&str], main: &str) -> Result<Command, ToolError> {
    let directory = tools::interop_dir("contest");
    let own = directory.join(name);
    let mut inputs = vec![own.join("pom.xml"), directory.join("java").join("Contest.java")];
    inputs.extend(sources.iter().map(|source| own.join(source)));
    let directory = tools::prepare_once(&format!("contest-{name}"), &inputs, |directory| {
        tools::run(Command::new("mvn").args(["-q", "-B", "compile"]).current_dir(directory))
    })?;
    let mut classpath: OsString = directory.join("classes").into_os_string();
    classpath.push(":");
    classpath.push(directory.join(Path::new("jars").join("*")));
    let mut command = apache::java(&classpath);
    command.arg(format!("contest.{main}"));
    Ok(command)
}

/// Compiles the program over the C library once.
pub fn c() -> Result<Command, ToolError> {
    require_c_library()?;
    let source = tools::interop_dir("contest").join("c").join("contest.c");
    let directory = tools::prepare_once("contest-c", &[source], |directory| {
        tools::run(
            Command::new("gcc")
                .args(["-std=c11", "-D_GNU_SOURCE", "-DTHREADED", "-O1", "-g"])
                .args(["-Wall", "-Wextra", "-Werror", "-o", "contest", "contest.c"])
                .args(["-lzookeeper_mt", "-lpthread"])
                .current_dir(directory),
        )
    })?;
    Ok(Command::new(directory.join("contest")))
}

/// The program over kazoo.
pub fn kazoo() -> Result<Command, ToolError> {
    let mut command = Command::new(crate::kazoo::python()?);
    command.arg(tools::interop_dir("contest").join("kazoo").join("contest.py"));
    Ok(command)
}

/// Compiles the program over Go's library once.
pub fn go() -> Result<Command, ToolError> {
    let source = tools::interop_dir("contest").join("go");
    let inputs: [PathBuf; 3] = ["go.mod", "go.sum", "main.go"].map(|file| source.join(file));
    let directory = tools::prepare_once("contest-go", &inputs, |directory| {
        tools::run(Command::new("go").args(["build", "-o", "contest", "."]).current_dir(directory))
    })?;
    Ok(Command::new(directory.join("contest")))
}

/// Builds the program over the client's own recipes, an example of this package.
pub fn recipes() -> Result<Command, ToolError> {
    tools::example("recipe_contest")
}
