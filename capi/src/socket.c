/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "calls.h"
#include "core/object.h"

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
    return status != 0 ? status : qt_socket_get(w, object, option, out);
}
