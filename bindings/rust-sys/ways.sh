#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds quoit-sys in each way that its build script knows and runs its tests, against a libquoit installed in a prefix:
#     ./ways.sh PREFIX
# Prints a line per way. Exit status: 0 all work, 1 one does not, 2 bad usage.
set -u
here=$(cd "$(dirname "$0")" && pwd)
prefix=${1:-}
if [ -z "$prefix" ] || [ ! -f "$prefix/lib/pkgconfig/quoit.pc" ]; then
    echo "usage: ways.sh PREFIX, where PREFIX/lib/pkgconfig/quoit.pc is" >&2
    exit 2
fi
target=${CARGO_TARGET_DIR:-$here/target}/ways
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0

# way NAME WANT ENVIRONMENT... -- CARGO ARGUMENTS: WANT is dynamic or static, how the test program must be linked.
way() {
    name=$1 want=$2
    shift 2
    settings=
    while [ "$1" != -- ]; do
        settings="$settings $1"
        shift
    done
    shift
    # shellcheck disable=SC2086 # settings are words without blanks
    if ! (cd "$here" && env -u QUOIT_LIB_DIR -u QUOIT_INCLUDE_DIR -u QUOIT_STATIC -u QUOIT_NO_PKG_CONFIG -u PKG_CONFIG_PATH \
        LD_LIBRARY_PATH="$prefix/lib" $settings \
        cargo test --target-dir "$target/$name" --test layout "$@") >"$log" 2>&1; then
        tail -n 30 "$log"
        printf '%s: failed\n' "$name"
        failed=1
        return
    fi
    program=$(sed -n 's/.*(\(.*deps\/layout-[0-9a-f]*\)).*/\1/p' "$log")
    case $program in /*) ;; *) program=$here/$program ;; esac
    case $(readelf -d "$program") in *libquoit.so.1*) got=dynamic ;; *) got=static ;; esac
    if [ "$got" != "$want" ]; then
        printf '%s: linked %s, not %s\n' "$name" "$got" "$want"
        failed=1
        return
    fi
    printf '%s: ok, %s\n' "$name" "$got"
}

way pkg-config dynamic "PKG_CONFIG_PATH=$prefix/lib/pkgconfig" --
way pkg-config-static static "PKG_CONFIG_PATH=$prefix/lib/pkgconfig" QUOIT_STATIC=1 --
way folder dynamic "QUOIT_LIB_DIR=$prefix/lib" "QUOIT_INCLUDE_DIR=$prefix/include" --
way folder-static static "QUOIT_LIB_DIR=$prefix/lib" QUOIT_STATIC=1 --
way no-pkg-config dynamic QUOIT_NO_PKG_CONFIG=1 "RUSTFLAGS=-L$prefix/lib" --
way vendored static -- --features vendored
exit "$failed"
