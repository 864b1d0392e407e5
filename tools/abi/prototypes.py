# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads an abidw dump: what each exported function and each public typedef means once every typedef is spelled out.

abidiff answers 4 to a grown options struct and to a changed callback alike. When growth is to be accepted, these texts
must be the same as before for all that existed, so that nothing else rides along."""

import xml.etree.ElementTree as ElementTree

_KEYWORD = {"class-decl": "struct", "union-decl": "union", "enum-decl": "enum"}


class Dump:
    """One .abi file."""

    def __init__(self, path):
        root = ElementTree.parse(path).getroot()
        self.soname = root.get("soname")
        self._types = {}
        self._functions = {}
        for unit in root.iter("abi-instr"):
            for element in unit:
                if element.tag == "function-decl":
                    self._functions[element.get("elf-symbol-id")] = element
                elif element.get("id"):
                    self._keep(element)
        self.symbols = {self._symbol(e) for section in root.findall("elf-function-symbols") for e in section}

    def _keep(self, element):
        # A declaration and a definition of one struct share an id; the definition says more, but its name is the same.
        self._types.setdefault(element.get("id"), element)

    @staticmethod
    def _symbol(element):
        at = "@@" if element.get("is-default-version") == "yes" else "@"
        version = element.get("version")
        return element.get("name") + (at + version if version else "")

    def _spell(self, type_id):
        """The type behind an id, with typedefs replaced by what they stand for; structs by their names."""
        element = self._types.get(type_id)
        if element is None:
            return f"?{type_id}"
        inner = element.get("type-id")
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

    def _signature(self, element):
        parameters = ["..." if p.get("is-variadic") == "yes" else self._spell(p.get("type-id"))
                      for p in element.findall("parameter")]
        returned = element.find("return")
        return f"{self._spell(returned.get('type-id')) if returned is not None else 'void'} ({', '.join(parameters)})"

    def prototypes(self):
        """Exported symbol with its node -> prototype."""
        return {symbol: self._signature(element) for symbol, element in self._functions.items() if symbol}

    def typedefs(self):
        """Name of each quoit_ typedef -> what it stands for."""
        return {element.get("name"): self._spell(element.get("type-id")) for element in self._types.values()
                if element.tag == "typedef-decl" and element.get("name").startswith("quoit_")}

    def struct_names(self):
        """Names of the quoit_ structs that the dump defines."""
        return {element.get("name") for element in self._types.values()
                if element.tag == "class-decl" and element.get("name").startswith("quoit_")
                and element.get("is-declaration-only") != "yes"}


def changed(old, new):
    """Sentences for each entry of the old mapping that the new one lacks or says differently."""
    result = []
    for name, meaning in sorted(old.items()):
        if name not in new:
            result.append(f"{name} is gone")
        elif new[name] != meaning:
            result.append(f"{name} was '{meaning}' and is '{new[name]}'")
    return result
