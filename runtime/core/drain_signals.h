/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Signals of the process that drain every worker of a runtime: a thread of the library takes them from a signalfd. */
#ifndef QT_DRAIN_SIGNALS_H
#define QT_DRAIN_SIGNALS_H

#include "runtime.h"

/* signals: QUOIT_SIGNAL_* mask. Blocks them on the calling thread. */
quoit_status qt_drain_on_signals(qt_runtime *runtime, uint32_t signals, uint64_t grace_ns);
void qt_drain_signals_end(qt_runtime *runtime, bool forked);

#endif
