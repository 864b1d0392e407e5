/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "calls.h"

quoit_status quoit_log_read(quoit_runtime *pointer, char *text, uint32_t capacity, uint32_t *level) {
    qt_runtime *runtime;
    if (text == NULL || capacity == 0)
        return QUOIT_E_ARGUMENT;
    quoit_status status = qt_enter_runtime(pointer, &runtime);
    if (status != 0)
        return status;
    status = qt_log_take(runtime, text, capacity, level);
    qt_leave(pointer);
    return status;
}
