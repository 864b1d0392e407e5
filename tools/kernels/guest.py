# SPDX-License-Identifier: MIT OR Apache-2.0
"""A machine of qemu's, without KVM: a kernel, and an initial file system that is made here and holds one program."""

import re
import stat
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The emulation of cmpxchg16b in qemu 7.2 spoils the flags, now and then, and newer kernels die of that before the first
# process: 9 of 36 boots of 6.12, and none of 30 when the processor does not have it.
PROCESSOR = "max,cx16=off"
ENDED = re.compile(r"^quoit-guest: (\w+) (\d+)\s*$", re.M)


def record(name: str, mode: int, data: bytes, number: int) -> bytes:
    """One entry of a cpio archive in the new ASCII format."""
    path = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % value for value in fields) + path
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


def archive(files: dict[str, bytes]) -> bytes:
    """All files are programs; the folders come before what is in them."""
    parts: list[bytes] = []
    folders: set[str] = set()
    for name, data in files.items():
        for parent in reversed(Path(name).parents):
            if str(parent) not in (".", "/") and str(parent) not in folders:
                folders.add(str(parent))
                parts.append(record(str(parent), stat.S_IFDIR | 0o755, b"", len(parts) + 1))
        parts.append(record(name, stat.S_IFREG | 0o755, data, len(parts) + 1))
    return b"".join([*parts, record("TRAILER!!!", 0, b"", 0)])


# What tests find on every Debian: a program to run, libraries to call, a file that is there.
FOUND_BY_TESTS = ["bin/ls"]
LOADED_BY_TESTS = ["libm.so.6", "libz.so.1"]


def library_named(name: str) -> Path:
    """As the loader would find it here."""
    done = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True)
    found = re.search(rf"^\s*{re.escape(name)} \(libc6,x86-64[^)]*\) => (/\S+)$", done.stdout, re.M)
    if not found:
        raise OSError(f"there is no {name} here")
    return Path(found[1])


def libraries(program: Path) -> list[Path]:
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True)
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", done.stdout)]


@dataclass
class Ended:
    status: int | None  # None: it did not come to its end
    text: str
    seconds: float


class Guest:
    def __init__(self, work: Path, programs: list[Path]) -> None:
        self.work = work
        init = work / "init"
        subprocess.run(["gcc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-O1", "-static", "-o", str(init),
                        str(HERE / "init.c")], check=True)  # fmt: skip
        self.files = {"init": init.read_bytes(), "etc/hostname": b"guest\n"}
        self.files |= {f"usr/lib/{name}": library_named(name).read_bytes() for name in LOADED_BY_TESTS}
        inside = {program.name: program for program in programs}
        for name, program in {**inside, **{name: Path("/") / name for name in FOUND_BY_TESTS}}.items():
            self.files[name] = program.read_bytes()
            for library in libraries(program):
                # The loader by its own path, the rest where it looks by itself.
                loader = "ld-linux" in library.name
                name = str(library).lstrip("/") if loader else f"usr/lib/{library.name}"
                self.files[name] = library.read_bytes()

    def run(self, kernel: Path, command: list[str], log: Path, limit: int) -> Ended:
        """Boots, runs the command, and takes what came over the serial line until the guest powers itself off."""
        initrd = self.work / "initrd"
        initrd.write_bytes(archive({**self.files, "command": "\n".join(command).encode()}))
        qemu = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", PROCESSOR, "-smp", "2", "-m", "2048",
                "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot", "-kernel", str(kernel), "-initrd",
                str(initrd), "-append", "console=ttyS0 quiet panic=-1 rdinit=/init"]  # fmt: skip
        start = time.monotonic()
        with log.open("w") as out:
            process = subprocess.Popen(qemu, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
            try:
                process.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                pass
            finally:
                process.kill()
                process.wait()
        text = log.read_text(errors="replace").replace("\r", "")
        end = ENDED.findall(text)
        status = int(end[-1][1]) if end else None
        return Ended(status, text, round(time.monotonic() - start, 1))
