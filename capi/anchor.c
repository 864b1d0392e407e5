/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * anchor.c: makes every public type reachable for the ABI dump. Types that travel only as an address in a u64
 * (quoit_iov, quoit_call, quoit_listen_options, …) hang on no exported function, so a dump of the library does not
 * hold them. This file becomes a shared object of types alone, built with -fno-eliminate-unused-debug-types; it is
 * never linked into anything and never installed.
 */
#include <quoit/quoit.h>

/* A shared object without one symbol is no corpus to the dump tools. */
QUOIT_API extern const int quoit_anchor;
const int quoit_anchor = 1;
