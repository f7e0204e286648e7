//! Gives the programs of this package a `getrandom` of their own: see `chance.c`.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=chance.c");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names the directory"));
    let object = out.join("chance.o");
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let status = Command::new(compiler)
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-c", "chance.c", "-o"])
        .arg(&object)
        .status()
        .expect("a C compiler is needed");
    assert!(status.success(), "chance.c does not compile");
    // As an object, because libraries give only what is still missing, and the C library has it too.
    println!("cargo:rustc-link-arg={}", object.display());
    // Those who look for the function by its name find this one as well.
    println!("cargo:rustc-link-arg=-Wl,--export-dynamic-symbol=getrandom");
}
