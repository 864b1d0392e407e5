/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* movers.h: two workers of one runtime, driven by one thread, that give streams to each other. */
#ifndef TEST_MOVERS_H
#define TEST_MOVERS_H

#include "ops.h"

struct movers {
    quoit_runtime *runtime;
    struct pump a, b;
};

/* Options may be null. */
void movers_open(struct movers *m, const quoit_worker_options *a, const quoit_worker_options *b);
void movers_close(struct movers *m);
/* A turn of each. */
void movers_turn(struct movers *m);

uint64_t op_move(struct pump *from, quoit_handle stream, quoit_handle worker, uint64_t user_data);
/* A move from here to there and all that it must tell: the new handle. */
quoit_handle move_over(struct pump *from, struct pump *to, quoit_handle stream);
/* The peer's text comes, and one goes back. */
void echo_over(struct pump *pump, quoit_handle stream, int fd, const char *text);
/* A stream of the first worker, and the bytes "held" that the kernel brought (on the ring) while its receive was paused. */
struct link link_with_held(struct pump *pump);

#define BOTH_UNTIL(movers, condition)                                                                        \
    while (!(condition)) {                                                                                   \
        pump_check_time(&(movers)->a, #condition, __FILE__, __LINE__);                                       \
        movers_turn(movers);                                                                                 \
    }

#endif
