#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes capi/layout.c from the public headers: make_layout.py CAPI_DIR [--check]

The names come from the headers; every number and type in layout.json is measured by the C compiler. With --check
nothing is written: exit 1 if capi/layout.c is not what this script would write."""

import sys
import textwrap
from pathlib import Path

import headers

_TOP = """\
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * layout.c: prints layout.json, what the C compiler makes of the public headers. Every binding compares it
 * with its own sizeof and offsetof. Written by tools/abi/make_layout.py: do not edit.
 * Build it with: cc -Icapi/include capi/layout.c
 */
#include <quoit/quoit.h>

#include <inttypes.h>
#include <stdio.h>

typedef struct field {
    const char *name;
    const char *type;
    size_t offset;
    size_t size;
    size_t count;
} field;

typedef struct layout {
    const char *name;
    const char *growth; /* "frozen", or "grown": at its end, behind struct_size */
    size_t size;
    size_t align;
    const field *fields;
    size_t field_count;
} layout;

typedef struct constant {
    const char *family;
    const char *name;
    int64_t value;
} constant;

/* clang-format off */
/* The compiler names the type, so that a typedef is told by what it stands for. */
#define TYPE_NAME(x) \\
    _Generic((x), char: "char", int8_t: "int8_t", uint8_t: "uint8_t", int16_t: "int16_t", uint16_t: "uint16_t", \\
             int32_t: "int32_t", uint32_t: "uint32_t", int64_t: "int64_t", uint64_t: "uint64_t", \\
             float: "float", double: "double", quoit_addr: "quoit_addr")
#define AT(s, f) (((s *)0)->f)
#define ONE(s, f) {#f, TYPE_NAME(AT(s, f)), offsetof(s, f), sizeof AT(s, f), 1}
#define MANY(s, f) {#f, TYPE_NAME(AT(s, f)[0]), offsetof(s, f), sizeof AT(s, f), COUNT(AT(s, f))}
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define LAYOUT(s, growth) {#s, growth, sizeof(s), _Alignof(s), s##_fields, COUNT(s##_fields)}
"""

_BOTTOM = """\
static void print_field(const field *f, const char *end) {
    printf("      {\\"name\\": \\"%s\\", \\"offset\\": %zu, \\"size\\": %zu, ", f->name, f->offset, f->size);
    printf("\\"type\\": \\"%s\\", \\"count\\": %zu}%s\\n", f->type, f->count, end);
}

static void print_layout(const layout *l, const char *end) {
    printf("    \\"%s\\": {\\"growth\\": \\"%s\\", \\"size\\": %zu, ", l->name, l->growth, l->size);
    printf("\\"align\\": %zu, \\"fields\\": [\\n", l->align);
    for (size_t i = 0; i < l->field_count; i++)
        print_field(&l->fields[i], i + 1 < l->field_count ? "," : "");
    printf("    ]}%s\\n", end);
}

/* Constants of one family follow each other in the table. */
static void print_constants(void) {
    const char *family = "";
    for (size_t i = 0; i < COUNT(constants); i++) {
        const constant *c = &constants[i];
        if (c->family != family)
            printf("%s    \\"%s\\": {\\n", i == 0 ? "" : "    },\\n", c->family);
        family = c->family;
        int last = i + 1 == COUNT(constants) || constants[i + 1].family != family;
        printf("      \\"%s\\": %" PRId64 "%s\\n", c->name, c->value, last ? "" : ",");
    }
    printf("    }\\n");
}

static void print_opcodes(void) {
    const char *separator = "";
    for (size_t i = 0; i < COUNT(constants); i++) {
        const constant *c = &constants[i];
        if (c->family != opcode_family)
            continue;
        printf("%s    {\\"name\\": \\"%s\\", \\"value\\": %" PRId64 "}", separator, c->name, c->value);
        separator = ",\\n";
    }
    printf("\\n");
}

int main(void) {
    printf("{\\n  \\"version\\": {\\"number\\": %d, \\"text\\": \\"%s\\"},\\n", QUOIT_VERSION_NUM, QUOIT_VERSION_TEXT);
    printf("  \\"pointer_size\\": %zu,\\n  \\"structs\\": {\\n", sizeof(void *));
    for (size_t i = 0; i < COUNT(layouts); i++)
        print_layout(&layouts[i], i + 1 < COUNT(layouts) ? "," : "");
    printf("  },\\n  \\"constants\\": {\\n");
    print_constants();
    printf("  },\\n  \\"opcodes\\": [\\n");
    print_opcodes();
    printf("  ]\\n}\\n");
    return ferror(stdout) || fflush(stdout) ? 1 : 0;
}
"""


def _table(declaration: str, cells: list[str]) -> str:
    """A C array of short cells, several to a line."""
    body = textwrap.fill(
        ", ".join(cells), width=106, initial_indent="    ", subsequent_indent="    ", break_long_words=False
    )
    return f"{declaration} = {{\n{body},\n}};\n"


def generate(parsed: headers.Headers) -> str:
    """The text of layout.c for what headers.parse returned."""
    parts = [_TOP]
    for struct in parsed.structs:
        cells = [f"{'MANY' if count else 'ONE'}({struct.name},\0{name})" for _, name, count in struct.fields]
        parts.append(_table(f"static const field {struct.name}_fields[]", cells))
    cells = [f'LAYOUT({s.name},\0"{s.growth}")' for s in parsed.structs]
    parts.append(_table("static const layout layouts[]", cells))
    families = parsed.families()
    # One array per family name: constants of a family share its address, which is how the printer tells them apart.
    parts.append(
        "".join(f'static const char {f.lower()}_family[] = "{f}";\n' for f in families)
        + "static const char *const opcode_family = quoit_op_family;\n"
    )
    cells = [f'{{{f.lower()}_family,\0"{name}",\0{name}}}' for f, entries in families.items() for name, _ in entries]
    parts.append(_table("static const constant constants[]", cells) + "/* clang-format on */\n")
    parts.append(_BOTTOM)
    # A NUL stood for a space that must not be a line's end.
    return "\n".join(parts).replace("\0", " ")


def main(arguments: list[str], quiet: bool = False) -> int:
    """Writes or checks capi/layout.c; returns the exit status."""
    check = "--check" in arguments
    folders = [a for a in arguments if a != "--check"]
    if len(folders) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    capi = Path(folders[0])
    try:
        text = generate(headers.parse(capi / "include"))
    except headers.HeaderError as error:
        if not quiet:
            print(f"make_layout: {error}", file=sys.stderr)
        return 1
    target = capi / "layout.c"
    if not check:
        target.write_text(text)
        return 0
    if target.exists() and target.read_text() == text:
        return 0
    print(f"make_layout: {target} is older than the headers: run tools/abi/make_layout.py {capi}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
