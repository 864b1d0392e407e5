# SPDX-License-Identifier: MIT OR Apache-2.0
"""Lets `pip install .` in the root of the checkout build what is in this folder."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from setuptools import build_meta


def _here(hook: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        # Folders that the caller names are relative to where it stands.
        args = tuple(os.path.abspath(arg) if isinstance(arg, str) else arg for arg in args)
        before = os.getcwd()
        os.chdir(Path(__file__).resolve().parent)
        try:
            return hook(*args, **named)
        finally:
            os.chdir(before)

    return call


build_wheel = _here(build_meta.build_wheel)
build_editable = _here(build_meta.build_editable)
build_sdist = _here(build_meta.build_sdist)
prepare_metadata_for_build_wheel = _here(build_meta.prepare_metadata_for_build_wheel)
prepare_metadata_for_build_editable = _here(build_meta.prepare_metadata_for_build_editable)
get_requires_for_build_wheel = _here(build_meta.get_requires_for_build_wheel)
get_requires_for_build_editable = _here(build_meta.get_requires_for_build_editable)
get_requires_for_build_sdist = _here(build_meta.get_requires_for_build_sdist)
