/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Paths made from parts. */
#ifndef QT_PATH_H
#define QT_PATH_H

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct qt_path {
    char text[PATH_MAX];
} qt_path;

/* An empty path, which names nothing, when the parts do not fit. */
__attribute__((format(printf, 2, 3))) static inline const char *qt_path_make(qt_path *path,
                                                                             const char *format, ...) {
    va_list parts;
    va_start(parts, format);
    int length = vsnprintf(path->text, sizeof path->text, format, parts);
    va_end(parts);
    if (length < 0 || (size_t)length >= sizeof path->text)
        path->text[0] = '\0';
    return path->text;
}

#endif
