/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* datagrams_udp.c: what UDP has besides: segments and joined datagrams, packet info, groups. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const quoit_addr *addr_in(const struct pump *pump, uint64_t offset) {
    return (const quoit_addr *)(uintptr_t)(pump->batch->recv_base + offset);
}

static uint64_t send_segments(struct pump *pump, quoit_handle socket, const quoit_addr *to, const void *data,
                              size_t len, uint32_t segment) {
    uint64_t id = op_sendmsg(pump, socket, to, data, len, 0);
    ((quoit_op *)(uintptr_t)pump->batch->ops)[pump->nops - 1].arg = segment;
    return id;
}

/* One op, many datagrams: also more than the kernel splits in one go, and with a short last one. */
static void segments(void) {
    static const struct {
        size_t len;
        uint32_t segment;
    } rows[] = {{1000, 100}, {1001, 100},   {99, 100},    {100, 100},
                {0, 100},    {65000, 1000}, {20000, 140}, {90000, 900}};
    static char data[90000], got[2000];
    struct pump pump;
    quoit_addr here = addr_v4(0), there = addr_v4(0);
    pump_open(&pump, NULL);
    pattern_fill(data, 1, 0, sizeof data);
    quoit_handle socket = bind_on(&pump, &here, 0);
    int fd = peer_bind(&there);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t send = send_segments(&pump, socket, &there, data, rows[i].len, rows[i].segment);
        size_t at = 0;
        do {
            size_t left = rows[i].len - at, want = left < rows[i].segment ? left : rows[i].segment;
            CHECK_EQ(peer_recv_from(&pump, fd, got, sizeof got, NULL), want);
            CHECK(!memcmp(got, data + at, want));
            at += want;
        } while (at < rows[i].len);
        op_must(&pump, send, (int64_t)rows[i].len);
    }
    /* A segment that no datagram holds is an error, however it is sent. */
    quoit_event event = op_must(&pump, send_segments(&pump, socket, &there, data, 90000, 65535), -EMSGSIZE);
    CHECK_EQ(event.value, 0);
    close(fd);
    pump_close(&pump);
}

/* From slices, cut anywhere. */
static void segments_of_slices(void) {
    static char data[6000], got[2000];
    static quoit_iov slices[100];
    struct pump pump;
    quoit_addr here = addr_v4(0), there = addr_v4(0);
    pump_open(&pump, NULL);
    pattern_fill(data, 1, 0, sizeof data);
    for (size_t i = 0; i < 100; i++)
        slices[i] = (quoit_iov){.addr = (uintptr_t)data + i * 60, .len = 60};
    quoit_handle socket = bind_on(&pump, &here, 0);
    int fd = peer_bind(&there);
    /* 70 is for the kernel, 37 makes more than it splits in one go. */
    for (uint32_t segment = 70; segment >= 37; segment -= 33) {
        quoit_op *op = op_new(&pump, QUOIT_OP_SENDMSG, socket);
        uint64_t id = op->user_data;
        op->flags = QUOIT_OPF_IOV | QUOIT_OPF_BORROW;
        op->addr = (uintptr_t)slices;
        op->len = 100;
        op->arg = segment;
        op->arg2 = (uintptr_t)&there;
        for (size_t at = 0; at < sizeof data; at += segment) {
            size_t want = sizeof data - at < segment ? sizeof data - at : segment;
            CHECK_EQ(peer_recv_from(&pump, fd, got, sizeof got, NULL), want);
            CHECK(!memcmp(got, data + at, want));
        }
        op_must(&pump, id, sizeof data);
    }
    close(fd);
    pump_close(&pump);
}

/* Joined on arrival: the bytes are all there, and the size of each datagram is told. */
static void joined(void) {
    static char data[20000];
    struct pump pump;
    quoit_addr here = addr_v4(0), there = addr_v4(0);
    pump_open(&pump, NULL);
    pattern_fill(data, 1, 0, sizeof data);
    quoit_handle from = bind_on(&pump, &there, 0);
    quoit_handle socket = bind_on(&pump, &here, QUOIT_BIND_GRO);
    uint64_t recv = op_recvmsg(&pump, socket, 0, 0);
    uint64_t send = send_segments(&pump, from, &here, data, sizeof data, 1000);
    quoit_event event = op_finish(&pump, recv);
    CHECK(event.result >= 1000 && event.result % 1000 == 0);
    CHECK_EQ(event.aux, event.result > 1000 ? 1000 : 0);
    CHECK(!memcmp(event_data(&pump, &event), data, event.len));
    CHECK(!memcmp(addr_in(&pump, event.value), &there, sizeof there));
    for (size_t at = event.len; at < sizeof data; at += event.len) {
        event = op_finish(&pump, op_recvmsg(&pump, socket, 0, 0));
        CHECK(!(event.flags & QUOIT_EVF_TRUNC));
        CHECK(!memcmp(event_data(&pump, &event), data + at, event.len));
    }
    op_must(&pump, send, sizeof data);
    /* One by itself is no row of them, in a pool buffer neither. */
    for (uint32_t cap = 0; cap <= 1000; cap += 500)
        for (int multi = 0; multi < 2; multi++) {
            recv = op_recvmsg(&pump, socket, multi ? QUOIT_OPF_MULTI : 0, cap);
            op_must(&pump, op_sendmsg(&pump, from, &here, data, 400, 0), 400);
            PUMP_UNTIL(&pump, op_record(&pump, recv)->events);
            CHECK_EQ(op_record(&pump, recv)->last.result, 400);
            CHECK_EQ(op_record(&pump, recv)->last.aux, 0);
            if (!multi)
                continue;
            op_must(&pump, op_cancel(&pump, socket, 0, 0), 1);
            op_must(&pump, recv, -ECANCELED);
        }
    pump_close(&pump);
}

struct joined {
    const char *data;
    size_t got;
};

/* All in one, mostly; older kernels join fewer of them, and a turn then brings several. */
static void on_joined(struct pump *pump, const quoit_event *event) {
    struct joined *joined = pump->ctx;
    if (event->kind != QUOIT_OP_RECVMSG || event->result < 0)
        return;
    CHECK(!memcmp(event_data(pump, event), joined->data + joined->got, event->len));
    CHECK_EQ(event->aux, event->result > 1000 ? 1000 : 0);
    CHECK_EQ(addr_in(pump, event->value + sizeof(quoit_addr))->family, QUOIT_FAMILY_V4);
    joined->got += event->len;
}

static void joined_in_a_pool(void) {
    quoit_worker_options options = {.recv_buffer_size = 65536, .recv_buffers = 8};
    static char data[30000];
    struct joined joined = {.data = data};
    struct pump pump;
    quoit_addr here = addr_v4(0), there = addr_v4(0);
    pump_open(&pump, &options);
    pump.on_event = on_joined;
    pump.ctx = &joined;
    pattern_fill(data, 1, 0, sizeof data);
    quoit_handle from = bind_on(&pump, &there, 0);
    quoit_handle socket = bind_on(&pump, &here, QUOIT_BIND_GRO | QUOIT_BIND_PKTINFO);
    op_recvmsg(&pump, socket, QUOIT_OPF_MULTI, 65536 - 256);
    send_segments(&pump, from, &here, data, sizeof data, 1000);
    PUMP_UNTIL(&pump, joined.got >= sizeof data);
    CHECK_EQ(joined.got, sizeof data);
    pump_close(&pump);
}

/* Where each datagram was sent to, and by which interface it came; and to choose where one leaves from. */
static void packet_info(void) {
    for (int six = 0; six < 2; six++)
        for (uint32_t cap = 0; cap <= 9000; cap += 4500)
            for (int multi = 0; multi < 2; multi++) {
                struct pump pump;
                quoit_addr any = {.family = six ? QUOIT_FAMILY_V6 : QUOIT_FAMILY_V4, .len = six ? 16 : 4};
                quoit_addr there = six ? addr_v6(0) : addr_v4(0), to = there, seen;
                char text[8];
                pump_open(&pump, NULL);
                quoit_handle socket = bind_on(&pump, &any, QUOIT_BIND_PKTINFO);
                int fd = peer_bind(&there);
                to.port = any.port;
                if (!six)
                    to.bytes[3] = 77; /* 127.0.0.77 */
                uint64_t recv =
                    op_recvmsg(&pump, socket, multi ? QUOIT_OPF_MULTI : 0, cap == 4500 ? 100 : cap);
                peer_send_to(fd, &to, "where", 5);
                PUMP_UNTIL(&pump, op_record(&pump, recv)->events);
                quoit_event event = op_record(&pump, recv)->last;
                CHECK(!memcmp(event_data(&pump, &event), "where", 5));
                CHECK(!memcmp(addr_in(&pump, event.value), &there, sizeof there));
                quoit_packet_info info = {.struct_size = sizeof info};
                info.source = *addr_in(&pump, event.value + sizeof(quoit_addr));
                CHECK_EQ(info.source.scope, if_nametoindex("lo"));
                to.scope = info.source.scope;
                CHECK(!memcmp(&info.source, &to, sizeof to));
                /* The answer leaves from there. */
                info.source.port = 0;
                op_sendmsg(&pump, socket, &there, "there", 5, 0);
                ((quoit_op *)(uintptr_t)pump.batch->ops)[pump.nops - 1].offset = (int64_t)(uintptr_t)&info;
                CHECK_EQ(peer_recv_from(&pump, fd, text, sizeof text, &seen), 5);
                to.scope = 0;
                CHECK(!memcmp(&seen, &to, sizeof seen));
                close(fd);
                pump_close(&pump);
            }
}

static uint64_t send_with_info(struct pump *pump, quoit_handle socket, const quoit_addr *to,
                               const quoit_packet_info *info) {
    uint64_t id = op_sendmsg(pump, socket, to, "x", 1, 0);
    ((quoit_op *)(uintptr_t)pump->batch->ops)[pump->nops - 1].offset = (int64_t)(uintptr_t)info;
    return id;
}

static void wrong_info(void) {
    struct pump pump;
    quoit_addr here = addr_v4(0);
    quoit_packet_info info = {.struct_size = sizeof info, .source = addr_v4(0)}, good = info;
    pump_open(&pump, NULL);
    quoit_handle socket = bind_on(&pump, &here, 0);
    op_must(&pump, send_with_info(&pump, socket, &here, &info), 1);
    info.source.port = 1;
    CHECK_EQ(op_must(&pump, send_with_info(&pump, socket, &here, &info), QUOIT_E_FIELD).aux,
             QUOIT_FIELD_OFFSET);
    info.source = addr_v6(0);
    CHECK_EQ(op_must(&pump, send_with_info(&pump, socket, &here, &info), QUOIT_E_FIELD).aux,
             QUOIT_FIELD_OFFSET);
    info = good;
    info.flags = 1;
    CHECK_EQ(op_must(&pump, send_with_info(&pump, socket, &here, &info), QUOIT_E_FLAGS).aux,
             QUOIT_FIELD_OFFSET);
    info = good;
    info.reserved = 1;
    CHECK_EQ(op_must(&pump, send_with_info(&pump, socket, &here, &info), QUOIT_E_FIELD).aux,
             QUOIT_FIELD_OFFSET);
    info = good;
    info.struct_size = 143;
    CHECK_EQ(op_must(&pump, send_with_info(&pump, socket, &here, &info), QUOIT_E_STRUCT_SIZE).aux,
             QUOIT_FIELD_OFFSET);
    info = good;
    info.source.bytes[0] = 192; /* not ours */
    CHECK(op_finish(&pump, send_with_info(&pump, socket, &here, &info)).result < 0);
    info = (quoit_packet_info){.struct_size = sizeof info};
    info.source.scope = if_nametoindex("lo");
    op_must(&pump, send_with_info(&pump, socket, &here, &info), 1);
    pump_close(&pump);
}

static uint64_t op_group(struct pump *pump, quoit_handle socket, const quoit_addr *group, uint32_t what) {
    quoit_op *op = op_new(pump, QUOIT_OP_MULTICAST, socket);
    op->addr = (uintptr_t)group;
    op->len = sizeof *group;
    op->arg = what;
    return op->user_data;
}

/* Two members of a group each have a copy; who is in another or has left has none. */
static void members_of_a_group(void) {
    struct pump pump;
    quoit_addr any = {.family = QUOIT_FAMILY_V4, .len = 4};
    quoit_addr group = {.family = QUOIT_FAMILY_V4, .len = 4, .bytes = {239, 255, 77, 78}}, other = group;
    quoit_packet_info info = {.struct_size = sizeof info};
    quoit_handle sockets[3];
    uint64_t recv[3];
    pump_open(&pump, NULL);
    group.scope = other.scope = info.source.scope = if_nametoindex("lo");
    other.bytes[3]++;
    for (int i = 0; i < 3; i++) {
        sockets[i] = bind_on(&pump, &any, QUOIT_BIND_REUSEPORT);
        op_must(&pump, op_group(&pump, sockets[i], i < 2 ? &group : &other, QUOIT_MULTICAST_JOIN), 0);
        recv[i] = op_recvmsg(&pump, sockets[i], QUOIT_OPF_MULTI, 0);
    }
    op_must(&pump, op_group(&pump, sockets[0], &group, QUOIT_MULTICAST_JOIN), -EADDRINUSE);
    quoit_addr to = group, to_other = other;
    to.port = to_other.port = any.port;
    op_must(&pump, send_with_info(&pump, sockets[0], &to, &info), 1);
    for (int i = 0; i < 2; i++)
        PUMP_UNTIL(&pump, op_record(&pump, recv[i])->events == 1);
    op_must(&pump, op_group(&pump, sockets[1], &group, QUOIT_MULTICAST_LEAVE), 0);
    op_must(&pump, op_group(&pump, sockets[1], &group, QUOIT_MULTICAST_LEAVE), -EADDRNOTAVAIL);
    op_must(&pump, send_with_info(&pump, sockets[0], &to, &info), 1);
    PUMP_UNTIL(&pump, op_record(&pump, recv[0])->events == 2);
    /* Delivered in order: what was for the others would have come before this. */
    op_must(&pump, send_with_info(&pump, sockets[0], &to_other, &info), 1);
    PUMP_UNTIL(&pump, op_record(&pump, recv[2])->events == 1);
    CHECK_EQ(op_record(&pump, recv[0])->events, 2);
    CHECK_EQ(op_record(&pump, recv[1])->events, 1);
    pump_close(&pump);
}

static bool is_member(const char *group) {
    char line[256];
    bool found = false;
    FILE *file = fopen("/proc/net/igmp6", "re");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file))
        found |= strstr(line, " lo ") != NULL && strstr(line, group) != NULL;
    fclose(file);
    return found;
}

/* IPv6 has no route for groups on the loopback device: the kernel's list of members shows it. */
static void members_of_a_v6_group(void) {
    struct pump pump;
    quoit_addr any = {.family = QUOIT_FAMILY_V6, .len = 16}, group = any;
    static const char text[] = "ff010000000000000000000000005177";
    pump_open(&pump, NULL);
    memcpy(group.bytes, (uint8_t[16]){0xFF, 0x01, [14] = 0x51, [15] = 0x77}, 16);
    group.scope = if_nametoindex("lo");
    quoit_handle socket = bind_on(&pump, &any, 0);
    CHECK(!is_member(text));
    op_must(&pump, op_group(&pump, socket, &group, QUOIT_MULTICAST_JOIN), 0);
    CHECK(is_member(text));
    op_must(&pump, op_group(&pump, socket, &group, QUOIT_MULTICAST_JOIN), -EADDRINUSE);
    op_must(&pump, op_group(&pump, socket, &group, QUOIT_MULTICAST_LEAVE), 0);
    CHECK(!is_member(text));
    op_must(&pump, op_group(&pump, socket, &group, QUOIT_MULTICAST_LEAVE), -EADDRNOTAVAIL);
    pump_close(&pump);
}

static void wrong_groups(void) {
    struct pump pump;
    quoit_addr here = addr_v4(0), group = addr_v4(0), path = addr_unix("@quoit-no-group");
    pump_open(&pump, NULL);
    quoit_handle socket = bind_on(&pump, &here, 0);
    CHECK(op_finish(&pump, op_group(&pump, socket, &group, QUOIT_MULTICAST_JOIN)).result < 0); /* is none */
    memcpy(group.bytes, (uint8_t[4]){239, 255, 77, 79}, 4);
    CHECK_EQ(op_must(&pump, op_group(&pump, socket, &group, 0), QUOIT_E_FIELD).aux, QUOIT_FIELD_ARG);
    CHECK_EQ(op_must(&pump, op_group(&pump, socket, &group, 3), QUOIT_E_FIELD).aux, QUOIT_FIELD_ARG);
    CHECK_EQ(op_must(&pump, op_group(&pump, socket, &path, 1), QUOIT_E_FIELD).aux, QUOIT_FIELD_ADDR);
    group.port = 1;
    CHECK_EQ(op_must(&pump, op_group(&pump, socket, &group, 1), QUOIT_E_FIELD).aux, QUOIT_FIELD_ADDR);
    group.port = 0;
    group.scope = 0x7FFFFFFF;
    op_must(&pump, op_group(&pump, socket, &group, 1), -ENODEV);
    quoit_handle local = bind_on(&pump, &path, 0);
    CHECK_EQ(op_must(&pump, op_group(&pump, local, &group, 1), QUOIT_E_FIELD).aux, QUOIT_FIELD_ADDR);
    pump_close(&pump);
}

/* Broadcast addresses need the flag. */
static void broadcast(void) {
    struct pump pump;
    quoit_addr all = {.family = QUOIT_FAMILY_V4, .len = 4, .port = 9, .bytes = {127, 255, 255, 255}};
    pump_open(&pump, NULL);
    for (int allowed = 0; allowed < 2; allowed++) {
        quoit_addr here = addr_v4(0);
        quoit_handle socket = bind_on(&pump, &here, allowed ? QUOIT_BIND_BROADCAST : 0);
        op_must(&pump, op_sendmsg(&pump, socket, &all, "all", 3, 0), allowed ? 3 : -EACCES);
    }
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"segments", segments},
    {"segments_of_slices", segments_of_slices},
    {"joined", joined},
    {"joined_in_a_pool", joined_in_a_pool},
    {"packet_info", packet_info},
    {"wrong_info", wrong_info},
    {"members_of_a_group", members_of_a_group},
    {"members_of_a_v6_group", members_of_a_v6_group},
    {"wrong_groups", wrong_groups},
    {"broadcast", broadcast},
};
TEST_GROUP(datagrams_udp, cases);
