/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Each kind of request on the epoll driver, by driver.h alone. */
#include "epoll_rig.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>

static int tcp_listener(struct sockaddr_in *addr, int backlog) {
    socklen_t len = sizeof *addr;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(fd, (struct sockaddr *)addr, sizeof *addr), 0);
    assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)addr, &len), 0);
    return fd;
}

/* A Unix listener with a name that no file has. */
static int unix_listener(struct sockaddr_un *addr, socklen_t *len, int backlog) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    *len = sizeof *addr;
    assert_int_equal(bind(fd, (struct sockaddr *)addr, sizeof(sa_family_t)), 0); /* the kernel picks one */
    assert_int_equal(getsockname(fd, (struct sockaddr *)addr, len), 0);
    assert_int_equal(listen(fd, backlog), 0);
    return fd;
}

static int tcp_socket(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    return fd;
}

static void nop(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, 0);
    qt_req *req = rig_req(&rig, QT_REQ_NOP, -1);
    rig_submit(&rig, req);
    rig_tick(&rig, -1, 10); /* does not wait: something is complete */
    assert_int_equal(rig.count, 1);
    rig_ends(&rig, req, 0);
    assert_string_equal(rig.d->ops->name, "epoll");
    assert_int_equal(rig.d->rung, QUOIT_DRIVER_EPOLL);
    rig_close(&rig);
}

static void recv_once(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    rig_open(&rig, 1);
    rig_pair(fds);
    qt_req *req = rig_recv(&rig, fds[0], 0);
    rig_tick(&rig, 0, 10);
    assert_int_equal(rig.count, 0);
    assert_int_equal(req->state, QT_REQ_IN_FLIGHT);
    rig_write(fds[1], "hello", 5);
    struct told told = rig_next(&rig, req);
    assert_int_equal(told.res, 5);
    assert_int_equal(told.flags, QT_CQ_BUFFER);
    assert_memory_equal(rig_buffer(&rig, told.bid), "hello", 5);
    rig_sleeps(&rig);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

static void recv_many_then_eof(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    rig_open(&rig, 2);
    rig_pair(fds);
    qt_req *req = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    for (int i = 0; i < 10; i++) {
        rig_write(fds[1], "xy", 2);
        struct told told = rig_next(&rig, req);
        assert_int_equal(told.res, 2);
        assert_int_equal(told.flags, QT_CQ_BUFFER | QT_CQ_MORE);
    }
    close(fds[1]);
    rig_ends(&rig, req, 0); /* no buffer with the end */
    rig_sleeps(&rig);       /* though the end stays readable */
    close(fds[0]);
    rig_close(&rig);
}

static void recv_cap(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    rig_open(&rig, 4);
    rig_pair(fds);
    rig_write(fds[1], "0123456789", 10);
    qt_req *req = rig_req(&rig, QT_REQ_RECV, fds[0]);
    req->len = 4;
    rig_submit(&rig, req);
    struct told told = rig_next(&rig, req);
    assert_int_equal(told.res, 4);
    assert_int_equal(told.flags, QT_CQ_BUFFER | QT_CQ_NONEMPTY);
    rig_submit(&rig, req); /* the same request once more */
    told = rig_next(&rig, req);
    assert_int_equal(told.res, 4);
    assert_memory_equal(rig_buffer(&rig, told.bid), "4567", 4);
    rig_sleeps(&rig); /* two bytes wait for nobody */
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

static void recv_reset(void **state) {
    (void)state;
    struct rig rig;
    struct sockaddr_in addr;
    struct linger hard = {.l_onoff = 1};
    rig_open(&rig, 2);
    int listener = tcp_listener(&addr, 8);
    int peer = tcp_socket();
    assert_int_equal(connect(peer, (struct sockaddr *)&addr, sizeof addr), 0);
    int fd = accept(listener, NULL, NULL);
    qt_req *req = rig_recv(&rig, fd, QT_REQ_MULTISHOT);
    rig_tick(&rig, 0, 10);
    setsockopt(peer, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(peer);
    rig_ends(&rig, req, -ECONNRESET);
    rig_sleeps(&rig);
    close(fd);
    close(listener);
    rig_close(&rig);
}

static void accept_many(void **state) {
    (void)state;
    struct rig rig;
    struct sockaddr_in addr;
    int clients[40];
    rig_open(&rig, 0);
    int listener = tcp_listener(&addr, 64);
    qt_req *req = rig_req(&rig, QT_REQ_ACCEPT, listener);
    req->flags = QT_REQ_MULTISHOT;
    rig_submit(&rig, req);
    for (int i = 0; i < 40; i++) {
        clients[i] = tcp_socket();
        assert_int_equal(connect(clients[i], (struct sockaddr *)&addr, sizeof addr), 0);
    }
    for (int i = 0; i < 40; i++) {
        struct told told = rig_next(&rig, req);
        assert_true(told.res >= 0);
        assert_int_equal(told.flags, QT_CQ_MORE);
        assert_true(fcntl(told.res, F_GETFD) & FD_CLOEXEC);
        close(told.res);
        close(clients[i]);
    }
    rig_sleeps(&rig);
    rig_cancel(&rig, req);
    rig_ends(&rig, req, -ECANCELED);
    close(listener);
    rig_close(&rig);
}

static void accept_one(void **state) {
    (void)state;
    struct rig rig;
    struct sockaddr_un addr;
    socklen_t len;
    rig_open(&rig, 0);
    int listener = unix_listener(&addr, &len, 8);
    int clients[2];
    for (int i = 0; i < 2; i++) {
        clients[i] = socket(AF_UNIX, SOCK_STREAM, 0);
        assert_int_equal(connect(clients[i], (struct sockaddr *)&addr, len), 0);
    }
    qt_req *req = rig_req(&rig, QT_REQ_ACCEPT, listener);
    rig_submit(&rig, req);
    struct told told = rig_next(&rig, req);
    assert_true(told.res >= 0);
    assert_int_equal(told.flags, 0);
    rig_sleeps(&rig); /* the second waits in the backlog */
    close(told.res);
    close(clients[0]);
    close(clients[1]);
    close(listener);
    rig_close(&rig);
}

static void accept_on_what_does_not_listen(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, 0);
    int fd = tcp_socket();
    qt_req *req = rig_req(&rig, QT_REQ_ACCEPT, fd);
    req->flags = QT_REQ_MULTISHOT;
    rig_submit(&rig, req);
    rig_ends(&rig, req, -EINVAL);
    rig_sleeps(&rig);
    close(fd);
    rig_close(&rig);
}

static qt_req *start_connect(struct rig *rig, int fd, const void *addr, socklen_t len) {
    qt_req *req = rig_memory(rig, QT_REQ_CONNECT, fd, addr, len);
    rig_submit(rig, req);
    return req;
}

static void connect_tcp(void **state) {
    (void)state;
    struct rig rig;
    struct sockaddr_in addr;
    rig_open(&rig, 1);
    int listener = tcp_listener(&addr, 8);
    int fd = tcp_socket();
    rig_ends(&rig, start_connect(&rig, fd, &addr, sizeof addr), 0);
    int peer = accept(listener, NULL, NULL);
    assert_true(peer >= 0);
    rig_sleeps_at_once(&rig); /* writable, which nobody wants to know */
    qt_req *req = rig_recv(&rig, fd, 0);
    rig_write(peer, "a", 1);
    assert_int_equal(rig_next(&rig, req).res, 1);
    close(peer);
    close(listener);
    close(fd);
    fd = tcp_socket();
    rig_ends(&rig, start_connect(&rig, fd, &addr, sizeof addr), -ECONNREFUSED);
    rig_sleeps(&rig);
    close(fd);
    rig_close(&rig);
}

static void connect_unix_waits_for_room(void **state) {
    (void)state;
    struct rig rig;
    struct sockaddr_un addr;
    socklen_t len;
    rig_open(&rig, 0);
    int listener = unix_listener(&addr, &len, 0);
    int first = socket(AF_UNIX, SOCK_STREAM, 0);
    int second = socket(AF_UNIX, SOCK_STREAM, 0);
    int third = socket(AF_UNIX, SOCK_STREAM, 0);
    rig_ends(&rig, start_connect(&rig, first, &addr, len), 0);
    qt_req *waits = start_connect(&rig, second, &addr, len);
    qt_req *given_up = start_connect(&rig, third, &addr, len);
    for (int i = 0; i < 5; i++)
        rig_tick(&rig, 3000000, 10);
    assert_int_equal(rig.count, rig.read);
    rig_cancel(&rig, given_up);
    rig_ends(&rig, given_up, -ECANCELED);
    int peer = accept(listener, NULL, NULL);
    while (rig.count == rig.read)
        rig_tick(&rig, -1, 10); /* nothing but its own patience ends this wait */
    rig_ends(&rig, waits, 0);
    int other = accept(listener, NULL, NULL);
    assert_true(other >= 0);
    for (int *fd = (int[]){first, second, third, peer, other, listener, -1}; *fd >= 0; fd++)
        close(*fd);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    rig_ends(&rig, start_connect(&rig, fd, &addr, len), -ECONNREFUSED);
    close(fd);
    rig_close(&rig);
}

static void send_and_shutdown(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    char text[16] = {0};
    rig_open(&rig, 0);
    rig_pair(fds);
    qt_req *req = rig_memory(&rig, QT_REQ_SEND, fds[0], "abc", 3);
    rig_submit(&rig, req);
    rig_ends(&rig, req, 3);
    char de[] = "de", fgh[] = "fgh";
    struct iovec parts[2] = {{de, 2}, {fgh, 3}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    req = rig_memory(&rig, QT_REQ_SENDMSG, fds[0], &message, 0);
    rig_submit(&rig, req);
    rig_ends(&rig, req, 5);
    req = rig_req(&rig, QT_REQ_SHUTDOWN, fds[0]);
    req->op_flags = SHUT_WR;
    rig_submit(&rig, req);
    rig_ends(&rig, req, 0);
    assert_int_equal(recv(fds[1], text, sizeof text, MSG_WAITALL), 8);
    assert_string_equal(text, "abcdefgh");
    req = rig_memory(&rig, QT_REQ_SEND, fds[0], "abc", 3);
    rig_submit(&rig, req);
    rig_ends(&rig, req, -EPIPE); /* and no SIGPIPE */
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

static void close_ends_what_waits(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    rig_open(&rig, 4);
    rig_pair(fds);
    qt_req *waits = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    rig_tick(&rig, 0, 10);
    qt_req *req = rig_req(&rig, QT_REQ_CLOSE, fds[0]);
    rig_submit(&rig, req);
    rig_ends(&rig, waits, -ECANCELED);
    rig_ends(&rig, req, 0);
    assert_int_equal(fcntl(fds[0], F_GETFD), -1);
    req = rig_req(&rig, QT_REQ_CLOSE, fds[0]);
    rig_submit(&rig, req);
    rig_ends(&rig, req, -EBADF);
    close(fds[1]);
    rig_close(&rig);
}

static void discard(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    char sink[8];
    rig_open(&rig, 0);
    rig_pair(fds);
    rig_write(fds[1], "0123456789", 10);
    shutdown(fds[1], SHUT_WR);
    for (int32_t want = 8; want >= 0; want = want == 8 ? 2 : want == 2 ? 0 : -1) {
        qt_req *req = rig_memory(&rig, QT_REQ_DISCARD, fds[0], sink, sizeof sink);
        rig_submit(&rig, req);
        rig_ends(&rig, req, want);
    }
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

/* On a duplicate, as core does: when that is closed, its file stays open elsewhere, and must not be heard of again. */
static void poll_for(struct rig *rig, int fd, uint32_t mask, int32_t res) {
    int copy = dup(fd);
    qt_req *req = rig_req(rig, QT_REQ_POLL, copy);
    req->op_flags = mask;
    rig_submit(rig, req);
    rig_ends(rig, req, res);
    close(copy);
    rig_sleeps_at_once(rig);
}

static void poll_once(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    rig_open(&rig, 0);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    poll_for(&rig, fds[1], POLLOUT, POLLOUT);
    qt_req *req = rig_req(&rig, QT_REQ_POLL, fds[0]);
    req->op_flags = POLLIN;
    rig_submit(&rig, req);
    rig_sleeps(&rig);
    assert_int_equal(write(fds[1], "x", 1), 1);
    rig_ends(&rig, req, POLLIN);
    poll_for(&rig, fds[0], POLLIN, POLLIN);
    req = rig_req(&rig, QT_REQ_POLL, fds[0]);
    req->op_flags = POLLPRI; /* will not come, so only the hang-up ends it */
    rig_submit(&rig, req);
    rig_sleeps(&rig);
    close(fds[1]);
    rig_ends(&rig, req, POLLHUP);
    close(fds[0]);
    FILE *file = tmpfile();
    poll_for(&rig, fileno(file), POLLIN | POLLOUT, POLLIN | POLLOUT);
    poll_for(&rig, fileno(file), POLLIN, POLLIN);
    poll_for(&rig, fileno(file), POLLPRI, -EINVAL);
    fclose(file);
    rig_close(&rig);
}

static void files(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, 0);
    qt_req *req = rig_memory(&rig, QT_REQ_OPENAT, AT_FDCWD, "/", 0);
    req->op_flags = O_RDONLY | O_CLOEXEC | O_DIRECTORY;
    rig_submit(&rig, req);
    rig_tick(&rig, 0, 10);
    assert_int_equal(req->state, QT_REQ_IN_POOL);
    assert_int_equal(rig.count, 0);
    rig_run_jobs(&rig);
    struct told told = rig_next(&rig, req);
    assert_true(told.res >= 0);
    close(told.res);
    rig_submit(&rig, req);
    rig_tick(&rig, 0, 10);
    rig_cancel(&rig, req); /* has not begun */
    rig_ends(&rig, req, -ECANCELED);
    req = rig_req(&rig, QT_REQ_FSYNC, -1);
    rig_submit(&rig, req);
    rig_tick(&rig, 0, 10);
    qt_req *job = rig.jobs[--rig.job_count]; /* has begun */
    rig.job_cancels = 0;
    rig_cancel(&rig, req);
    rig_cancel(&rig, req);
    assert_int_equal(rig.job_cancels, 1);
    rig.jobs[rig.job_count++] = job;
    rig_run_jobs(&rig);
    rig_ends(&rig, req, -EBADF); /* its own result */
    rig.refuse_jobs = -EAGAIN;
    req = rig_req(&rig, QT_REQ_FSYNC, 0);
    rig_submit(&rig, req);
    rig_ends(&rig, req, -EAGAIN);
    rig_close(&rig);
}

static void bad_descriptors(void **state) {
    (void)state;
    static const uint8_t codes[] = {QT_REQ_ACCEPT,   QT_REQ_CONNECT, QT_REQ_RECV,
                                    QT_REQ_DISCARD,  QT_REQ_SEND,    QT_REQ_SENDMSG,
                                    QT_REQ_SHUTDOWN, QT_REQ_CLOSE,   QT_REQ_POLL};
    struct rig rig;
    struct msghdr message = {0};
    rig_open(&rig, 1);
    int fd = tcp_socket();
    close(fd);
    for (size_t i = 0; i < 2 * sizeof codes; i++) {
        qt_req *req = rig_memory(&rig, codes[i / 2], i % 2 ? fd : -1, &message, sizeof message);
        rig_submit(&rig, req);
        rig_ends(&rig, req, -EBADF);
    }
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nop),
        cmocka_unit_test(recv_once),
        cmocka_unit_test(recv_many_then_eof),
        cmocka_unit_test(recv_cap),
        cmocka_unit_test(recv_reset),
        cmocka_unit_test(accept_many),
        cmocka_unit_test(accept_one),
        cmocka_unit_test(accept_on_what_does_not_listen),
        cmocka_unit_test(connect_tcp),
        cmocka_unit_test(connect_unix_waits_for_room),
        cmocka_unit_test(send_and_shutdown),
        cmocka_unit_test(close_ends_what_waits),
        cmocka_unit_test(discard),
        cmocka_unit_test(poll_once),
        cmocka_unit_test(files),
        cmocka_unit_test(bad_descriptors),
    };
    return cmocka_run_group_tests_name("epoll driver: requests", tests, NULL, NULL);
}
