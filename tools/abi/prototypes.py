# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads an abidw dump: what each exported function and each public typedef means once every typedef is spelled out.

abidiff answers 4 to a grown options struct and to a changed callback alike. When growth is to be accepted, these texts
must be the same as before for all that existed, so that nothing else rides along."""

from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

_KEYWORD = {"class-decl": "struct", "union-decl": "union", "enum-decl": "enum"}


class Dump:
    """One .abi file."""

    def __init__(self, path: Path) -> None:
        root = ElementTree.parse(path).getroot()
        self._types: dict[str, Element] = {}
        self._functions: dict[str, Element] = {}
        for unit in root.iter("abi-instr"):
            for element in unit:
                if element.tag == "function-decl":
                    self._functions[element.get("elf-symbol-id", "")] = element
                elif element.get("id"):
                    # A declaration and a definition of one struct share an id, and a name.
                    self._types.setdefault(element.get("id", ""), element)
        self.symbols = {self._symbol(e) for section in root.findall("elf-function-symbols") for e in section}

    @staticmethod
    def _symbol(element: Element) -> str:
        at = "@@" if element.get("is-default-version") == "yes" else "@"
        version = element.get("version")
        return element.get("name", "") + (at + version if version else "")

    def _spell(self, type_id: str) -> str:
        """The type behind an id, with typedefs replaced by what they stand for; structs by their names."""
        element = self._types.get(type_id)
        if element is None:
            return f"?{type_id}"
        inner = element.get("type-id", "")
        if element.tag == "pointer-type-def":
            return self._spell(inner) + " *"
        if element.tag == "qualified-type-def":
            words = [word for word in ("const", "volatile", "restrict") if element.get(word) == "yes"]
            return f"{self._spell(inner)} {' '.join(words)}"
        if element.tag == "typedef-decl":
            return self._spell(inner)
        if element.tag == "array-type-def":
            lengths = "".join(f"[{s.get('length')}]" for s in element.findall("subrange"))
            return self._spell(inner) + lengths
        if element.tag == "function-type":
            return self._signature(element)
        if element.tag in _KEYWORD:
            return f"{_KEYWORD[element.tag]} {element.get('name')}"
        return element.get("name", element.tag)

    def _signature(self, element: Element) -> str:
        parameters = [
            "..." if p.get("is-variadic") == "yes" else self._spell(p.get("type-id", ""))
            for p in element.findall("parameter")
        ]
        returned = element.find("return")
        result = "void" if returned is None else self._spell(returned.get("type-id", ""))
        return f"{result} ({', '.join(parameters)})"

    def prototypes(self) -> dict[str, str]:
        """Exported symbol with its node -> prototype."""
        return {symbol: self._signature(element) for symbol, element in self._functions.items() if symbol}

    def _public(self, tag: str) -> dict[str, Element]:
        """The elements of a tag whose names are ours."""
        named = {element.get("name", ""): element for element in self._types.values() if element.tag == tag}
        return {name: element for name, element in named.items() if name.startswith("quoit_")}

    def typedefs(self) -> dict[str, str]:
        """Name of each quoit_ typedef -> what it stands for."""
        return {name: self._spell(element.get("type-id", "")) for name, element in self._public("typedef-decl").items()}

    def struct_names(self) -> set[str]:
        """Names of the quoit_ structs that the dump defines."""
        structs = self._public("class-decl").items()
        return {name for name, element in structs if element.get("is-declaration-only") != "yes"}


def changed(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Sentences for each entry of the old mapping that the new one lacks or says differently."""
    result = []
    for name, meaning in sorted(old.items()):
        if name not in new:
            result.append(f"{name} is gone")
        elif new[name] != meaning:
            result.append(f"{name} was '{meaning}' and is '{new[name]}'")
    return result
