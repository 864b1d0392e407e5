// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds libquoit: compiled from source with the feature `vendored`, else where the environment says, else by pkg-config.

use std::env;
use std::path::Path;
#[cfg(not(feature = "vendored"))]
use std::path::PathBuf;

#[cfg(feature = "vendored")]
#[path = "build/vendored.rs"]
mod vendored;

const VARIABLES: [&str; 6] = [
    "QUOIT_NO_PKG_CONFIG",
    "QUOIT_STATIC",
    "QUOIT_LIB_DIR",
    "QUOIT_INCLUDE_DIR",
    "DOCS_RS",
    "PKG_CONFIG_PATH",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for name in VARIABLES {
        println!("cargo::rerun-if-env-changed={name}");
    }
    // Documentation is made without linking, on machines that have no libquoit.
    if env::var_os("DOCS_RS").is_some() {
        return;
    }
    #[cfg(feature = "vendored")]
    vendored::build();
    #[cfg(not(feature = "vendored"))]
    find();
}

/// "", "0" and "false" count as not set.
#[cfg(not(feature = "vendored"))]
fn asked(name: &str) -> bool {
    env::var(name).is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}

#[cfg(not(feature = "vendored"))]
fn find() {
    let link_static = asked("QUOIT_STATIC");
    if let Some(dir) = env::var_os("QUOIT_LIB_DIR") {
        return link_from(Path::new(&dir), link_static);
    }
    if asked("QUOIT_NO_PKG_CONFIG") {
        println!("cargo::rustc-link-lib={}quoit", if link_static { "static=" } else { "" });
        if link_static {
            link_needs();
        }
        return include_from_env();
    }
    match pkg_config::Config::new().atleast_version("0.1.0").statik(link_static).probe("quoit") {
        Ok(library) => {
            let include = library.include_paths.first().cloned().or_else(|| variable("includedir"));
            let root = variable("prefix");
            tell(include.as_deref(), root.as_deref(), library.link_paths.first().map(PathBuf::as_path));
            println!("cargo::metadata=version={}", library.version);
        }
        Err(error) => {
            println!("cargo::error=libquoit was not found: {error}");
            println!(
                "cargo::error=install it (its quoit.pc must be on PKG_CONFIG_PATH), or set QUOIT_LIB_DIR to the folder \
                 of libquoit.so, or turn on the feature `vendored` of quoit-sys to compile it"
            );
        }
    }
}

#[cfg(not(feature = "vendored"))]
fn variable(name: &str) -> Option<PathBuf> {
    pkg_config::get_variable("quoit", name).ok().filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The folder of a build or an installation, named by hand.
#[cfg(not(feature = "vendored"))]
fn link_from(dir: &Path, link_static: bool) {
    let name = if link_static { "libquoit.a" } else { "libquoit.so" };
    if !dir.join(name).exists() {
        println!("cargo::error=QUOIT_LIB_DIR is {}, which has no {name}", dir.display());
        return;
    }
    println!("cargo::rustc-link-search=native={}", dir.display());
    println!("cargo::rustc-link-lib={}quoit", if link_static { "static=" } else { "" });
    if link_static {
        link_needs();
    }
    println!("cargo::metadata=lib={}", dir.display());
    include_from_env();
}

/// What a static libquoit needs of the system.
#[cfg(not(feature = "vendored"))]
fn link_needs() {
    for name in ["uring", "ffi"] {
        println!("cargo::rustc-link-lib={name}");
    }
}

#[cfg(not(feature = "vendored"))]
fn include_from_env() {
    let include = env::var_os("QUOIT_INCLUDE_DIR").map(PathBuf::from);
    tell(include.as_deref(), include.as_deref().and_then(Path::parent), None);
    if let Some(version) = include.as_deref().and_then(header_version) {
        println!("cargo::metadata=version={version}");
    }
}

/// The keys that build scripts of dependents read as DEP_QUOIT_*.
fn tell(include: Option<&Path>, root: Option<&Path>, lib: Option<&Path>) {
    for (key, path) in [("include", include), ("root", root), ("lib", lib)] {
        if let Some(path) = path {
            println!("cargo::metadata={key}={}", path.display());
        }
    }
}

/// QUOIT_VERSION_TEXT as written in quoit/base.h.
fn header_version(include: &Path) -> Option<String> {
    let header = include.join("quoit").join("base.h");
    println!("cargo::rerun-if-changed={}", header.display());
    let text = std::fs::read_to_string(header).ok()?;
    let line = text.lines().find(|line| line.starts_with("#define QUOIT_VERSION_TEXT"))?;
    Some(line.split('"').nth(1)?.to_string())
}
