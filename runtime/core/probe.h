/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What this machine lets quoit use, each thing tried for real, with reasons in sentences. */
#ifndef QT_PROBE_H
#define QT_PROBE_H

#include <quoit/probe.h>

quoit_status qt_probe(quoit_probe_entry *entries, uint32_t capacity);
quoit_status qt_probe_driver(void);

#endif
