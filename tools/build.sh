# shellcheck shell=sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Builds what the commands of ./dev run. Sourced by ./dev after setup.sh, with $root set.
#
# Environment that the tools and tests get (see build_use):
#   QUOIT_PRESET     the CMake preset in use, QUOIT_BUILD its folder
#   QUOIT_PREFIX     an installed prefix made from it: include/, lib/, lib/pkgconfig/
#   PKG_CONFIG_PATH, LD_LIBRARY_PATH   point into that prefix
#   CARGO_TARGET_DIR build/cargo, so that no target/ folder grows in the sources

# shellcheck disable=SC2154 # ./dev sets root
build_step() {
    printf 'build: %s\n' "$1"
    shift
    if ! "$@" >"$root/build/build.log" 2>&1 </dev/null; then
        tail -n 40 "$root/build/build.log" >&2
        printf 'build: failed: %s\n' "$*" >&2
        return 1
    fi
}

build_configure() {
    # A cache made for another folder (a moved or copied checkout) cannot be used.
    cache=$root/build/$1/CMakeCache.txt
    if [ -f "$cache" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$cache"; then
        rm -rf "$root/build/$1"
    fi
    build_step "configuring $1" cmake --preset "$1"
}

# build_native PRESET: library and programs.
build_native() {
    build_configure "$1" || return 1
    build_step "compiling $1" cmake --build "build/$1"
}

# Point the environment at the prefix of a preset.
build_use() {
    QUOIT_PRESET=$1
    QUOIT_BUILD=$root/build/$1
    QUOIT_PREFIX=$root/build/$1/prefix
    PKG_CONFIG_PATH=$QUOIT_PREFIX/lib/pkgconfig
    LD_LIBRARY_PATH=$QUOIT_PREFIX/lib
    CARGO_TARGET_DIR=$root/build/cargo
    export QUOIT_PRESET QUOIT_BUILD QUOIT_PREFIX PKG_CONFIG_PATH LD_LIBRARY_PATH CARGO_TARGET_DIR
}

# build_prefix PRESET: the library as its users see it.
build_prefix() {
    build_native "$1" || return 1
    build_step "installing $1 into build/$1/prefix" \
        cmake --install "build/$1" --prefix "$root/build/$1/prefix" || return 1
    build_use "$1"
}

# The Python package in build/venv, over libquoit.so.1 (LD_LIBRARY_PATH says which preset's); made again only when
# its sources or the public headers changed.
build_python() {
    stamp=$root/build/venv/.quoit-package
    sum=$(find bindings/python/src bindings/python/*.py bindings/python/pyproject.toml capi/include -type f \
        \( -name '*.py' -o -name '*.pyi' -o -name '*.toml' -o -name '*.h' -o -name '*.c' \) -exec cksum {} + |
        sort | cksum)
    [ "$(cat "$stamp" 2>/dev/null)" != "$sum" ] || return 0
    build_step "installing the Python package into build/venv" \
        build/venv/bin/python -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps \
        --force-reinstall ./bindings/python || return 1
    printf '%s\n' "$sum" >"$stamp"
}
