# SPDX-License-Identifier: MIT OR Apache-2.0
"""The same structs and constants in C, in cffi, in the struct formats and in quoit.const."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import quoit
import support
from quoit import layout

HEADERS = support.ROOT / "capi" / "include" / "quoit" / "quoit.h"
CHECKOUT = pytest.mark.skipif(not HEADERS.is_file(), reason="the headers of the checkout are not here")


@pytest.fixture(scope="session")
def told_by_c(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, dict[str, object]]]:
    program = tmp_path_factory.mktemp("layout") / "layout"
    source = support.ROOT / "capi" / "layout.c"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, f"-I{HEADERS.parents[1]}", source, "-o", program], check=True, timeout=60)
    told = json.loads(subprocess.run([program], check=True, capture_output=True, timeout=60).stdout)
    assert isinstance(told, dict)
    return told


@pytest.mark.parametrize("name", sorted(quoit.FORMATS))
def test_formats_match_the_compiler(name: str) -> None:
    size, fields = layout.c_layout(name)
    assert (size, [(offset, length) for _, offset, length in fields]) == layout.format_layout(quoit.FORMATS[name])


def test_a_wrong_format_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(layout.FORMATS, "quoit_op", "=IIQQQIIqQI")
    with pytest.raises(ImportError, match="quoit_op"):
        layout.check_layouts()


def test_what_changes_in_a_batch() -> None:
    fields = {name: (offset, size) for name, offset, size in layout.c_layout("quoit_batch")[1]}
    read = ["flags", "scratch_len", "scratch_off", "now_ns", "tick", "next_ns"]
    batch = quoit.ffi.new("quoit_batch *")
    for number, name in enumerate(read, 1):
        setattr(batch, name, number)
        assert fields[name][0] + fields[name][1] <= layout.BATCH_NEWS.size
    assert layout.BATCH_NEWS.unpack_from(quoit.ffi.buffer(batch)) == (1, 2, 3, 4, 5, 6)


@CHECKOUT
def test_layout_json(told_by_c: dict[str, dict[str, dict[str, object]]]) -> None:
    for name, struct in told_by_c["structs"].items():
        size, fields = layout.c_layout(name)
        assert size == struct["size"], name
        told = struct["fields"]
        assert isinstance(told, list)
        assert fields == [(field["name"], field["offset"], field["size"]) for field in told], name


@CHECKOUT
def test_constants_of_layout_json(told_by_c: dict[str, dict[str, dict[str, int]]]) -> None:
    families = told_by_c["constants"]
    told = {name: value for family in families.values() for name, value in family.items()}
    assert len(told) > 100
    for name, value in told.items():
        assert getattr(quoit.const, name.removeprefix("QUOIT_")) == value
        assert getattr(quoit.lib, name) == value


@CHECKOUT
def test_generated_files_are_fresh() -> None:
    script = Path(__file__).resolve().parents[1] / "build_ffi.py"
    pytest.importorskip("cffi")
    run = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr


def test_every_function_of_the_abi_is_there() -> None:
    names = [name for name in dir(quoit.lib) if name.startswith("quoit_")]
    assert len(names) >= 38
    for name in names:
        assert callable(getattr(quoit.lib, name))


def test_version() -> None:
    assert quoit.version() == quoit.VERSION_TEXT == quoit.__version__
    assert quoit.lib.quoit_version() == quoit.VERSION_NUM
