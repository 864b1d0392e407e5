//! The feature `vendored`: compiles runtime/ and capi/src of the quoit sources with the cc crate.

use std::env;
use std::path::{Path, PathBuf};

/// A published package carries the sources in vendor/; a checkout has them two folders up.
fn sources() -> Option<PathBuf> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    [here.join("vendor"), here.join("../..")]
        .into_iter()
        .find(|root| root.join("capi/include/quoit/quoit.h").exists())
}

pub fn build() {
    let Some(root) = sources() else {
        println!("cargo::error=the C sources of quoit are in neither vendor/ nor ../.. of quoit-sys");
        return;
    };
    let root = root.canonicalize().unwrap_or(root);
    let include = root.join("capi/include");
    let mut files = Vec::new();
    for folder in ["runtime", "capi/src"] {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
        collect(&root.join(folder), &mut files);
    }
    println!("cargo::rerun-if-changed={}", include.display());
    files.sort();

    let mut build = cc::Build::new();
    build.files(&files).include(&include).include(&root).include(root.join("runtime"));
    build
        .std("gnu17")
        .flag("-fvisibility=hidden")
        .flag("-pthread")
        .define("_GNU_SOURCE", None)
        .warnings(false);
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
