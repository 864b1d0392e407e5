#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Writes src/bindings.rs anew from the public headers (`./bindgen.sh`), or tells whether it is current (`./bindgen.sh --check`).
# Exit status: 0 done or current, 1 differs, 3 there is no bindgen of the version that wrote the committed file.
# Checking needs no rustfmt: white space and commas do not count.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
include=${QUOIT_INCLUDE_DIR:-$here/../../capi/include}
committed=$here/src/bindings.rs
version=0.60.1 # Debian 12's
bindgen=${BINDGEN:-bindgen}

if ! found=$("$bindgen" --version 2>/dev/null); then
    echo "bindgen.sh: no bindgen found; install it with: apt install bindgen (Debian 12) or cargo install bindgen --version $version" >&2
    exit 3
fi
if [ "$found" != "bindgen $version" ]; then
    echo "bindgen.sh: found $found, but the committed file is written by $version (others write it differently)" >&2
    exit 3
fi

new=$(mktemp)
trap 'rm -f "$new" "$new".*' EXIT
"$bindgen" "$include/quoit/quoit.h" \
    --allowlist-type 'quoit_.*' --allowlist-function 'quoit_.*' --allowlist-var 'QUOIT_.*' \
    --with-derive-default --no-default 'quoit_(runtime|worker|addr|probe_entry|bind_options|packet_info)' \
    --use-core --ctypes-prefix ::core::ffi --no-layout-tests --no-doc-comments --no-rustfmt-bindings \
    --raw-line '// SPDX-License-Identifier: MIT OR Apache-2.0' \
    --raw-line '// Written by bindgen.sh from quoit/quoit.h; do not edit.' \
    --output "$new" -- -std=c11

if [ "${1:-}" != --check ]; then
    rustfmt --edition 2021 --config-path "$here/rustfmt.toml" <"$new" >"$committed"
    exit 0
fi
# One declaration a line, so that a difference can be read.
plain() {
    tr -d ' \n\t,' <"$1" | sed 's/[;{}]/&\n/g'
}
plain "$committed" >"$new.old"
plain "$new" >"$new.now"
if ! diff -u "$new.old" "$new.now"; then
    echo "bindgen.sh: src/bindings.rs is not what the headers say now; run ./bindgen.sh" >&2
    exit 1
fi
