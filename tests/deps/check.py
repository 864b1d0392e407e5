#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Who may include whom. Reads every #include line of the tree and compares it with RULES; then tries the rules
themselves on lines that must be refused and lines that must pass.

    python3 tests/deps/check.py            exit status 0 when all hold, 1 when one does not
"""

import os
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = "capi/include/quoit"
INCLUDE = re.compile(r'^[ \t]*(?://)?[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)

# Third-party libraries and who owns them. Everything in <> that is neither here, nor of the kernel, nor ours is libc.
OWNERS = {
    r"liburing(\.h|/.*)": ("runtime/driver", "runtime/sys", "tools/demo"),
    r"ffi(target)?\.h": ("runtime/core",),
    r"ares.*\.h": ("runtime/core",),
    r"openssl/.*": ("protocols/tls",),
    r"(nghttp2|brotli)/.*|zlib\.h": ("protocols/http",),
    r"libpq.*|postgresql/.*": ("protocols/postgres",),
    r"hiredis/.*": ("protocols/redis",),
    r"cmocka\.h": ("tests/unit", "tests/conformance", "tests/support", "tests/torture"),
}
KERNEL = re.compile(r"(linux|asm|asm-generic)/.*")
# The kernel's own headers: where system calls are wrapped, and in drivers, programs and tests.
KERNEL_USERS = ("runtime/sys", "runtime/driver", "tests", "tools", "bench")

# Folder -> what its files may include besides their own folder and libc. A name ending in .h is that file only;
# "public" is the installed headers. The longest matching folder decides; folders with None may include anything.
RULES = {
    PUBLIC: (),
    "runtime/base": (),
    "runtime/sys": ("runtime/base",),
    "runtime/driver": ("runtime/sys", "runtime/base", f"{PUBLIC}/base.h", f"{PUBLIC}/op.h", f"{PUBLIC}/event.h",
                       f"{PUBLIC}/runtime.h"),  # the numbers of the drivers
    "runtime/core": ("runtime/driver/driver.h", "runtime/sys", "runtime/base", "public"),
    "capi/src": ("runtime/core", "public"),
    "capi": ("public",),
    "bindings": ("public",),
    "bench": ("public",),
    "examples": ("public",),
    "tools": ("public",),
    "tests": ("public", "tests/support"),
    "tests/unit": None,
}
# The only system headers of the public ones.
PUBLIC_SYSTEM = ("stdint.h", "stddef.h")
SUFFIXES = (".c", ".h", ".go", ".i")
# Made by builds; folders whose names begin with a dot are skipped as well.
SKIP = ("build", "target", "native", "dist", "__pycache__")


def protocol_rule(path):
    """protocols/X/engine stands on base alone, so that it can be fuzzed alone; glue on core and its engine."""
    parts = path.split("/")
    if len(parts) < 4 or parts[0] != "protocols":
        return None
    if parts[2] == "engine":
        return (f"protocols/{parts[1]}/engine", ("runtime/base",))
    return (f"protocols/{parts[1]}", (f"protocols/{parts[1]}/engine", "runtime/core", "runtime/base", "public"))


def rule_for(path):
    """(own folder, allowed) of a file, or None when no rule names it."""
    if protocol := protocol_rule(path):
        return protocol
    folders = [folder for folder in RULES if path.startswith(folder + "/")]
    if not folders:
        return None
    folder = max(folders, key=len)
    return (folder, RULES[folder])


def resolve(root, path, name):
    """The file in the tree that a quoted include names, or None."""
    for base in (Path(path).parent, Path("."), Path("runtime"), Path("capi/include"), Path("tests/support")):
        found = (root / base / name).resolve()
        if found.is_file() and found.is_relative_to(root):
            return found.relative_to(root).as_posix()
    return None


def within(target, allowed):
    return target == allowed if allowed.endswith(".h") else target.startswith(allowed + "/")


def check_system(path, folder, name):
    """A complaint about #include <name>, or None."""
    if folder == PUBLIC:
        return None if name in PUBLIC_SYSTEM else f"public headers include only {' and '.join(PUBLIC_SYSTEM)}"
    for pattern, owners in OWNERS.items():
        if re.fullmatch(pattern, name):
            ok = any(path.startswith(owner + "/") for owner in owners)
            return None if ok else f"<{name}> belongs to {', '.join(owners)}"
    if KERNEL.fullmatch(name) and not path.startswith(tuple(user + "/" for user in KERNEL_USERS)):
        return f"<{name}> is for {', '.join(KERNEL_USERS)}"
    return None


def check_own(path, folder, allowed, target):
    """A complaint about including the tree's file `target`, or None."""
    if within(target, folder) or allowed is None:
        return None
    for entry in allowed:
        if within(target, PUBLIC if entry == "public" else entry):
            return None
    names = ", ".join(allowed) or "nothing of the tree"
    return f"{folder} may include {names}, not {target}"


def check_file(root, path):
    """Complaints about one file, each a sentence with its line."""
    rule = rule_for(path)
    if rule is None:
        return []
    folder, allowed = rule
    text = (root / path).read_text(errors="replace")
    complaints = []
    for match in INCLUDE.finditer(text):
        mark, name = match.groups()
        if name.startswith("quoit/"):
            problem = check_own(path, folder, allowed, f"capi/include/{name}")
        elif mark == "<":
            problem = check_system(path, folder, name)
        else:
            target = resolve(root, path, name)
            # A quoted system header (generated code writes them) is judged as one.
            problem = check_own(path, folder, allowed, target) if target else check_system(path, folder, name)
        if problem:
            line = text.count("\n", 0, match.start(2)) + 1
            complaints.append(f"{path}:{line}: {problem}")
    return complaints


def sources(root):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIP and not name.startswith("."))
        for name in sorted(names):
            if name.endswith(SUFFIXES):
                yield Path(folder, name).relative_to(root).as_posix()


# (file, line, refused?) tried in a tree of their own; the files named by the lines exist there.
EXAMPLES = [
    (f"{PUBLIC}/op.h", "#include <stdint.h>", False),
    (f"{PUBLIC}/op.h", '#include "base.h"', False),
    (f"{PUBLIC}/op.h", "#include <stdio.h>", True),
    (f"{PUBLIC}/op.h", '#include "../../../runtime/base/slab.h"', True),
    ("runtime/base/slab.c", "#include <string.h>", False),
    ("runtime/base/slab.c", '#include "../sys/clock.h"', True),
    ("runtime/base/slab.c", "#include <quoit/op.h>", True),
    ("runtime/base/slab.c", "#include <linux/io_uring.h>", True),
    ("runtime/sys/clock.c", '#include "../base/slab.h"', False),
    ("runtime/sys/clock.c", "#include <linux/io_uring.h>", False),
    ("runtime/sys/clock.c", '#include "driver/driver.h"', True),
    ("runtime/driver/uring.c", "#include <liburing.h>", False),
    ("runtime/driver/uring.c", "#include <quoit/event.h>", False),
    ("runtime/driver/uring.c", "#include <quoit/net.h>", True),
    ("runtime/driver/uring.c", '#include "core/worker.h"', True),
    ("runtime/core/worker.c", '#include "../driver/driver.h"', False),
    ("runtime/core/worker.c", '#include "../driver/uring.h"', True),
    ("runtime/core/worker.c", "#include <liburing.h>", True),
    ("runtime/core/worker.c", '#  include "../../protocols/http/glue/http.h"', True),
    ("capi/src/op.c", '#include "../../runtime/core/worker.h"', False),
    ("capi/src/op.c", '#include "../../runtime/driver/driver.h"', True),
    ("protocols/http/engine/parse.c", '#include "runtime/base/slab.h"', False),
    ("protocols/http/engine/parse.c", '#include "runtime/core/worker.h"', True),
    ("protocols/http/glue/http.c", '#include "runtime/core/worker.h"', False),
    ("protocols/http/glue/http.c", '#include "../../tls/glue/tls.h"', True),
    ("bindings/go/abi.go", "// #include <quoit/quoit.h>", False),
    ("bindings/go/abi.go", '// #include "../../runtime/core/worker.h"', True),
    ("tests/conformance/echo.c", "#include <quoit/quoit.h>", False),
    ("tests/conformance/echo.c", '#include "core/worker.h"', True),
    ("tests/unit/slab.c", '#include "base/slab.h"', False),
]
EXAMPLE_FILES = (
    f"{PUBLIC}/base.h", f"{PUBLIC}/op.h", f"{PUBLIC}/event.h", f"{PUBLIC}/net.h", f"{PUBLIC}/quoit.h",
    "runtime/base/slab.h", "runtime/sys/clock.h", "runtime/driver/driver.h", "runtime/driver/uring.h",
    "runtime/core/worker.h", "protocols/http/glue/http.h", "protocols/tls/glue/tls.h",
)  # fmt: skip


def check_examples():
    """Complaints about the rules themselves: an example judged wrongly."""
    wrong = []
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        for path in EXAMPLE_FILES:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text("")
        for path, line, refused in EXAMPLES:
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            before = file.read_text() if file.exists() else None
            file.write_text(line + "\n")
            if bool(check_file(root, path)) != refused:
                wrong.append(f"self-test: {line!r} in {path} is {'accepted' if refused else 'refused'}")
            if before is None:
                file.unlink()
            else:
                file.write_text(before)
    return wrong


def main():
    files = list(sources(ROOT))
    complaints = [(path, check_file(ROOT, path)) for path in files]
    failed = [path for path, found in complaints if found]
    wrong = check_examples()
    for line in [text for _, found in complaints for text in found] + wrong:
        print(line)
    bad = len(failed) + len(wrong)
    print(f"deps: {len(files)} files and {len(EXAMPLES)} examples: "
          f"{len(files) + len(EXAMPLES) - bad} passed, {bad} failed, 0 skipped")
    return 1 if bad or not files else 0


if __name__ == "__main__":
    sys.exit(main())
