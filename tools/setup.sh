# shellcheck shell=sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Makes a machine ready: sourced by ./dev, which has set $root and stands in it. `setup native python go rust tests`
# installs what is missing (Debian packages, a Python environment in build/venv), says what it installs, and puts
# the toolchains that it found on PATH. What is there already is left alone, so a second run does nothing.

# shellcheck disable=SC2154 # ./dev sets root
setup_log=$root/build/setup.log
setup_venv=$root/build/venv
setup_missing=""

setup_say() {
    printf 'setup: %s\n' "$*"
}

setup_die() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

# Run with the output kept in build/setup.log; it is shown only when the command fails.
setup_quiet() {
    if ! "$@" >"$setup_log.part" 2>&1 </dev/null; then
        tail -n 30 "$setup_log.part" >&2
        cat "$setup_log.part" >>"$setup_log"
        return 1
    fi
    cat "$setup_log.part" >>"$setup_log"
}

setup_as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        return 127
    fi
}

# need PACKAGE COMMAND...: the package is missing when the command fails.
setup_need() {
    package=$1
    shift
    "$@" >/dev/null 2>&1 || setup_missing="$setup_missing $package"
}

setup_apt_install() {
    setup_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@"
}

setup_apt_update() {
    setup_say "reading the package lists (apt-get update)"
    setup_quiet setup_as_root apt-get update -o Acquire::Retries=3 ||
        setup_die "apt-get update failed (above): check the network and /etc/apt, then run the command again."
}

# Install what setup_need collected.
setup_packages() {
    [ -n "$setup_missing" ] || return 0
    packages=$setup_missing
    setup_missing=""
    if ! command -v apt-get >/dev/null 2>&1; then
        setup_die "missing here (names of Debian packages):$packages. There is no apt-get: install them by hand."
    fi
    if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null 2>&1; then
        setup_die "missing packages:$packages. Run as root or install sudo, or: apt-get install$packages"
    fi
    setup_say "installing with apt:$packages"
    updated=no
    if ! ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1; then
        setup_apt_update
        updated=yes
    fi
    # shellcheck disable=SC2086 # a list of words
    if ! setup_apt_install $packages >>"$setup_log" 2>&1 </dev/null; then
        # Old package lists name files that are gone: read them anew, once.
        [ "$updated" = yes ] || setup_apt_update
        # shellcheck disable=SC2086
        setup_quiet setup_apt_install $packages ||
            setup_die "apt could not install$packages (above). On anything but Debian 12, install them by hand."
    fi
    # shellcheck disable=SC2086
    printf '%s\n' $packages >>"$root/build/setup-installed"
}

setup_in_path() {
    command -v "$1"
}

# version_at_least 1.19 1.9: is the second at least the first?
setup_version_at_least() {
    [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

setup_has_header() {
    command -v cc && printf '#include <%s>\n' "$1" | cc -E -
}

setup_has_certificates() {
    test -s /etc/ssl/certs/ca-certificates.crt
}

setup_has_bindgen() {
    command -v bindgen && printf '#include <stddef.h>\n' >build/bindgen.h && bindgen build/bindgen.h
}

setup_native() {
    setup_need gcc setup_in_path cc
    setup_need libc6-dev setup_has_header stdio.h
    setup_need cmake setup_in_path cmake
    setup_need ninja-build setup_in_path ninja
    setup_need pkg-config setup_in_path pkg-config
    setup_need liburing-dev pkg-config --exists "liburing >= 2.3"
    setup_need libffi-dev pkg-config --exists libffi
    setup_need git setup_in_path git
    setup_packages
    found=$(cmake --version | sed -n 's/^cmake version //p')
    setup_version_at_least 3.25 "$found" ||
        setup_die "CMake $found is too old: 3.25 or newer is needed (Debian 12 has it)."
}

# The compiled tests, the ABI tools, the languages that only read the headers, tracing, the model checker.
setup_tests() {
    setup_need libcmocka-dev pkg-config --exists cmocka
    setup_need g++ setup_in_path g++
    setup_need swig setup_in_path swig
    # bindgen loads libclang when it runs, and clang's own headers with it.
    setup_need "bindgen libclang1-14 libclang-common-14-dev" setup_has_bindgen
    setup_need strace setup_in_path strace
    setup_need spin setup_in_path spin
    setup_need binutils setup_in_path readelf
    setup_need dpkg-dev setup_in_path dpkg-gensymbols
    setup_need abigail-tools setup_in_path abidw
    setup_need abi-dumper setup_in_path abi-dumper
    setup_need universal-ctags setup_in_path ctags
    setup_need abi-compliance-checker setup_in_path abi-compliance-checker
    setup_packages
}

# Guests with other kernels, which come from Debian's archive.
setup_kernels() {
    setup_need qemu-system-x86 setup_in_path qemu-system-x86_64
    setup_need debian-archive-keyring test -s /usr/share/keyrings/debian-archive-keyring.gpg
    setup_packages
}

# Formatters differ from version to version: the tree is formatted by Debian 12's.
setup_has_clang_format() {
    clang-format --version | grep -q 'version 14\.'
}

setup_lint() {
    setup_need clang-format-14 setup_has_clang_format
    setup_need clang-tidy setup_in_path clang-tidy
    setup_need shellcheck setup_in_path shellcheck
    setup_packages
}

# A python3 of 3.11 or newer that can make environments and compile extensions.
setup_python_works() {
    "$1" - <<'PY'
import ensurepip, os, sys, sysconfig, venv
ok = sys.version_info >= (3, 11) and os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
raise SystemExit(0 if ok else 1)
PY
}

setup_find_python() {
    for candidate in python3 /usr/bin/python3 python3.11 python3.12 python3.13 python3.14; do
        if command -v "$candidate" >/dev/null 2>&1 && setup_python_works "$candidate" >/dev/null 2>&1; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

# setup_python FILE: an environment in build/venv with what FILE asks for.
setup_python() {
    if ! "$setup_venv/bin/python" -c 'import pip' >/dev/null 2>&1; then
        if ! python=$(setup_find_python); then
            setup_missing="$setup_missing python3 python3-venv python3-dev"
            setup_need ca-certificates setup_has_certificates
            setup_packages
            python=$(setup_find_python) ||
                setup_die "Python 3.11 or newer with venv and headers is needed and apt has none: install one by hand."
        fi
        setup_say "making a Python environment in build/venv with $python"
        rm -rf "$setup_venv"
        setup_quiet "$python" -m venv "$setup_venv" ||
            setup_die "$python cannot make an environment (above): remove build/venv and install python3-venv."
    fi
    setup_need ca-certificates setup_has_certificates
    setup_packages
    # The environment for tests holds what the other one asks for.
    sum=$(cat tools/requirements*.txt | cksum)
    stamp=$setup_venv/.quoit-$(basename "$1")
    [ "$(cat "$stamp" 2>/dev/null)" != "$sum" ] || return 0
    setup_say "installing with pip into build/venv: $(setup_wanted "$1" | tr '\n' ' ')"
    setup_quiet "$setup_venv/bin/python" -m pip install -q --disable-pip-version-check -r "$1" ||
        setup_die "pip failed (above): check the network and the pip configuration, then run the command again."
    printf '%s\n' "$sum" >"$stamp"
    printf '%s\n' "$sum" >"$setup_venv/.quoit-requirements.txt"
    setup_wanted "$1" | sed 's/^/pip: /' >>"$root/build/setup-installed"
}

# The packages that a requirements file asks for, with those of the first one, which it includes.
setup_wanted() {
    cat tools/requirements.txt "$1" | grep -v '^#\|^-r' | sort -u
}

setup_go_version() {
    go env GOVERSION 2>/dev/null | sed 's/^go//; s/[^0-9.].*//'
}

setup_go() {
    for folder in "" /usr/local/go/bin /usr/lib/go/bin; do
        candidate=$PATH
        [ -z "$folder" ] || candidate=$folder:$PATH
        if found=$(PATH=$candidate setup_go_version) && [ -n "$found" ] && setup_version_at_least 1.19 "$found"; then
            PATH=$candidate
            export PATH
            return 0
        fi
    done
    setup_missing="$setup_missing golang-go"
    setup_need ca-certificates setup_has_certificates
    setup_packages
    found=$(setup_go_version)
    if [ -z "$found" ] || ! setup_version_at_least 1.19 "$found"; then
        setup_die "Go 1.19 or newer is needed and apt gave ${found:-none}: install one and put it on PATH."
    fi
}

setup_rust_version() {
    cargo --version >/dev/null 2>&1 && rustc --version 2>/dev/null | sed 's/^rustc //; s/[^0-9.].*//'
}

setup_rust() {
    for folder in "" "${CARGO_HOME:-${HOME:-/root}/.cargo}/bin" /usr/local/cargo/bin; do
        candidate=$PATH
        [ -z "$folder" ] || candidate=$folder:$PATH
        if found=$(PATH=$candidate setup_rust_version) && [ -n "$found" ] && setup_version_at_least 1.85 "$found"; then
            PATH=$candidate
            export PATH
            return 0
        fi
    done
    # Debian 12's plain cargo and rustc are too old; these are its current ones and take their place.
    if command -v dpkg >/dev/null 2>&1 && dpkg -s rustc >/dev/null 2>&1; then
        setup_say "Debian's rustc $(rustc --version | cut -d' ' -f2) is too old: apt replaces it by rustc-web"
    fi
    setup_missing="$setup_missing cargo-web rustc-web"
    setup_need ca-certificates setup_has_certificates
    setup_packages
    hash -r
    found=$(setup_rust_version)
    if [ -z "$found" ] || ! setup_version_at_least 1.85 "$found"; then
        setup_die "Rust 1.85 or newer is needed and apt gave ${found:-none}: install one from rustup.rs."
    fi
}

setup() {
    mkdir -p "$root/build" 2>/dev/null
    [ -w "$root/build" ] ||
        setup_die "$root/build is not writable for $(id -un): remove it as its owner ($(stat -c %U "$root/build"))."
    for part in "$@"; do
        case $part in
        native) setup_native ;;
        tests) setup_tests ;;
        lint) setup_lint ;;
        kernels) setup_kernels ;;
        python) setup_python tools/requirements.txt ;;
        python-tests) setup_python tools/requirements-test.txt ;;
        go) setup_go ;;
        rust) setup_rust ;;
        *) setup_die "there is no part '$part' to set up" ;;
        esac
    done
}
