/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* quoit/quoit.h: every public header. */
#ifndef QUOIT_QUOIT_H
#define QUOIT_QUOIT_H

#include "base.h"
#include "buffer.h"
#include "event.h"
#include "file.h"
#include "log.h"
#include "net.h"
#include "op.h"
#include "pool.h"
#include "probe.h"
#include "runtime.h"
#include "socket.h"
#include "stats.h"
#include "timer.h"

#endif
