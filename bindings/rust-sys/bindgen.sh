#!/bin/sh
# Writes src/bindings.rs anew from the public headers (`./bindgen.sh`), or tells whether it is current (`./bindgen.sh --check`).
# Exit status: 0 done or current, 1 differs, 3 there is no bindgen of the version that wrote the committed file.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
include=${QUOIT_INCLUDE_DIR:-$here/../../capi/include}
version=0.73.2
bindgen=${BINDGEN:-bindgen}

if ! found=$("$bindgen" --version 2>/dev/null); then
    echo "bindgen.sh: no bindgen found; install it with: cargo install bindgen-cli --version $version" >&2
    exit 3
fi
if [ "$found" != "bindgen $version" ]; then
    echo "bindgen.sh: found $found, but the committed file is written by $version (others format differently)" >&2
    exit 3
fi

out=$here/src/bindings.rs
if [ "${1:-}" = --check ]; then
    out=$(mktemp)
    trap 'rm -f "$out"' EXIT
fi
"$bindgen" "$include/quoit/quoit.h" \
    --allowlist-item '(quoit|QUOIT)_.*' \
    --with-derive-default --no-default 'quoit_(runtime|worker|addr|probe_entry)' \
    --use-core --no-layout-tests --no-doc-comments --merge-extern-blocks --sort-semantically \
    --rust-target 1.85 --rust-edition 2021 --formatter rustfmt --rustfmt-configuration-file "$here/rustfmt.toml" \
    --raw-line '// Written by bindgen.sh from quoit/quoit.h; do not edit.' \
    --output "$out" -- -std=c11
if [ "${1:-}" = --check ] && ! diff -u "$here/src/bindings.rs" "$out"; then
    echo "bindgen.sh: src/bindings.rs is not what the headers say now; run ./bindgen.sh" >&2
    exit 1
fi
