/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The table of requests, and file requests by plain system calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "driver/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define MANY (5 * QT_REQ_CHUNK)

static void addresses_stay(void **state) {
    (void)state;
    qt_req_table table = {0};
    static qt_req *reqs[MANY];
    for (uint32_t i = 0; i < MANY; i++) {
        reqs[i] = qt_req_alloc(&table);
        assert_non_null(reqs[i]);
        reqs[i]->offset = i;
        assert_ptr_equal(qt_req_find(&table, reqs[i]->slot, reqs[i]->generation), reqs[i]);
    }
    assert_int_equal(table.live, MANY);
    assert_int_equal(table.chunk_count, MANY / QT_REQ_CHUNK);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(reqs[i]->offset, i);
        assert_ptr_equal(qt_req_find(&table, reqs[i]->slot, reqs[i]->generation), reqs[i]);
        qt_req_free(&table, reqs[i]);
    }
    assert_int_equal(table.live, 0);
    for (uint32_t i = 0; i < MANY; i++)
        assert_non_null(qt_req_alloc(&table));
    assert_int_equal(table.chunk_count, MANY / QT_REQ_CHUNK); /* freed ones are used again */
    qt_req_table_destroy(&table);
    assert_null(table.chunks);
}

static void stale_ones_are_not_found(void **state) {
    (void)state;
    qt_req_table table = {0};
    qt_req *req = qt_req_alloc(&table);
    uint32_t slot = req->slot;
    uint32_t generation = req->generation;
    assert_null(qt_req_find(&table, slot, generation + 1));
    assert_null(qt_req_find(&table, slot, generation - 1));
    assert_null(qt_req_find(&table, QT_REQ_CHUNK, generation));
    assert_null(qt_req_find(&table, UINT32_MAX, generation));
    req->code = QT_REQ_RECV;
    req->fd = 7;
    req->addr = 1;
    qt_req_free(&table, req);
    assert_null(qt_req_find(&table, slot, generation));
    qt_req *again = qt_req_alloc(&table);
    while (again->slot != slot)
        again = qt_req_alloc(&table);
    assert_ptr_equal(again, req);
    assert_int_not_equal(again->generation, generation);
    qt_req blank = {.slot = again->slot, .generation = again->generation};
    assert_memory_equal(again, &blank, sizeof blank);
    assert_null(qt_req_find(&table, slot, generation));
    qt_req_table_destroy(&table);
}

static int32_t execute(uint8_t code, int fd, const void *memory, uint32_t len, int64_t offset,
                       uint32_t flags) {
    qt_req req = {.code = code, .fd = fd, .addr = (uint64_t)(uintptr_t)memory};
    req.len = len;
    req.offset = offset;
    req.op_flags = flags;
    return qt_req_execute(&req);
}

static void files(void **state) {
    (void)state;
    char directory[] = "quoit-request-XXXXXX";
    char text[16] = {0};
    struct stat st;
    char one[] = "cde", two[] = "fg";
    struct iovec parts[2] = {{one, 3}, {two, 2}};
    assert_non_null(mkdtemp(directory));
    int at = execute(QT_REQ_OPENAT, AT_FDCWD, directory, 0, 0, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(at >= 0);
    int fd = execute(QT_REQ_OPENAT, at, "file", 0640, 0, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 0137, 0);
    assert_int_equal(execute(QT_REQ_OPENAT, at, "file", 0640, 0, O_RDWR | O_CREAT | O_EXCL), -EEXIST);
    assert_int_equal(execute(QT_REQ_OPENAT, at, "none", 0, 0, O_RDONLY), -ENOENT);
    assert_int_equal(execute(QT_REQ_WRITE, fd, "abx", 3, 0, 0), 3);
    assert_int_equal(execute(QT_REQ_WRITEV, fd, parts, 2, 2, 0), 5);
    assert_int_equal(execute(QT_REQ_WRITE, fd, "AB", 2, -1, 0), 2); /* the file's own position: its begin */
    assert_int_equal(execute(QT_REQ_READ, fd, text, 5, 2, 0), 5);
    assert_memory_equal(text, "cdefg", 5);
    assert_int_equal(execute(QT_REQ_READ, fd, text, 15, -1, 0), 5); /* on from where the write ended */
    assert_int_equal(execute(QT_REQ_READ, fd, text, 15, -1, 0), 0);
    assert_int_equal(execute(QT_REQ_READ, fd, text, 15, 0, 0), 7);
    assert_memory_equal(text, "ABcdefg", 7);
    assert_int_equal(execute(QT_REQ_WRITE, fd, "h", 1, -1, RWF_APPEND), 1);
    assert_int_equal(execute(QT_REQ_READ, fd, text, 15, 7, 0), 1);
    assert_int_equal(execute(QT_REQ_WRITE, fd, "i", 1, 8, RWF_DSYNC), 1);
    assert_int_equal(execute(QT_REQ_WRITE, fd, "i", 1, 8, 1u << 30), -EOPNOTSUPP);
    assert_int_equal(execute(QT_REQ_FSYNC, fd, NULL, 0, 0, 0), 0);
    assert_int_equal(execute(QT_REQ_FSYNC, fd, NULL, 0, 0, 1), 0);
    close(fd);
    assert_int_equal(execute(QT_REQ_READ, fd, text, 1, 0, 0), -EBADF);
    assert_int_equal(execute(QT_REQ_WRITE, fd, text, 1, 0, 0), -EBADF);
    assert_int_equal(execute(QT_REQ_FSYNC, fd, NULL, 0, 0, 0), -EBADF);
    assert_int_equal(execute(QT_REQ_RECV, at, text, 1, 0, 0), -EINVAL); /* not a file request */
    assert_int_equal(unlinkat(at, "file", 0), 0);
    close(at);
    assert_int_equal(rmdir(directory), 0);
}

static unsigned signals;

/* The thread sanitizer interrupts the call at once, but puts the handler off: there it cannot be waited for. */
#ifdef __SANITIZE_THREAD__
#define HANDLED(sent) ((void)(sent), true)
#else
#define HANDLED(sent) (__atomic_load_n(&signals, __ATOMIC_SEQ_CST) >= (sent))
#endif

static void count_signal(int number) {
    (void)number;
    __atomic_fetch_add(&signals, 1, __ATOMIC_SEQ_CST);
}

struct blocked_read {
    int fd;
    int32_t result;
    char byte;
};

static void *read_byte(void *argument) {
    struct blocked_read *r = argument;
    r->result = execute(QT_REQ_READ, r->fd, &r->byte, 1, -1, 0);
    return NULL;
}

static void interrupted_calls_go_on(void **state) {
    (void)state;
    int fds[2];
    pthread_t thread;
    struct sigaction action = {.sa_handler = count_signal};
    struct sigaction before;
    assert_int_equal(pipe(fds), 0);
    sigaction(SIGUSR1, &action, &before);
    struct blocked_read reader = {.fd = fds[0]};
    assert_int_equal(pthread_create(&thread, NULL, read_byte, &reader), 0);
    for (unsigned sent = 1; sent <= 200; sent++) {
        assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
        while (!HANDLED(sent))
            sched_yield();
    }
    assert_int_equal(write(fds[1], "k", 1), 1);
    pthread_join(thread, NULL);
    assert_int_equal(reader.result, 1);
    assert_int_equal(reader.byte, 'k');
    sigaction(SIGUSR1, &before, NULL);
    close(fds[0]);
    close(fds[1]);
}

struct unwanted {
    qt_req req;
    char byte;
    int32_t result;
};

static void *read_unwanted(void *argument) {
    struct unwanted *u = argument;
    u->result = qt_req_execute(&u->req);
    return NULL;
}

/* A read that waits for a pipe ends when it is cancelled, and takes no byte that comes later. */
static void cancelled_read_of_a_pipe(void **state) {
    (void)state;
    int fds[2];
    pthread_t thread;
    char byte = 0;
    assert_int_equal(pipe(fds), 0);
    struct unwanted u = {.req = {.code = QT_REQ_READ, .fd = fds[0], .len = 1, .offset = -1}};
    u.req.addr = (uint64_t)(uintptr_t)&u.byte;
    assert_int_equal(pthread_create(&thread, NULL, read_unwanted, &u), 0);
    __atomic_store_n(&u.req.cancelled, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    assert_int_equal(u.result, -ECANCELED);
    assert_int_equal(write(fds[1], "k", 1), 1);
    assert_int_equal(read(fds[0], &byte, 1), 1);
    assert_int_equal(byte, 'k');
    close(fds[0]);
    close(fds[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_stay),
        cmocka_unit_test(stale_ones_are_not_found),
        cmocka_unit_test(files),
        cmocka_unit_test(interrupted_calls_go_on),
        cmocka_unit_test(cancelled_read_of_a_pipe),
    };
    return cmocka_run_group_tests_name("requests", tests, NULL, NULL);
}
