# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads the public headers: structs, constants, prototypes. They are written in a narrow C on purpose (one
declaration per line or statement, no computing macros, no unions), so a small reader is enough; whatever it does
not understand it refuses, so nothing public can slip past it."""

import re
from dataclasses import dataclass, field
from pathlib import Path

UMBRELLA = "quoit.h"
# The two macros that every release changes; the gate compares them by a rule of their own.
VERSION_MACROS = ("QUOIT_VERSION_NUM", "QUOIT_VERSION_TEXT")

_TOKENS = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"", re.S)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(QUOIT_\w+)(\([^)]*\))?[ \t]*(.*)$", re.M)
_STRUCT = re.compile(r"\btypedef\s+struct\s+(\w+)\s*\{([^{}]*)\}\s*(\w+)\s*;")
_FIELD = re.compile(r"^(\w+)\s+(\w+)(?:\s*\[\s*(\w+)\s*\])?$")
_FUNCTION = re.compile(r"\bQUOIT_API\s+([^;{}#]*?)\b(quoit_\w+)\s*\(([^()]*)\)\s*;")
_LITERAL = re.compile(r"^-?(?:0x[0-9A-Fa-f]+|[0-9]+)$")


class HeaderError(Exception):
    """The headers leave the narrow C that the tools read."""


@dataclass
class Struct:
    name: str
    header: str
    growth: str  # "frozen" or "grown"
    fields: list[tuple[str, str, str | None]] = field(default_factory=list)  # (type, name, count)


@dataclass
class Function:
    name: str
    returns: str
    params: str


@dataclass
class Headers:
    structs: list[Struct] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    constants: list[tuple[str, str]] = field(default_factory=list)  # (name, text of an integer)
    texts: list[tuple[str, str]] = field(default_factory=list)  # (name, text of a string literal)

    def families(self) -> dict[str, list[tuple[str, str]]]:
        """Constants by family: QUOIT_OP_NOP belongs to QUOIT_OP. Order of the headers kept."""
        result: dict[str, list[tuple[str, str]]] = {}
        for name, value in self.constants:
            if name not in VERSION_MACROS:
                result.setdefault("_".join(name.split("_")[:2]), []).append((name, value))
        return result


def strip_comments(text: str) -> str:
    """The text without comments; string literals stay, and lines keep their numbers."""

    def keep(match: re.Match[str]) -> str:
        token = match.group(0)
        return token if token.startswith('"') else re.sub(r"[^\n]", " ", token)

    return _TOKENS.sub(keep, text)


def _growth(name: str, first_field: tuple[str, str, str | None], comment: str, header: str) -> str:
    """How a struct may change: frozen for ever, or grown at its end behind struct_size. It must be exactly one."""
    says_frozen = "frozen for SONAME 1" in comment
    has_size = first_field == ("uint32_t", "struct_size", None)
    if says_frozen and not has_size:
        return "frozen"
    if has_size and not says_frozen:
        return "grown"
    if says_frozen:
        raise HeaderError(f"{header}: struct {name} is said to be frozen, yet begins with struct_size")
    raise HeaderError(
        f"{header}: struct {name} neither begins with 'uint32_t struct_size' nor does its comment say "
        "'frozen for SONAME 1': it could never change"
    )


def _comment_before(raw: str, position: int) -> str:
    """The comment that ends right before a position, or ''."""
    before = raw[:position].rstrip()
    return before[before.rfind("/*") :] if before.endswith("*/") else ""


def _parse_structs(raw: str, text: str, header: str, out: Headers) -> None:
    for match in _STRUCT.finditer(text):
        tag, body, alias = match.groups()
        if tag != alias:
            raise HeaderError(f"{header}: struct {tag} is typedef'ed as {alias}")
        fields: list[tuple[str, str, str | None]] = []
        for statement in filter(None, (s.strip() for s in body.split(";"))):
            parsed = _FIELD.match(" ".join(statement.split()))
            if not parsed:
                raise HeaderError(f"{header}: struct {tag}: cannot read the field '{statement}'")
            fields.append((parsed[1], parsed[2], parsed[3]))
        if not fields:
            raise HeaderError(f"{header}: struct {tag} has no fields")
        growth = _growth(tag, fields[0], _comment_before(raw, match.start()), header)
        out.structs.append(Struct(tag, header, growth, fields))
    # Every brace that opens a type must have been read above.
    if len(re.findall(r"\b(?:struct|union|enum)\b[^;{}]*\{", text)) != len(_STRUCT.findall(text)):
        raise HeaderError(f"{header}: a struct, union or enum is not of the form 'typedef struct NAME {{ ... }} NAME;'")


def _parse_functions(text: str, header: str, out: Headers) -> None:
    # A continuation or a #define line never contains a prototype; take preprocessor lines away first.
    code = re.sub(r"^[ \t]*#.*$", "", text, flags=re.M)
    found = _FUNCTION.findall(code)
    if len(found) != len(re.findall(r"\bQUOIT_API\b", code)):
        raise HeaderError(f"{header}: cannot read one of the QUOIT_API declarations")
    for returns, name, params in found:
        out.functions.append(Function(name, " ".join(returns.split()), " ".join(params.split())))


def _parse_macros(text: str, header: str, out: Headers) -> None:
    for name, arguments, value in _MACRO.findall(text):
        value = value.strip()
        if name == "QUOIT_API" or (name.endswith("_H") and not value):
            continue
        if arguments:
            raise HeaderError(f"{header}: {name} is a macro with arguments; bindings cannot read it")
        if _LITERAL.match(value):
            out.constants.append((name, value))
        elif re.match(r'^"[^"]*"$', value):
            out.texts.append((name, value))
        else:
            raise HeaderError(f"{header}: {name} is '{value}', not a bare number or a string")


def parse(include_dir: Path) -> Headers:
    """Reads every header under include_dir/quoit."""
    folder = Path(include_dir) / "quoit"
    umbrella = (folder / UMBRELLA).read_text()
    included = re.findall(r'^#include "([\w.]+)"', umbrella, flags=re.M)
    present = sorted(p.name for p in folder.glob("*.h") if p.name != UMBRELLA)
    if sorted(included) != present:
        raise HeaderError(f"{UMBRELLA} includes {sorted(included)} but the folder holds {present}")
    out = Headers()
    for name in ["base.h"] + [n for n in present if n != "base.h"]:
        raw = (folder / name).read_text()
        text = strip_comments(raw)
        _parse_structs(raw, text, name, out)
        _parse_functions(text, name, out)
        _parse_macros(text, name, out)
    return out
