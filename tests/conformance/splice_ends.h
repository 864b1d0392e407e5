/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* splice_ends.h: what the tests of splices share. */
#ifndef TEST_SPLICE_ENDS_H
#define TEST_SPLICE_ENDS_H

#include "ops.h"

uint64_t op_splice(struct pump *pump, quoit_handle from, quoit_handle to, uint64_t len);
/* The op that was put into the array last. */
quoit_op *newest_op(struct pump *pump);
quoit_handle adopt(struct pump *pump, int fd);
/* A file without a name that holds so much of pattern 1; and the same looked for in a file. */
int file_of_pattern(size_t len);
void check_file(int fd, uint64_t at, size_t len);

#endif
