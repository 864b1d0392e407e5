// SPDX-License-Identifier: MIT OR Apache-2.0
//! The committed bindings are what bindgen makes of the headers today.

use std::io::Write;
use std::process::Command;

#[test]
fn committed_bindings_are_current() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/bindgen.sh");
    let output = Command::new(script).arg("--check").output().expect("bindgen.sh starts");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => {}
        Some(3) => {
            // Past the test runner's capture of what tests print.
            writeln!(std::io::stderr(), "skipped: {text}").ok();
        }
        _ => panic!("{text}"),
    }
}
