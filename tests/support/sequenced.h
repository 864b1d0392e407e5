/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* sequenced.h: connections of messages (Unix seqpacket) between a worker and plain sockets of the test. */
#ifndef TEST_SEQUENCED_H
#define TEST_SEQUENCED_H

#include "ops.h"

/* An abstract name of this process. */
quoit_addr sequenced_addr(int number);
/* The peer's side: connected, non-blocking. */
int sequenced_connect(const quoit_addr *addr);
quoit_handle sequenced_listen(struct pump *pump, const quoit_addr *addr);
uint64_t sequenced_op_connect(struct pump *pump, const quoit_addr *addr);

/* A connection whose worker's end was accepted, connected or adopted, by `how` modulo 3. */
struct link sequenced_open(struct pump *pump, int how);
/* Closes both, the worker's with ABORT. */
void sequenced_close(struct pump *pump, struct link *link);

#endif
