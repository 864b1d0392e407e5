/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "check.h"

#include "runner.h"

#include <quoit/base.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

noreturn void check_fail(const char *file, int line, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    const char *slash = strrchr(file, '/');
    dprintf(STDOUT_FILENO, "# %s: %s:%d: %s\n", test_name(), slash ? slash + 1 : file, line, text);
    _exit(TEST_EXIT_FAILED);
}

static const char *name_of(int64_t value) {
    return value < 0 && value >= INT32_MIN ? quoit_status_name((quoit_status)value) : "";
}

void check_equal(const char *file, int line, const char *what, int64_t got, int64_t want) {
    if (got != want)
        check_fail(file, line, "%s is %lld %s, not %lld %s", what, (long long)got, name_of(got),
                   (long long)want, name_of(want));
}
