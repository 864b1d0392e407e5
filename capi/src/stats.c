/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "calls.h"

#include "core/stats.h"

#include <string.h>

static quoit_status snapshot(quoit_handle handle, quoit_stats *out) {
    qt_shell *shell;
    qt_worker *w;
    quoit_status status = qt_worker_of_handle(handle, &shell, &w);
    if (status != 0)
        return status;
    status = qt_runtime_forked(w->runtime) ? QUOIT_E_FORKED : 0;
    if (status == 0)
        qt_stats_snapshot(w, out);
    qt_shell_leave(shell);
    return status;
}

quoit_status quoit_stats_read(quoit_handle worker, quoit_stats *out) {
    quoit_stats all;
    if (out == NULL)
        return QUOIT_E_ARGUMENT;
    uint32_t size = out->struct_size;
    if (size < sizeof(uint32_t) * 2)
        return QUOIT_E_STRUCT_SIZE;
    quoit_status status = snapshot(worker, &all);
    if (status != 0)
        return status;
    uint32_t known = size < sizeof all ? size : (uint32_t)sizeof all;
    all.struct_size = known;
    memcpy(out, &all, known);
    return 0;
}

quoit_status quoit_stats_text(quoit_handle worker, char *text, uint32_t capacity) {
    quoit_stats all;
    if (text == NULL)
        return QUOIT_E_ARGUMENT;
    quoit_status status = snapshot(worker, &all);
    return status != 0 ? status : qt_stats_text(worker, &all, text, capacity);
}
