/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Rungs by name, and trying one. */
#ifndef QT_CHOOSE_H
#define QT_CHOOSE_H

#include <stdint.h>

const char *qt_rung_name(uint32_t rung);

/* Sets the rung up small, receives something, tears it down. 0 or -errno. */
int qt_rung_try(uint32_t rung);

#endif
