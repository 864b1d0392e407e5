# SPDX-License-Identifier: MIT OR Apache-2.0
"""What pyproject.toml cannot say: the extension is made by cffi, and a source distribution carries the native code."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent


class SourceDistribution(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        root = HERE / "native" if (HERE / "native").is_dir() else HERE.parents[1]
        for folder in ("runtime", "capi/src", "capi/include"):
            shutil.copytree(root / folder, Path(base_dir, "native", folder), dirs_exist_ok=True)


setup(
    cffi_modules=["build_ffi.py:ffibuilder"],
    cmdclass={"sdist": SourceDistribution},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
