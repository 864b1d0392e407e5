#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Judges the growth of structs: check_layout.py OLD/layout.json NEW/layout.json

A frozen struct must not change at all. A struct behind struct_size may only get new fields at its end: the old list of
fields (name, offset, size, type, count) must be a prefix of the new one. Constants may be added, never changed or
removed.
Exit: 0 nothing changed, 4 growth only, 1 a break, 2 bad usage."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SAME, GROWTH, BREAK = "same", "growth", "break"


def _describe(field: dict[str, Any]) -> str:
    count = f"[{field['count']}]" if field["count"] > 1 else ""
    return f"{field['type']} {field['name']}{count} at {field['offset']}"


def _first_difference(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> str:
    for position, (before, after) in enumerate(zip(old, new, strict=False)):
        if before != after:
            return f"field {position} was '{_describe(before)}' and is '{_describe(after)}'"
    return f"{len(old) - len(new)} field(s) are gone from its end"


def _compare_struct(name: str, old: dict[str, Any], new: dict[str, Any]) -> tuple[str, str]:
    """(verdict, reason) of one struct that both files have."""
    if old["growth"] != new["growth"]:
        return BREAK, f"{name} was {old['growth']} and is {new['growth']}"
    if old == new:
        return SAME, ""
    before, after = old["fields"], new["fields"]
    if after[: len(before)] != before:
        return BREAK, f"{name}: {_first_difference(before, after)}"
    if old["growth"] == "frozen":
        return BREAK, f"{name} is frozen, yet its size goes from {old['size']} to {new['size']}"
    if old["align"] != new["align"]:
        return BREAK, f"{name}: its alignment goes from {old['align']} to {new['align']}"
    if len(after) == len(before) or after[len(before)]["offset"] < old["size"]:
        return BREAK, f"{name}: a new field lies inside what was its padding: old programs never cleared it"
    return GROWTH, f"{name} grew at its end by {', '.join(f['name'] for f in after[len(before) :])}"


def _compare_constants(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, str]]:
    before = {name: value for family in old["constants"].values() for name, value in family.items()}
    after = {name: value for family in new["constants"].values() for name, value in family.items()}
    for name, value in before.items():
        if name not in after:
            yield BREAK, f"{name} is gone"
        elif after[name] != value:
            yield BREAK, f"{name} was {value} and is {after[name]}"
    for name in after:
        if name not in before:
            yield GROWTH, f"{name} is new"


def compare(old: dict[str, Any], new: dict[str, Any]) -> tuple[str, list[str]]:
    """(verdict, reasons) for two parsed layout.json."""
    found = list(_compare_constants(old, new))
    if old["pointer_size"] != new["pointer_size"]:
        found.append((BREAK, "the two files are of machines with different pointer sizes"))
    for name, struct in old["structs"].items():
        if name in new["structs"]:
            found.append(_compare_struct(name, struct, new["structs"][name]))
        else:
            found.append((BREAK, f"struct {name} is gone"))
    found += [(GROWTH, f"struct {name} is new") for name in new["structs"] if name not in old["structs"]]
    for verdict in (BREAK, GROWTH):
        reasons = [reason for kind, reason in found if kind == verdict]
        if reasons:
            return verdict, reasons
    return SAME, []


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        old, new = (json.loads(Path(path).read_text()) for path in arguments)
    except (OSError, ValueError) as error:
        print(f"check_layout: {error}", file=sys.stderr)
        return 2
    verdict, reasons = compare(old, new)
    print("\n".join([f"check_layout: {verdict}", *reasons]))
    return {SAME: 0, GROWTH: 4, BREAK: 1}[verdict]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
