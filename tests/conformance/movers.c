/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "movers.h"

#include "check.h"
#include "peer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void movers_open(struct movers *m, const quoit_worker_options *a, const quoit_worker_options *b) {
    m->runtime = runtime_open(NULL);
    pump_open_in(&m->a, m->runtime, a);
    pump_open_in(&m->b, m->runtime, b);
}

void movers_close(struct movers *m) {
    pump_close(&m->a);
    pump_close(&m->b);
    CHECK_EQ(quoit_runtime_destroy(m->runtime), QUOIT_OK);
}

void movers_turn(struct movers *m) {
    pump_turn_nb(&m->a);
    pump_turn_nb(&m->b);
}

uint64_t op_move(struct pump *from, quoit_handle stream, quoit_handle worker, uint64_t user_data) {
    quoit_op *op = op_new(from, QUOIT_OP_MOVE, stream);
    op->arg2 = worker;
    op->addr = user_data;
    return op->user_data;
}

quoit_handle move_over(struct pump *from, struct pump *to, quoit_handle stream) {
    static uint64_t word = 0xFEDCBA9876543210u;
    uint64_t before = to->moves, id = op_move(from, stream, to->handle, ++word);
    while (!op_ended(from, id)) {
        pump_check_time(from, "the move to end", __FILE__, __LINE__);
        pump_turn_nb(from);
        pump_turn_nb(to);
    }
    quoit_event event = op_must(from, id, 0);
    CHECK_EQ(to->moves, before + 1);
    CHECK_EQ(event.value, to->moved.value);
    CHECK_EQ(to->moved.source, stream);
    CHECK_EQ(to->moved.user_data, word);
    CHECK_EQ(op_must(from, op_recv(from, stream, 0, 0), QUOIT_E_STALE).aux, QUOIT_FIELD_TARGET);
    return event.value;
}

void echo_over(struct pump *pump, quoit_handle stream, int fd, const char *text) {
    char answer[64];
    size_t length = strlen(text);
    peer_send(pump, fd, text, length);
    quoit_event event = op_must(pump, op_recv(pump, stream, 0, 0), (int64_t)length);
    CHECK(!memcmp(event_data(pump, &event), text, length));
    op_must(pump, op_send(pump, stream, text, length, 0), (int64_t)length);
    peer_recv(pump, fd, answer, length);
    CHECK(!memcmp(answer, text, length));
}

/* With one event a turn the second stream's bytes wait behind the first's, in the ring, when its pause comes. On epoll they wait in the socket. */
struct link link_with_held(struct pump *pump) {
    struct link links[2];
    uint64_t recvs[2];
    CHECK_EQ(pump->batch->events_max, 1);
    for (int i = 0; i < 2; i++)
        links[i] = link_open_recv(pump, &recvs[i]);
    pump_turn_nb(pump);
    for (int i = 0; i < 2; i++)
        peer_send(pump, links[i].fd, "held", 4);
    PUMP_UNTIL(pump, op_record(pump, recvs[0])->events || op_record(pump, recvs[1])->events);
    int other = op_record(pump, recvs[0])->events ? 1 : 0;
    op_must(pump, op_simple(pump, QUOIT_OP_RECV_PAUSE, links[other].stream), 0);
    op_must(pump, op_cancel(pump, links[other].stream, QUOIT_OP_RECV, 0), 1);
    op_must(pump, recvs[other], -ECANCELED);
    CHECK_EQ(stream_of(pump, links[other].stream)->total, 0);
    link_close(pump, &links[!other]);
    return links[other];
}
