// SPDX-License-Identifier: MIT OR Apache-2.0
//! The feature `vendored`: compiles runtime/ and capi/src of the quoit sources with the cc crate.

use std::env;
use std::path::{Path, PathBuf};

pub fn build() {
    // In a checkout vendor/ has links to the sources; a published package has the files themselves.
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("vendor");
    let include = root.join("capi/include");
    if !include.join("quoit/quoit.h").exists() {
        println!("cargo::error=the C sources of quoit are not in {}", root.display());
        return;
    }
    let mut files = Vec::new();
    for folder in ["runtime", "capi/src"] {
        watch(&root.join(folder));
        collect(&root.join(folder), &mut files);
    }
    watch(&include);
    files.sort();

    let mut build = cc::Build::new();
    build.files(&files).include(&include).include(&root).include(root.join("runtime"));
    build
        .std("gnu17")
        .flag("-fvisibility=hidden")
        .flag("-pthread")
        .define("_GNU_SOURCE", None)
        .opt_level(2)
        .warnings(false);
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        build.define("NDEBUG", None);
    }
    for name in ["liburing", "libffi"] {
        match pkg_config::Config::new().cargo_metadata(false).probe(name) {
            Ok(library) => {
                build.includes(&library.include_paths);
            }
            Err(error) => {
                println!("cargo::error=the feature `vendored` needs {name} with its headers: {error}")
            }
        }
    }
    build.compile("quoit");
    // After the archive that needs them, so that linkers which read archives once find their symbols.
    for name in ["liburing", "libffi"] {
        pkg_config::Config::new().probe(name).ok();
    }
    super::tell(Some(&include), Some(&root), env::var_os("OUT_DIR").as_deref().map(Path::new));
    if let Some(version) = super::header_version(&include) {
        println!("cargo::metadata=version={version}");
    }
}

/// Compile again when something in a folder changes; a link is watched where it leads.
fn watch(folder: &Path) {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    println!("cargo::rerun-if-changed={}", folder.display());
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "c") {
            files.push(path);
        }
    }
}
