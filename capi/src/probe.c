/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <quoit/probe.h>

#include "core/probe.h"

quoit_status quoit_probe(quoit_probe_entry *entries, uint32_t capacity) {
    return entries == NULL && capacity > 0 ? QUOIT_E_ARGUMENT : qt_probe(entries, capacity);
}

quoit_status quoit_probe_driver(void) {
    return qt_probe_driver();
}
