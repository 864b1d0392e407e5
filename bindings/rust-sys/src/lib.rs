// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raw bindings to `libquoit`: the declarations of `quoit/quoit.h`, one to one.
//!
//! Everything here is as unsafe as the C that it names; the C headers say what each call does, who may call it and what
//! it owns. The safe face is the crate `quoit`. A program needs one libquoit, so one version of this crate: its version
//! follows the library's SONAME.
//!
//! How the library is found is decided by the build script:
//!
//! | variable or feature | effect |
//! |---|---|
//! | `QUOIT_LIB_DIR`, `QUOIT_INCLUDE_DIR` | take the library (and headers) from there, without pkg-config |
//! | `QUOIT_NO_PKG_CONFIG` | never ask pkg-config |
//! | `QUOIT_STATIC` | link `libquoit.a` and what it needs |
//! | feature `vendored` | compile the C sources, link them statically |
//!
//! Build scripts of dependents read `DEP_QUOIT_INCLUDE`, `DEP_QUOIT_ROOT`, `DEP_QUOIT_LIB` and `DEP_QUOIT_VERSION`.
#![no_std]
#![allow(non_camel_case_types)]

#[cfg(not(target_os = "linux"))]
compile_error!("quoit runs on Linux only");

mod bindings;
pub mod layout;

pub use bindings::*;
