/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Each kind of request on each rung of the io_uring driver, by driver.h alone. */
#include "uring_rig.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>

static int listener_on(struct sockaddr_in *addr) {
    socklen_t len = sizeof *addr;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(fd, (struct sockaddr *)addr, sizeof *addr), 0);
    assert_int_equal(listen(fd, 64), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)addr, &len), 0);
    return fd;
}

static int tcp_socket(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    return fd;
}

static void nop(void **state) {
    struct rig rig;
    ring_open(&rig, state, 0);
    qt_req *req = rig_req(&rig, QT_REQ_NOP, -1);
    rig_submit(&rig, req);
    rig_ends(&rig, req, 0);
    rig_sleeps(&rig);
    rig_close(&rig);
}

static void one_call_per_tick(void **state) {
    struct rig rig;
    int fds[2];
    ring_open(&rig, state, 8);
    rig_pair(fds);
    rig_tick(&rig, 0, 100); /* the wake's read goes in */
    uint64_t before = rig.d->system_calls;
    rig_tick(&rig, 0, 100);
    rig.d->ops->pending(rig.d);
    assert_int_equal(rig.d->system_calls, before); /* with nothing to do, not even one */
    for (int i = 0; i < 20; i++)
        rig_submit(&rig, rig_req(&rig, QT_REQ_NOP, -1));
    rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    rig_write(fds[1], "x", 1);
    rig_tick(&rig, -1, 100);
    assert_true(rig.count >= 20);
    assert_int_equal(rig.d->system_calls, before + 1);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

static void waits_out_its_time(void **state) {
    struct rig rig;
    int fds[2];
    ring_open(&rig, state, 1);
    rig_pair(fds);
    for (int submits = 0; submits < 2; submits++) {
        int64_t from = qt_now_ns();
        if (submits)
            rig_recv(&rig, fds[0], 0);
        assert_int_equal(rig.d->ops->enter(rig.d, 20000000), 0);
        assert_true(qt_now_ns() - from >= 20000000);
        assert_int_equal(rig.d->ops->harvest(rig.d, 10), 0);
    }
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

static void on_alarm(int number) {
    (void)number;
}

/* A wait that a signal cuts short says so, also when the same call submitted something. */
static void signal_interrupts(void **state) {
    struct rig rig;
    int fds[2];
    struct sigaction action = {.sa_handler = on_alarm};
    struct sigaction before;
    ring_open(&rig, state, 1);
    rig_pair(fds);
    sigaction(SIGALRM, &action, &before);
    for (int submits = 0; submits < 2; submits++) {
        if (submits)
            rig_recv(&rig, fds[0], 0);
        else
            rig_tick(&rig, 0, 1); /* the wake's read goes in */
        setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = 20000}, NULL);
        assert_int_equal(rig.d->ops->enter(rig.d, submits ? -1 : RIG_PATIENCE_NS), -EINTR);
    }
    sigaction(SIGALRM, &before, NULL);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

static void recv_once(void **state) {
    struct rig rig;
    int fds[2];
    ring_open(&rig, state, 4);
    rig_pair(fds);
    rig_write(fds[1], "0123456789", 10);
    qt_req *req = rig_req(&rig, QT_REQ_RECV, fds[0]);
    req->len = 4;
    rig_submit(&rig, req);
    struct told told = rig_next(&rig, req);
    assert_int_equal(told.res, 4);
    assert_int_equal(told.flags & (QT_CQ_MORE | QT_CQ_BUFFER), QT_CQ_BUFFER);
    assert_memory_equal(rig_buffer(&rig, told.bid), "0123", 4);
    req->len = 0;
    rig_submit(&rig, req); /* the same request once more, into the whole buffer */
    told = rig_next(&rig, req);
    assert_int_equal(told.res, 6);
    assert_memory_equal(rig_buffer(&rig, told.bid), "456789", 6);
    rig_sleeps(&rig);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

static void recv_many_then_end(void **state) {
    struct rig rig;
    int fds[2];
    ring_open(&rig, state, 2);
    rig_pair(fds);
    qt_req *req = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    for (int i = 0; i < 10; i++) {
        rig_write(fds[1], "xy", 2);
        struct told told = rig_next(&rig, req);
        assert_int_equal(told.res, 2);
        assert_int_equal(told.flags & (QT_CQ_MORE | QT_CQ_BUFFER), QT_CQ_MORE | QT_CQ_BUFFER);
    }
    close(fds[1]);
    assert_int_equal(ring_result(&rig, req), 0);
    rig_sleeps(&rig);
    close(fds[0]);
    rig_close(&rig);
}

/* Four buffers, six to fill: the pool runs dry, nothing is lost, and it goes on when buffers come back. */
static void recv_without_buffers(void **state) {
    struct rig rig;
    int fds[2];
    uint8_t sent[6 * RIG_BUFFER_SIZE];
    uint8_t got[sizeof sent];
    ring_open(&rig, state, 4);
    rig.keep = true;
    rig_pair(fds);
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (uint8_t)(i * 7);
    rig_write(fds[1], sent, sizeof sent);
    qt_req *req = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    size_t at = 0;
    bool dry = false;
    while (at < sizeof sent) {
        struct told told = rig_next(&rig, req);
        if (told.res == -ENOBUFS) {
            assert_int_equal(told.flags, 0);
            assert_int_equal(at, 4 * RIG_BUFFER_SIZE);
            dry = true;
            rig_sleeps(&rig);
            rig.d->ops->buffer_add(rig.d, 2);
            rig.d->ops->buffer_add(rig.d, 0);
            rig_submit(&rig, req);
            continue;
        }
        assert_true(told.res > 0 && told.flags & QT_CQ_BUFFER);
        memcpy(got + at, rig_buffer(&rig, told.bid), (size_t)told.res);
        at += (size_t)told.res;
    }
    assert_true(dry);
    assert_memory_equal(got, sent, sizeof sent);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

static void discard(void **state) {
    struct rig rig;
    int fds[2];
    char sink[32];
    ring_open(&rig, state, 0);
    rig_pair(fds);
    qt_req *req = rig_memory(&rig, QT_REQ_DISCARD, fds[0], sink, sizeof sink);
    rig_submit(&rig, req);
    rig_write(fds[1], "into memory", 11);
    rig_ends(&rig, req, 11);
    assert_memory_equal(sink, "into memory", 11);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

static void accept_one_and_many(void **state) {
    struct rig rig;
    struct sockaddr_in addr;
    int clients[20];
    ring_open(&rig, state, 0);
    int listener = listener_on(&addr);
    qt_req *req = rig_req(&rig, QT_REQ_ACCEPT, listener);
    req->flags = QT_REQ_MULTISHOT;
    rig_submit(&rig, req);
    for (int i = 0; i < 20; i++) {
        clients[i] = tcp_socket();
        assert_int_equal(connect(clients[i], (struct sockaddr *)&addr, sizeof addr), 0);
    }
    for (int i = 0; i < 20; i++) {
        struct told told = rig_next(&rig, req);
        assert_true(told.res >= 0 && told.flags & QT_CQ_MORE);
        assert_int_equal(fcntl(told.res, F_GETFD), FD_CLOEXEC);
        close(told.res);
        close(clients[i]);
    }
    rig_cancel(&rig, req);
    rig_ends(&rig, req, -ECANCELED);
    req = rig_req(&rig, QT_REQ_ACCEPT, listener);
    rig_submit(&rig, req);
    clients[0] = tcp_socket();
    assert_int_equal(connect(clients[0], (struct sockaddr *)&addr, sizeof addr), 0);
    int fd = ring_result(&rig, req);
    assert_true(fd >= 0);
    close(fd);
    close(clients[0]);
    close(listener);
    rig_close(&rig);
}

static void connect_and_refused(void **state) {
    struct rig rig;
    struct sockaddr_in addr;
    ring_open(&rig, state, 0);
    int listener = listener_on(&addr);
    int fd = tcp_socket();
    qt_req *req = rig_memory(&rig, QT_REQ_CONNECT, fd, &addr, sizeof addr);
    rig_submit(&rig, req);
    rig_ends(&rig, req, 0);
    close(fd);
    close(listener);
    fd = tcp_socket();
    req = rig_memory(&rig, QT_REQ_CONNECT, fd, &addr, sizeof addr);
    rig_submit(&rig, req);
    rig_ends(&rig, req, -ECONNREFUSED);
    close(fd);
    rig_close(&rig);
}

static void send_and_sendmsg(void **state) {
    struct rig rig;
    int fds[2];
    char got[16];
    char first[] = "gath";
    char second[] = "ered";
    struct iovec slices[2] = {{first, 4}, {second, 4}};
    struct msghdr message = {.msg_iov = slices, .msg_iovlen = 2};
    ring_open(&rig, state, 0);
    rig_pair(fds);
    qt_req *req = rig_memory(&rig, QT_REQ_SEND, fds[0], "plain", 5);
    rig_submit(&rig, req);
    rig_ends(&rig, req, 5);
    assert_int_equal(read(fds[1], got, sizeof got), 5);
    req = rig_memory(&rig, QT_REQ_SENDMSG, fds[0], &message, 0);
    rig_submit(&rig, req);
    rig_ends(&rig, req, 8);
    assert_int_equal(read(fds[1], got, sizeof got), 8);
    assert_memory_equal(got, "gathered", 8);
    close(fds[1]);
    req = rig_memory(&rig, QT_REQ_SEND, fds[0], "nobody", 6);
    rig_submit(&rig, req);
    rig_ends(&rig, req, -EPIPE); /* and no SIGPIPE, which would end this program */
    close(fds[0]);
    rig_close(&rig);
}

/* A send that finds no room waits for it and may come back short. */
static void send_blocked(void **state) {
    struct rig rig;
    int fds[2];
    size_t size = 4 << 20;
    uint8_t *out = calloc(1, size);
    uint8_t *in = malloc(1 << 16);
    ring_open(&rig, state, 0);
    rig_pair(fds);
    qt_req *req = rig_memory(&rig, QT_REQ_SEND, fds[0], out, (uint32_t)size);
    rig_submit(&rig, req);
    size_t sent = 0;
    size_t seen = 0;
    while (sent < size) {
        rig_tick(&rig, 0, 10);
        ssize_t n = recv(fds[1], in, 1 << 16, MSG_DONTWAIT);
        seen += n > 0 ? (size_t)n : 0;
        if (rig.read == rig.count)
            continue;
        int32_t res = ring_result(&rig, req);
        assert_true(res > 0);
        sent += (size_t)res;
        req->addr += (uint64_t)res;
        req->len -= (uint32_t)res;
        if (sent < size)
            rig_submit(&rig, req);
    }
    while (seen < size) {
        ssize_t n = recv(fds[1], in, 1 << 16, 0);
        assert_true(n > 0);
        seen += (size_t)n;
    }
    free(out);
    free(in);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

static void shutdown_and_close(void **state) {
    struct rig rig;
    int fds[2];
    char got[4];
    ring_open(&rig, state, 0);
    rig_pair(fds);
    qt_req *req = rig_req(&rig, QT_REQ_SHUTDOWN, fds[0]);
    req->op_flags = SHUT_WR;
    rig_submit(&rig, req);
    rig_cancel(&rig, req); /* of no effect */
    rig_ends(&rig, req, 0);
    assert_int_equal(read(fds[1], got, sizeof got), 0);
    req = rig_req(&rig, QT_REQ_CLOSE, fds[0]);
    rig_submit(&rig, req);
    rig_cancel(&rig, req);
    rig_ends(&rig, req, 0);
    assert_int_equal(fcntl(fds[0], F_GETFD), -1);
    close(fds[1]);
    rig_close(&rig);
}

static void poll_once(void **state) {
    struct rig rig;
    int fds[2];
    ring_open(&rig, state, 0);
    rig_pair(fds);
    qt_req *req = rig_req(&rig, QT_REQ_POLL, fds[0]);
    req->op_flags = POLLIN;
    rig_submit(&rig, req);
    rig_sleeps(&rig);
    rig_write(fds[1], "x", 1);
    rig_ends(&rig, req, POLLIN);
    rig_sleeps(&rig);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

static void files(void **state) {
    struct rig rig;
    char folder[] = "/tmp/quoit-uring-XXXXXX";
    char path[64];
    char got[32] = {0};
    char first[] = "one ";
    char second[] = "two";
    struct iovec slices[2] = {{first, 4}, {second, 3}};
    ring_open(&rig, state, 0);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    qt_req *req = rig_memory(&rig, QT_REQ_OPENAT, AT_FDCWD, path, 0600);
    req->op_flags = O_RDWR | O_CREAT | O_CLOEXEC;
    rig_submit(&rig, req);
    int fd = ring_result(&rig, req);
    assert_true(fd >= 0);
    req->code = QT_REQ_WRITEV;
    req->fd = fd;
    req->addr = (uint64_t)(uintptr_t)slices;
    req->len = 2;
    req->op_flags = 0;
    req->offset = 0;
    rig_submit(&rig, req);
    assert_int_equal(ring_result(&rig, req), 7);
    req->code = QT_REQ_WRITE;
    req->addr = (uint64_t)(uintptr_t) " three";
    req->len = 6;
    req->offset = -1;
    req->op_flags = RWF_APPEND;
    rig_submit(&rig, req);
    assert_int_equal(ring_result(&rig, req), 6);
    req->code = QT_REQ_FSYNC;
    req->op_flags = 1;
    rig_submit(&rig, req);
    assert_int_equal(ring_result(&rig, req), 0);
    req->code = QT_REQ_READ;
    req->addr = (uint64_t)(uintptr_t)got;
    req->len = sizeof got;
    req->op_flags = 0;
    req->offset = 4;
    rig_submit(&rig, req);
    rig_ends(&rig, req, 9);
    assert_string_equal(got, "two three");
    close(fd);
    unlink(path);
    rmdir(folder);
    req = rig_memory(&rig, QT_REQ_OPENAT, AT_FDCWD, path, 0);
    rig_submit(&rig, req);
    rig_ends(&rig, req, -ENOENT);
    rig_close(&rig);
}

/* A pipe has no position: reads wait for it like for a socket. */
static void read_pipe(void **state) {
    struct rig rig;
    int fds[2];
    char got[8];
    ring_open(&rig, state, 0);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    qt_req *req = rig_memory(&rig, QT_REQ_READ, fds[0], got, sizeof got);
    req->offset = -1;
    rig_submit(&rig, req);
    rig_sleeps(&rig);
    assert_int_equal(write(fds[1], "pipe", 4), 4);
    rig_ends(&rig, req, 4);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

static void bad_descriptor(void **state) {
    static const uint8_t codes[] = {QT_REQ_ACCEPT, QT_REQ_RECV, QT_REQ_SEND,
                                    QT_REQ_POLL,   QT_REQ_READ, QT_REQ_CLOSE};
    struct rig rig;
    char byte;
    ring_open(&rig, state, 1);
    for (size_t i = 0; i < sizeof codes; i++) {
        qt_req *req = rig_memory(&rig, codes[i], 1 << 19, &byte, 1);
        rig_submit(&rig, req);
        rig_ends(&rig, req, -EBADF);
    }
    rig_close(&rig);
}

static void budget_is_kept(void **state) {
    struct rig rig;
    ring_open(&rig, state, 0);
    for (int i = 0; i < 50; i++)
        rig_submit(&rig, rig_req(&rig, QT_REQ_NOP, -1));
    rig_tick(&rig, 0, 7);
    assert_int_equal(rig.count, 7);
    assert_true(rig.d->ops->pending(rig.d));
    rig_until(&rig, 50);
    assert_false(rig.d->ops->pending(rig.d));
    rig_close(&rig);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(nop),
        cmocka_unit_test(one_call_per_tick),
        cmocka_unit_test(waits_out_its_time),
        cmocka_unit_test(signal_interrupts),
        cmocka_unit_test(recv_once),
        cmocka_unit_test(recv_many_then_end),
        cmocka_unit_test(recv_without_buffers),
        cmocka_unit_test(discard),
        cmocka_unit_test(accept_one_and_many),
        cmocka_unit_test(connect_and_refused),
        cmocka_unit_test(send_and_sendmsg),
        cmocka_unit_test(send_blocked),
        cmocka_unit_test(shutdown_and_close),
        cmocka_unit_test(poll_once),
        cmocka_unit_test(files),
        cmocka_unit_test(read_pipe),
        cmocka_unit_test(bad_descriptor),
        cmocka_unit_test(budget_is_kept),
    };
    return ring_run("uring driver", tests, sizeof tests / sizeof tests[0]);
}
