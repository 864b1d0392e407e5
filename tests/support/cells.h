/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * cells.h: which cells of the matrix (opcode x how it ended) a test went through. Every end that the pump sees is sorted by what
 * was asked of the op before: nothing, a cancel, a close of its object, a deadline. With QUOIT_TEST_CELLS=FILE each test
 * appends one line a cell: its name, the driver that ran, the opcode, the case.
 */
#ifndef TEST_CELLS_H
#define TEST_CELLS_H

#include "pump.h"

/* An op as it goes to the worker, its record already filled. */
void cells_given(struct pump *pump, const quoit_op *op);
/* A last event, its record already filled. */
void cells_ended(struct pump *pump, struct op_record *record);
/* The pump ends. */
void cells_write(const struct pump *pump);

#endif
