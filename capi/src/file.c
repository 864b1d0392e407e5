/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "calls.h"

#include <errno.h>
#include <sys/stat.h>

int64_t quoit_file_size(quoit_worker *pointer, quoit_handle handle) {
    qt_worker *w;
    qt_object *file;
    struct stat info;
    quoit_status status = qt_own_worker(pointer, true, false, &w);
    if (status == 0)
        status = qt_handle_find(w, handle, QT_KIND(QUOIT_HANDLE_FILE), &file);
    if (status == 0 && file->closing)
        status = QUOIT_E_CLOSING;
    if (status != 0)
        return status;
    QT_COUNT(w, system_calls, 1);
    if (fstat(file->fd, &info) != 0)
        return -errno;
    if (S_ISDIR(info.st_mode))
        return -EISDIR;
    return S_ISREG(info.st_mode) ? info.st_size : -ESPIPE;
}
