/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Datagrams on the drivers alone: what lies where for each form of a receive, and sends behind one that waits. */
#include "uring_rig.h"

#include <sys/uio.h>
#include <sys/un.h>

#define NAME_SIZE 16u
#define PAYLOAD_AT (QT_PACKET_HEAD + NAME_SIZE)

/* On epoll too: the state of a test is its rung. */
static void open_rig(struct rig *rig, void **state, unsigned buffers) {
    if ((uintptr_t)*state == QUOIT_DRIVER_EPOLL)
        rig_open(rig, buffers);
    else
        ring_open(rig, state, buffers);
}

static struct heard {
    qt_packet packet;
    uint32_t flags;
    int32_t res;
    unsigned count;
    char name[NAME_SIZE];
    char payload[RIG_BUFFER_SIZE];
} heard;

static void hear(qt_req *req, const qt_completion *c) {
    struct rig *rig = req->owner;
    const char *memory = c->flags & QT_CQ_BUFFER
                             ? (char *)rig->memory + (size_t)c->bid * RIG_BUFFER_SIZE
                             : ((struct msghdr *)(uintptr_t)req->addr)->msg_iov[0].iov_base;
    heard.count++;
    rig->told[rig->count++] = (struct told){req, c->res, c->flags, c->bid};
    heard.res = c->res;
    heard.flags = c->flags;
    assert_int_equal(c->packet != NULL, c->res >= 0);
    if (c->packet == NULL)
        return;
    heard.packet = *c->packet;
    if (c->packet->name_len > 0)
        memcpy(heard.name, c->packet->name,
               c->packet->name_len < NAME_SIZE ? c->packet->name_len : NAME_SIZE);
    if (c->packet->len > 0)
        memcpy(heard.payload, memory + c->packet->at, c->packet->len);
    if (c->flags & QT_CQ_BUFFER)
        rig->d->ops->buffer_add(rig->d, c->bid);
}

static void wait_heard(struct rig *rig, unsigned count) {
    int64_t limit = qt_now_ns() + RIG_PATIENCE_NS;
    while (heard.count < count) {
        assert_true(qt_now_ns() < limit);
        rig_tick(rig, 100000000, 16);
    }
    assert_int_equal(heard.count, count);
}

/* Two sockets, the second with an abstract name that the kernel chose. */
static void open_pair(int pair[2], struct sockaddr_un *name, socklen_t *len) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), 0);
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    *len = sizeof *name;
    assert_int_equal(bind(pair[1], (struct sockaddr *)name, sizeof name->sun_family), 0);
    assert_int_equal(getsockname(pair[1], (struct sockaddr *)name, len), 0);
    assert_true(*len <= NAME_SIZE);
}

static void each_form(void **state) {
    static const uint8_t forms[] = {0, QT_REQ_POOL, QT_REQ_MULTISHOT};
    for (int form = 0; form < 3; form++) {
        struct rig rig;
        int pair[2];
        struct sockaddr_un name;
        socklen_t len;
        char memory[RIG_BUFFER_SIZE], name_room[NAME_SIZE];
        uint32_t cap = forms[form] == QT_REQ_MULTISHOT ? RIG_BUFFER_SIZE - PAYLOAD_AT : 20;
        struct iovec slice = {forms[form] ? NULL : memory, forms[form] == QT_REQ_MULTISHOT ? 0 : 20};
        memset(&heard, 0, sizeof heard);
        open_rig(&rig, state, 8);
        open_pair(pair, &name, &len);
        const size_t sizes[] = {5, 50, 0, 20};
        struct msghdr header = {.msg_iov = &slice, .msg_iovlen = 1};
        qt_req *req = NULL;
        for (unsigned i = 0; i < 4; i++) {
            char text[50];
            memset(text, 'a' + (int)i, sizeof text);
            if (req == NULL || req->state == QT_REQ_IDLE) {
                header.msg_name = name_room;
                header.msg_namelen = NAME_SIZE;
                req = req ? req : rig_req(&rig, QT_REQ_RECVMSG, pair[0]);
                req->done = hear;
                req->flags = forms[form];
                req->addr = (uint64_t)(uintptr_t)&header;
                rig_submit(&rig, req);
            }
            assert_int_equal(send(pair[1], text, sizes[i], 0), sizes[i]);
            wait_heard(&rig, i + 1);
            assert_int_equal(heard.packet.whole, sizes[i]);
            assert_int_equal(heard.packet.len, sizes[i] < cap ? sizes[i] : cap);
            assert_int_equal(heard.packet.at, forms[form] == QT_REQ_MULTISHOT ? PAYLOAD_AT : 0);
            assert_int_equal(heard.packet.name_len, len);
            assert_memory_equal(heard.name, &name, len);
            assert_memory_equal(heard.payload, text, heard.packet.len);
        }
        if (req->state != QT_REQ_IDLE) {
            rig.d->ops->cancel(rig.d, req);
            wait_heard(&rig, 5);
            assert_int_equal(heard.res, -ECANCELED);
        }
        qt_req_free(&rig.requests, req);
        close(pair[0]);
        close(pair[1]);
        rig_close(&rig);
    }
}

/* Without a buffer nothing is taken out of the socket. */
static void empty_pool(void **state) {
    struct rig rig;
    int pair[2];
    struct sockaddr_un name;
    socklen_t len;
    struct iovec slice = {NULL, 20};
    struct msghdr header = {.msg_iov = &slice, .msg_iovlen = 1};
    memset(&heard, 0, sizeof heard);
    open_rig(&rig, state, 0);
    open_pair(pair, &name, &len);
    assert_int_equal(send(pair[1], "stays", 5, 0), 5);
    qt_req *req = rig_req(&rig, QT_REQ_RECVMSG, pair[0]);
    for (unsigned i = 0; i < 2; i++) {
        req->done = hear;
        req->flags = i ? QT_REQ_POOL : QT_REQ_MULTISHOT;
        req->addr = (uint64_t)(uintptr_t)&header;
        rig_submit(&rig, req);
        wait_heard(&rig, i + 1);
        assert_int_equal(heard.res, -ENOBUFS);
        assert_int_equal(req->state, QT_REQ_IDLE);
    }
    rig.d->ops->buffer_add(rig.d, 3);
    rig_submit(&rig, req);
    wait_heard(&rig, 3);
    assert_int_equal(heard.packet.whole, 5);
    assert_memory_equal(heard.payload, "stays", 5);
    qt_req_free(&rig.requests, req);
    close(pair[0]);
    close(pair[1]);
    rig_close(&rig);
}

#define BEHIND 6

/* On epoll: sends given after one that waits go in their order, and those that are cancelled let the others on. */
static void sends_behind_one_that_waits(void **state) {
    struct rig rig;
    int pair[2];
    char bytes[BEHIND], got;
    struct iovec slices[BEHIND];
    struct msghdr headers[BEHIND];
    qt_req *reqs[BEHIND];
    unsigned filled = 0;
    open_rig(&rig, state, 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), 0);
    while (send(pair[0], "x", 1, MSG_DONTWAIT) == 1)
        filled++;
    for (unsigned i = 0; i < BEHIND; i++) {
        bytes[i] = (char)('0' + i);
        slices[i] = (struct iovec){&bytes[i], 1};
        headers[i] = (struct msghdr){.msg_iov = &slices[i], .msg_iovlen = 1};
        reqs[i] = rig_memory(&rig, QT_REQ_SENDMSG, pair[0], &headers[i], 0);
        rig_submit(&rig, reqs[i]);
    }
    rig_tick(&rig, 0, 16);
    assert_int_equal(rig.count, 0);
    rig.d->ops->cancel(rig.d, reqs[2]);
    assert_int_equal(ring_result(&rig, reqs[2]), -ECANCELED);
    rig.d->ops->cancel(rig.d, reqs[0]);
    assert_int_equal(ring_result(&rig, reqs[0]), -ECANCELED);
    assert_int_equal(rig.count, 2); /* the others wait on */
    for (unsigned i = 0; i < filled; i++)
        assert_int_equal(recv(pair[1], &got, 1, MSG_DONTWAIT), 1);
    static const unsigned rest[] = {1, 3, 4, 5};
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(ring_result(&rig, reqs[rest[i]]), 1);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(recv(pair[1], &got, 1, MSG_DONTWAIT), 1);
        assert_int_equal(got, '0' + (int)rest[i]);
    }
    /* A close ends all of them. */
    while (send(pair[0], "x", 1, MSG_DONTWAIT) == 1)
        ;
    for (unsigned i = 0; i < BEHIND; i++)
        rig_submit(&rig, reqs[i]);
    rig_tick(&rig, 0, 16);
    qt_req *closing = rig_req(&rig, QT_REQ_CLOSE, pair[0]);
    rig_submit(&rig, closing);
    for (unsigned i = 0; i < BEHIND; i++)
        assert_int_equal(ring_result(&rig, reqs[i]), -ECANCELED);
    assert_int_equal(ring_result(&rig, closing), 0);
    for (unsigned i = 0; i < BEHIND; i++)
        qt_req_free(&rig.requests, reqs[i]);
    qt_req_free(&rig.requests, closing);
    close(pair[1]);
    rig_close(&rig);
}

int main(void) {
    static const struct CMUnitTest both[] = {cmocka_unit_test(each_form), cmocka_unit_test(empty_pool)};
    void *epoll = (void *)(uintptr_t)QUOIT_DRIVER_EPOLL;
    const struct CMUnitTest of_epoll[] = {
        cmocka_unit_test_prestate(each_form, epoll),
        cmocka_unit_test_prestate(empty_pool, epoll),
        cmocka_unit_test_prestate(sends_behind_one_that_waits, epoll),
    };
    int failed = cmocka_run_group_tests_name("epoll", of_epoll, NULL, NULL);
    return failed + ring_run("io_uring", both, sizeof both / sizeof *both);
}
