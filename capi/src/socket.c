/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "calls.h"
#include "core/object.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first that is passed: SD_LISTEN_FDS_START. */
#define FIRST 3

/* The variable as a number; 0 when there is none, -EINVAL when it is no number. */
static long variable(const char *name) {
    const char *text = getenv(name);
    char *end;
    if (text == NULL)
        return 0;
    errno = 0;
    long number = strtol(text, &end, 10);
    return *text < '0' || *text > '9' || *end != 0 || errno || number > INT32_MAX - FIRST ? -EINVAL : number;
}

quoit_status quoit_inherited_fds(int32_t *first, char *names, uint32_t capacity) {
    if (first == NULL)
        return QUOIT_E_ARGUMENT;
    long pid = variable("LISTEN_PID");
    long count = variable("LISTEN_FDS");
    if (pid < 0 || count < 0)
        return -EINVAL;
    if (pid != getpid())
        count = 0;
    const char *given = count > 0 ? getenv("LISTEN_FDNAMES") : NULL;
    size_t length = given ? strlen(given) : 0;
    if (names != NULL && length >= capacity)
        return -ENOSPC;
    for (int fd = FIRST; fd < FIRST + count; fd++)
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
            return -errno;
    if (names != NULL) {
        if (length > 0)
            memcpy(names, given, length);
        names[length] = 0;
    }
    *first = FIRST;
    return (quoit_status)count;
}

quoit_status quoit_socket_get(quoit_worker *pointer, quoit_handle handle, uint32_t option, int64_t *out) {
    qt_worker *w;
    qt_object *object;
    if (out == NULL)
        return QUOIT_E_ARGUMENT;
    quoit_status status = qt_own_worker(pointer, true, false, &w);
    if (status == 0)
        status = qt_handle_find(w, handle, QT_SOCKETS, &object);
    if (status == 0 && object->closing == QT_CLOSE_SUBMITTED)
        status = QUOIT_E_CLOSING;
    if (status == 0 && object->moving)
        status = QUOIT_E_BUSY;
    return status != 0 ? status : qt_socket_get(w, object, option, out);
}
