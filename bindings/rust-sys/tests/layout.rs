// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rust's layouts and constants against the layout.json that C writes: the file that QUOIT_LAYOUT_JSON names, else what
//! capi/layout.c of this checkout prints. The frozen numbers are asserted at compile time in src/layout.rs in any case.

use quoit_sys::layout::LAYOUTS;
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

mod json;
use json::Value;

fn number(value: &Value) -> i64 {
    match value {
        Value::Number(number) => *number,
        other => panic!("a number was expected, not {other:?}"),
    }
}

fn layout_json() -> Option<Value> {
    let text = match std::env::var_os("QUOIT_LAYOUT_JSON") {
        Some(path) => std::fs::read_to_string(path).expect("QUOIT_LAYOUT_JSON can be read"),
        None => print_layout()?,
    };
    Some(json::parse(&text).expect("layout.json is JSON"))
}

/// Compiles and runs capi/layout.c.
fn print_layout() -> Option<String> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    let capi = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../capi");
    if !capi.join("layout.c").exists() {
        // Past the test runner's capture of what tests print.
        writeln!(std::io::stderr(), "skipped: no QUOIT_LAYOUT_JSON, and this is no checkout of quoit").ok();
        return None;
    }
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("layout");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut compile = Command::new(compiler);
    compile.arg("-I").arg(capi.join("include")).arg(capi.join("layout.c")).arg("-o").arg(&program);
    assert!(compile.status().expect("a C compiler is there").success(), "capi/layout.c does not compile");
    let output = Command::new(program).output().expect("layout runs");
    Some(String::from_utf8(output.stdout).expect("layout.json is UTF-8"))
}

#[test]
fn structs_are_as_c_says() {
    let Some(json) = layout_json() else { return };
    let structs = json.get("structs").object();
    let names: Vec<&str> = LAYOUTS.iter().map(|layout| layout.name).collect();
    for name in structs.keys() {
        assert!(names.contains(&name.as_str()), "src/layout.rs lacks {name}");
    }
    for layout in LAYOUTS {
        let c = structs.get(layout.name).unwrap_or_else(|| panic!("C has no {}", layout.name));
        assert_eq!(number(c.get("size")), layout.size as i64, "size of {}", layout.name);
        assert_eq!(number(c.get("align")), layout.align as i64, "alignment of {}", layout.name);
        let fields: Vec<(String, i64, i64)> = c
            .get("fields")
            .array()
            .iter()
            .map(|field| {
                (
                    field.get("name").string().to_string(),
                    number(field.get("offset")),
                    number(field.get("size")),
                )
            })
            .collect();
        let ours: Vec<(String, i64, i64)> = layout
            .fields
            .iter()
            .map(|(name, offset, size)| (name.to_string(), *offset as i64, *size as i64))
            .collect();
        assert_eq!(fields, ours, "fields of {}", layout.name);
    }
}

#[test]
fn constants_are_as_c_says() {
    let Some(json) = layout_json() else { return };
    let source = include_str!("../src/bindings.rs");
    let ours: HashMap<&str, i64> = source
        .lines()
        .filter_map(|line| line.strip_prefix("pub const ")?.strip_suffix(';')?.split_once(" = "))
        .filter_map(|(name, value)| Some((name.split(':').next()?, value.parse().ok()?)))
        .collect();
    let mut checked = 0;
    for family in json.get("constants").object().values() {
        for (name, value) in family.object() {
            assert_eq!(ours.get(name.as_str()), Some(&number(value)), "{name}");
            checked += 1;
        }
    }
    assert!(checked > 100, "only {checked} constants");
}

#[test]
fn the_library_is_of_these_headers() {
    // SAFETY: both may be called at any time, and the text is static.
    let (number, text) =
        unsafe { (quoit_sys::quoit_version(), std::ffi::CStr::from_ptr(quoit_sys::quoit_version_text())) };
    assert_eq!(number, quoit_sys::QUOIT_VERSION_NUM);
    assert_eq!(text.to_bytes_with_nul(), quoit_sys::QUOIT_VERSION_TEXT);
}
