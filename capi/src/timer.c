/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/worker.h"

int64_t quoit_now(uint32_t clock) {
    return clock > QUOIT_CLOCK_WALL ? QUOIT_E_ARGUMENT : qt_clock(clock);
}
