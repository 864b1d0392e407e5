/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The epoll driver where descriptors change behind its back: foreign closes, reused numbers, forks; and on old kernels. */
#include "epoll_rig.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void child_ends_well(pid_t child) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* The number of a watched descriptor, closed behind the driver's back, for a new socket. */
static int reuse(int fd, int peer) {
    int fds[2];
    close(fd);
    close(peer);
    rig_pair(fds);
    if (fds[0] == fd)
        return fds[1];
    assert_int_equal(dup2(fds[0], fd), fd);
    close(fds[0]);
    return fds[1];
}

static void receive_on_a_reused_number(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    rig_open(&rig, 4);
    rig_pair(fds);
    qt_req *req = rig_recv(&rig, fds[0], 0);
    rig_write(fds[1], "x", 1);
    assert_int_equal(rig_next(&rig, req).res, 1);
    for (int i = 0; i < 3; i++) {
        fds[1] = reuse(fds[0], fds[1]);
        rig_submit(&rig, req);
        rig_tick(&rig, 0, 10);
        rig_write(fds[1], "new", 3);
        assert_int_equal(rig_next(&rig, req).res, 3);
    }
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

static void block_sends(struct rig *rig, int fd, qt_req **blocked) {
    static char block[1 << 20];
    for (;;) {
        qt_req *req = rig_memory(rig, QT_REQ_SEND, fd, block, sizeof block);
        rig_submit(rig, req);
        rig_tick(rig, 0, 10);
        *blocked = req;
        if (rig->count == rig->read)
            return;
        rig->read = rig->count;
        qt_req_free(&rig->requests, req);
    }
}

static void send_on_a_reused_number(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    qt_req *blocked;
    static char block[1 << 20];
    rig_open(&rig, 4);
    rig_pair(fds);
    qt_req *req = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    rig_tick(&rig, 0, 10);
    rig_cancel(&rig, req);
    rig_ends(&rig, req, -ECANCELED);
    fds[1] = reuse(fds[0], fds[1]);
    block_sends(&rig, fds[0], &blocked);
    assert_true(recv(fds[1], block, sizeof block, 0) > 0);
    assert_true(rig_next(&rig, blocked).res > 0);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

/* A record that is older than the file, where the kernel knows the file already. */
static void watched_behind_the_record(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    rig_open(&rig, 4);
    rig_pair(fds);
    qt_req *req = rig_req(&rig, QT_REQ_POLL, fds[0]);
    req->op_flags = EPOLLIN;
    rig_submit(&rig, req);
    rig_tick(&rig, 0, 10);
    qt_req *second = rig_req(&rig, QT_REQ_POLL, fds[0]); /* as a new file with that number would begin */
    second->op_flags = EPOLLIN;
    rig_submit(&rig, second);
    rig_ends(&rig, req, -EBADF);
    rig_write(fds[1], "x", 1);
    rig_ends(&rig, second, EPOLLIN);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

/* accept gives the number of a descriptor that somebody closed while a receive waited for it. */
static void accept_gives_a_lost_number(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    rig_open(&rig, 4);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
    rig_pair(fds);
    qt_req *lost = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    qt_req *req = rig_req(&rig, QT_REQ_ACCEPT, listener);
    rig_submit(&rig, req);
    rig_tick(&rig, 0, 10);
    close(fds[0]);
    int lowest = dup(listener);
    close(lowest);
    assert_int_equal(lowest, fds[0]);
    assert_int_equal(connect(client, (struct sockaddr *)&addr, sizeof addr), 0);
    struct told told = rig_next(&rig, req);
    assert_int_equal(told.res, fds[0]);
    rig_ends(&rig, lost, -EBADF);
    qt_req *fresh = rig_recv(&rig, told.res, QT_REQ_MULTISHOT);
    rig_write(client, "hello", 5);
    assert_int_equal(rig_next(&rig, fresh).res, 5);
    for (int *fd = (int[]){fds[0], fds[1], listener, client, -1}; *fd >= 0; fd++)
        close(*fd);
    rig_close(&rig);
}

/* Known to be readable, then closed: the next file of that number is not what was readable. */
static void readable_before_it_was_closed(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    rig_open(&rig, 4);
    rig_pair(fds);
    qt_req *lost = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    rig_write(fds[1], "x", 1);
    rig_tick(&rig, 0, 0);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[0], fds[0]), fds[0]);
    close(ends[0]);
    qt_req *req = rig_req(&rig, QT_REQ_POLL, fds[0]);
    req->op_flags = EPOLLIN;
    rig_submit(&rig, req);
    rig_ends(&rig, lost, -EBADF);
    rig_sleeps(&rig);
    assert_int_equal(write(ends[1], "x", 1), 1);
    rig_ends(&rig, req, EPOLLIN);
    close(ends[1]);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

/* A child holds a copy of a closed connection: its file lives on, but the driver hears of it no more. */
static void closed_here_open_in_a_child(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    int hold[2];
    char byte;
    rig_open(&rig, 4);
    rig_pair(fds);
    assert_int_equal(pipe(hold), 0);
    qt_req *waits = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    rig_tick(&rig, 0, 10);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(hold[1]);
        _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1); /* until the parent lets go */
    }
    close(hold[0]);
    qt_req *req = rig_req(&rig, QT_REQ_CLOSE, fds[0]);
    rig_submit(&rig, req);
    rig_ends(&rig, waits, -ECANCELED);
    rig_ends(&rig, req, 0);
    rig_write(fds[1], "x", 1);
    rig_sleeps(&rig);
    close(hold[1]);
    child_ends_well(child);
    close(fds[1]);
    rig_close(&rig);
}

/* The set is shared with the child: its destroy takes nothing out of it. */
static void destroy_in_a_child(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    rig_open(&rig, 4);
    rig_pair(fds);
    assert_true(rig.d->ops->host_fd(rig.d) >= 0);
    qt_req *req = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    rig_tick(&rig, 0, 10);
    int fd = rig.d->ops->host_fd(rig.d);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        rig.d->ops->destroy(rig.d, true);
        qt_req_table_destroy(&rig.requests);
        _exit(fcntl(fd, F_GETFD) == -1 && fcntl(fds[0], F_GETFD) != -1 ? 0 : 1);
    }
    child_ends_well(child);
    rig_write(fds[1], "x", 1);
    assert_int_equal(rig_next(&rig, req).res, 1);
    rig.d->ops->wake(rig.d);
    rig_tick(&rig, -1, 10);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

static void destroy_with_all_in_flight(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    qt_req *blocked;
    rig_open(&rig, 4);
    rig_pair(fds);
    rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    block_sends(&rig, fds[0], &blocked);
    rig_submit(&rig, rig_req(&rig, QT_REQ_NOP, -1));
    int performed = dup(fds[1]);
    int queued = dup(fds[1]);
    rig_submit(&rig, rig_req(&rig, QT_REQ_CLOSE, performed));
    rig_tick(&rig, 0, 0);
    assert_int_equal(dup2(fds[1], performed), performed); /* the number is somebody else's now */
    rig_submit(&rig, rig_req(&rig, QT_REQ_CLOSE, queued));
    unsigned told = rig.count;
    qt_req_table requests = rig.requests;
    rig.d->ops->destroy(rig.d, false);
    assert_int_equal(rig.count, told); /* given up, not told */
    assert_int_equal(fcntl(queued, F_GETFD), -1);
    assert_true(fcntl(performed, F_GETFD) >= 0); /* each is closed once */
    close(performed);
    qt_req_table_destroy(&requests);
    free(rig.memory);
    free(rig.told);
    close(fds[0]);
    close(fds[1]);
}

static int refuse_call(uint32_t number) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Without epoll_pwait2 waits are rounded up to milliseconds, never down: no early return, no spinning. */
static int old_kernel(void) {
    struct rig rig;
    int fds[2];
    if (refuse_call(SYS_epoll_pwait2) != 0)
        return 2;
    rig_open(&rig, 1);
    for (int64_t time = 100000; time <= 3100000; time += 1000000) {
        int64_t from = qt_now_ns();
        rig_tick(&rig, time, 10);
        if (qt_now_ns() - from < time)
            return 3;
    }
    rig_pair(fds);
    qt_req *req = rig_recv(&rig, fds[0], 0);
    rig_write(fds[1], "x", 1);
    rig_tick(&rig, -1, 10);
    bool well = rig.count == 1 && rig.told[0].req == req && rig.told[0].res == 1;
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
    return well ? 0 : 4;
}

static void kernel_without_pwait2(void **state) {
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(old_kernel());
    child_ends_well(child);
}

static void waits_are_not_cut(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, 0);
    for (int i = 0; i < 50; i++) {
        int64_t from = qt_now_ns();
        rig_tick(&rig, 200000, 10);
        assert_true(qt_now_ns() - from >= 200000);
    }
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(receive_on_a_reused_number),
        cmocka_unit_test(send_on_a_reused_number),
        cmocka_unit_test(watched_behind_the_record),
        cmocka_unit_test(accept_gives_a_lost_number),
        cmocka_unit_test(readable_before_it_was_closed),
        cmocka_unit_test(closed_here_open_in_a_child),
        cmocka_unit_test(destroy_in_a_child),
        cmocka_unit_test(destroy_with_all_in_flight),
        cmocka_unit_test(kernel_without_pwait2),
        cmocka_unit_test(waits_are_not_cut),
    };
    return cmocka_run_group_tests_name("epoll driver: lives of descriptors", tests, NULL, NULL);
}
