/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <quoit/probe.h>

#include <quoit/runtime.h>

#include "core/probe.h"

quoit_status quoit_probe(quoit_probe_entry *entries, uint32_t capacity) {
    return entries == NULL && capacity > 0 ? QUOIT_E_ARGUMENT
                                           : qt_probe(entries, capacity, quoit_probe_driver());
}

/* By making such a runtime: what it would get is not told otherwise without repeating how it chooses. */
quoit_status quoit_probe_driver(void) {
    quoit_runtime *runtime;
    quoit_status status = quoit_runtime_create(NULL, &runtime);
    if (status != 0)
        return status;
    status = quoit_runtime_driver(runtime);
    quoit_runtime_destroy(runtime);
    return status;
}
