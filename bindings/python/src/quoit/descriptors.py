# SPDX-License-Identifier: MIT OR Apache-2.0
"""Descriptors that this process was started with."""

from ._quoit import ffi, lib
from .errors import check, text

_NAMES_MAX = 1 << 16


def inherited_fds() -> list[tuple[int, str]]:
    """What a service manager passed to this process (LISTEN_FDS): each descriptor and its name, "" without one.

    They are close-on-exec from then on, to be adopted; the variables of the environment stay. Any thread, while none
    changes the environment. Errors: quoit.Error, EINVAL if the variables hold no numbers, EBADF if a descriptor is not
    open.
    """
    first = ffi.new("int32_t *")
    names = ffi.new("char[]", _NAMES_MAX)
    count = check(lib.quoit_inherited_fds(first, names, _NAMES_MAX), "inherited descriptors")
    told = text(names).split(":")
    told += [""] * (count - len(told))
    return [(first[0] + number, told[number]) for number in range(count)]
