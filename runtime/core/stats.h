/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A worker's counters as a snapshot and as OpenMetrics text. */
#ifndef QT_STATS_H
#define QT_STATS_H

#include "worker.h"

void qt_stats_snapshot(qt_worker *w, quoit_stats *out); /* any thread */
quoit_status qt_stats_text(uint64_t handle, const quoit_stats *stats, char *text, uint32_t capacity);

#endif
