/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* calls.h: offloaded calls of functions in C. */
#ifndef TEST_CALLS_H
#define TEST_CALLS_H

#include "pump.h"

/* Submits the call: what is pointed at may go afterwards. */
uint64_t op_call(struct pump *pump, uint64_t entry, uint32_t returns, uint32_t nargs, const uint8_t *types,
                 const uint64_t *args);

/* Puts a call into the array that returns 7 once a byte can be read, 0 at the end of file. Submit before the next one. */
quoit_op *op_new_wait_for_byte(struct pump *pump, int fd);
/* The same, submitted. */
uint64_t op_wait_for_byte(struct pump *pump, int fd);
/* How many of these calls have begun in this process. */
int waits_begun(void);

#endif
