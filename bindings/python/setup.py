# SPDX-License-Identifier: MIT OR Apache-2.0
"""What pyproject.toml cannot say: the extension is made by cffi, and a source distribution carries the native code."""

import atexit
import shutil
import sys
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import build_ffi  # noqa: E402


class BuildExtension(build_ext):
    def build_extension(self, ext: Extension) -> None:
        """The C library's files lie outside of this folder, where setuptools takes no sources from."""
        ext.extra_objects += self.compiler.compile(
            build_ffi.native_sources(), output_dir=self.build_temp, extra_postargs=build_ffi.native_flags()
        )
        super().build_extension(ext)


class SourceDistribution(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        for folder in ("runtime", "capi/src", "capi/include"):
            shutil.copytree(build_ffi.NATIVE / folder, Path(base_dir, "native", folder), dirs_exist_ok=True)


# Built elsewhere and always anew: objects of a build against another libquoit must not be taken again.
scratch = tempfile.mkdtemp(prefix="quoit-build-")
atexit.register(shutil.rmtree, scratch, ignore_errors=True)

setup(
    cffi_modules=["build_ffi.py:ffibuilder"],
    cmdclass={"build_ext": BuildExtension, "sdist": SourceDistribution},
    options={
        "build": {"build_base": scratch},
        "egg_info": {"egg_base": scratch},
        "bdist_wheel": {"py_limited_api": "cp311"},
    },
)
