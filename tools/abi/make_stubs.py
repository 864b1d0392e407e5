#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes a C file that defines every public function with an empty body: make_stubs.py CAPI_DIR OUT.c

For bringing the gate up on a machine where the library itself does not build (a new architecture, say): the dumps show
the same types and symbols. The gate uses it only when told --stubs, and never writes abi-dump/ from it."""

import sys
from pathlib import Path

import headers


def generate(parsed: headers.Headers) -> str:
    """The text of the C file."""
    lines = ["/* Written by tools/abi/make_stubs.py. */", "#include <quoit/quoit.h>", ""]
    for function in parsed.functions:
        body = "" if function.returns == "void" else " return 0; "
        lines.append(f"{function.returns} {function.name}({function.params}) {{{body}}}")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    Path(arguments[1]).write_text(generate(headers.parse(Path(arguments[0]) / "include")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
