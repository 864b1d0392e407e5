#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Every formatter, linter and type checker over the files that git knows: `./dev lint [NAME]` runs all, or those
# whose names begin with NAME. Sees the environment that ./dev makes. Exit 0 clean, 1 not, 3 nothing was run.
set -u

only=${1:-}
ran=0 bad=0 lacking=""
log=build/lint.log
bin=build/venv/bin

files() {
    git -c safe.directory="$PWD" ls-files -- "$@"
}

# check NAME TOOL COMMAND...: runs the command when the tool is there, and shows its output when it fails.
check() {
    name=$1 tool=$2
    shift 2
    case $name in "$only"*) ;; *) return 0 ;; esac
    if ! command -v "$tool" >/dev/null 2>&1; then
        lacking="$lacking $name"
        return 0
    fi
    ran=$((ran + 1))
    if "$@" >"$log" 2>&1 </dev/null; then
        echo "lint: $name: clean"
    else
        bad=$((bad + 1))
        tail -n 60 "$log"
        echo "lint: $name: NOT clean"
    fi
}

format_c() {
    files '*.c' '*.h' | xargs clang-format --dry-run -Werror
}

# The files that the build compiles, two at a time; only what it complains of is shown.
tidy() {
    found=$(sed -n 's/^ *"file": "\(.*\)",*$/\1/p' build/dev/compile_commands.json | grep -v '/build/' | sort -u |
        xargs -P 2 -n 4 clang-tidy --quiet -p build/dev --extra-arg=-Wno-unknown-warning-option 2>/dev/null |
        grep -E ' (error|warning): ' | sort -u)
    printf '%s\n' "$found"
    [ -z "$found" ]
}

ruff_check() {
    "$bin/ruff" check --no-cache .
}

mypy_binding() {
    (cd bindings/python && "../../$bin/mypy" --cache-dir=/dev/null)
}

mypy_tools() {
    MYPYPATH=tools:tools/test:tests/headers "$bin/mypy" --strict --explicit-package-bases --cache-dir=/dev/null \
        tools/results.py tools/test/*.py tests/headers/*.py
}

mypy_torture() {
    (cd tests/torture/python && "../../../$bin/mypy" --strict --cache-dir=/dev/null torture.py)
}

go_format() {
    test -z "$(files '*.go' | xargs gofmt -l | tee /dev/stderr)"
}


go_vet() {
    for folder in bindings/go examples/go; do
        (cd "$folder" && go vet ./...) || return 1
    done
}

go_static() {
    for folder in bindings/go examples/go; do
        (cd "$folder" && staticcheck ./...) || return 1
    done
}

rust_format() {
    for folder in bindings/rust-sys bindings/rust examples/rust tests/torture/rust; do
        (cd "$folder" && cargo fmt --check) || return 1
    done
}

rust_clippy() {
    for folder in bindings/rust-sys bindings/rust examples/rust tests/torture/rust; do
        (cd "$folder" && cargo clippy --all-targets -q -- -D warnings) || return 1
    done
    (cd bindings/rust && cargo clippy --all-targets -q --features futures-io,tokio-io -- -D warnings)
}

shells() {
    {
        files '*.sh'
        files dev .ci/run
        # Programs without a suffix that a shell runs.
        files tools tests bindings | xargs grep -lE '^#!/(usr/bin/env )?(ba|da)?sh|^#!/bin/(ba|da)?sh' 2>/dev/null
    } | sort -u | xargs shellcheck -x -S warning
}

check clang-format clang-format format_c
check clang-tidy clang-tidy tidy
check ruff "$bin/ruff" ruff_check
check mypy-binding "$bin/mypy" mypy_binding
check mypy-tools "$bin/mypy" mypy_tools
check mypy-torture "$bin/mypy" mypy_torture
check gofmt gofmt go_format
check go-vet go go_vet
check staticcheck staticcheck go_static
check rustfmt cargo-fmt rust_format
check clippy cargo-clippy rust_clippy
check shellcheck shellcheck shells

[ -z "$lacking" ] || echo "lint: not run, the tool is not here:$lacking"
echo "lint: $((ran - bad)) passed, $bad failed, $(echo "$lacking" | wc -w) skipped"
[ "$ran" -gt 0 ] || exit 3
[ "$bad" -eq 0 ]
