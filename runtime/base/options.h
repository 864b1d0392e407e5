/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reading structs that begin with struct_size: shorter is filled with zeros, longer must have a tail of zeros. */
#ifndef QT_OPTIONS_H
#define QT_OPTIONS_H

#include <stdint.h>
#include <string.h>

/* Sizes of the public structs in their first version. Numbers for ever: a struct that grows still takes the old size. */
#define QT_RUNTIME_OPTIONS_V1 32
#define QT_WORKER_OPTIONS_V1 112
#define QT_LISTEN_OPTIONS_V1 24
#define QT_BIND_OPTIONS_V1 144
#define QT_PACKET_INFO_V1 144
#define QT_CALL_V1 40

#define QT_STRUCT_SIZE_BAD (-20002) /* QUOIT_E_STRUCT_SIZE: base knows no public header */

/* Copies `from` into the `size` bytes at `to`; v1_size is the struct's size in its first version. 0 or QT_STRUCT_SIZE_BAD. */
static inline int32_t qt_options_read(void *to, uint32_t size, uint32_t v1_size, const void *from) {
    uint32_t given;
    memcpy(&given, from, sizeof given);
    if (given < v1_size)
        return QT_STRUCT_SIZE_BAD;
    for (uint32_t i = size; i < given; i++)
        if (((const uint8_t *)from)[i] != 0)
            return QT_STRUCT_SIZE_BAD;
    memset(to, 0, size);
    memcpy(to, from, given < size ? given : size);
    return 0;
}

#endif
