/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What this machine lets quoit use, each thing tried for real, with reasons in sentences. */
#ifndef QT_PROBE_H
#define QT_PROBE_H

#include <quoit/probe.h>

/* As quoit_probe. `driver` is what a runtime with default options gets, or the error it gets. */
quoit_status qt_probe(quoit_probe_entry *entries, uint32_t capacity, quoit_status driver);

#endif
