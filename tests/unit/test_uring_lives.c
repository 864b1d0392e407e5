/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The io_uring driver's making and end: sizes under a memory limit, descriptors that run out, forks, requests in flight. */
#include "uring_rig.h"

#include "driver/uring.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static const struct ring_size whole = {256, 4096};

#define NOT_CHARGED 77 /* this kernel gives rings memory without counting it as locked (before 6.14) */

/* Runs `body` in a child, which tells by its exit status; 0 is well. */
static void in_child(int (*body)(uint32_t rung), void **state) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(body((uint32_t)(uintptr_t)*state));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NOT_CHARGED) {
        print_message("skipped: this kernel does not charge rings to RLIMIT_MEMLOCK\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int drop_ipc_lock(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) != 0)
        return -1;
    data[0].effective &= ~(1u << CAP_IPC_LOCK);
    data[0].permitted &= ~(1u << CAP_IPC_LOCK);
    return (int)syscall(SYS_capset, &header, data);
}

static int limit_memory(rlim_t bytes) {
    struct rlimit limit = {0, bytes};
    struct io_uring ring;
    if (drop_ipc_lock() != 0 || setrlimit(RLIMIT_MEMLOCK, &limit) != 0)
        return 1;
    if (qt_ring_open(&ring, QT_RING_PLAIN, 8, 16) == 0)
        return NOT_CHARGED;
    limit.rlim_cur = bytes;
    return setrlimit(RLIMIT_MEMLOCK, &limit) != 0;
}

/* A no-op through and back. */
static bool works(struct rig *rig) {
    qt_req *req = qt_req_alloc(&rig->requests);
    req->done = rig_done;
    req->owner = rig;
    req->fd = -1;
    if (rig->d->ops->enable(rig->d) != 0)
        return false;
    rig->d->ops->submit(rig->d, req);
    rig->d->ops->enter(rig->d, RIG_PATIENCE_NS);
    return rig->d->ops->harvest(rig->d, 1) == 1 && rig->told[0].res == 0;
}

static int smaller_rings(uint32_t rung) {
    struct rig rig;
    int error = limit_memory(64 << 10);
    if (error != 0)
        return error;
    if (ring_create(&rig, rung, whole) != 0)
        return 2;
    if (rig.d->ring_entries < 16 || rig.d->ring_entries >= 256 || rig.d->cq_entries < 32 ||
        rig.d->cq_entries >= 4096)
        return 3;
    bool well = works(&rig);
    rig_close(&rig);
    return well ? 0 : 4;
}

static int no_memory(uint32_t rung) {
    struct rig rig;
    int64_t from = qt_now_ns();
    int error = limit_memory(0);
    if (error != 0)
        return error;
    if (ring_create(&rig, rung, whole) != -ENOMEM)
        return 2;
    return qt_now_ns() - from < 500000000 ? 0 : 3; /* waiting would not help: it does not wait */
}

static int no_descriptors(uint32_t rung) {
    struct rig rig;
    int next = dup(0);
    struct rlimit limit = {(rlim_t)next + 1, (rlim_t)next + 1};
    if (next < 0 || setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 1;
    if (ring_create(&rig, rung, whole) != -EMFILE) /* not even one */
        return 2;
    close(next);
    return ring_create(&rig, rung, whole) == -EMFILE ? 0 : 3; /* one, but not two */
}

static void little_memory(void **state) {
    in_child(smaller_rings, state);
}

static void memory_for_none(void **state) {
    in_child(no_memory, state);
}

static void descriptors_run_out(void **state) {
    in_child(no_descriptors, state);
}

static void sizes(void **state) {
    static const struct ring_size asked[] = {{1, 2}, {16, 32}, {100, 300}, {256, 4096}};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        struct rig rig;
        assert_int_equal(ring_create(&rig, (uint32_t)(uintptr_t)*state, asked[i]), 0);
        assert_true(rig.d->ring_entries >= asked[i].entries && rig.d->cq_entries >= asked[i].cq_entries);
        assert_true(works(&rig));
        rig_close(&rig);
    }
}

static bool is_mapped(const void *memory) {
    unsigned char there;
    return mincore((void *)(uintptr_t)memory, 1, &there) == 0;
}

/* The child has no ring to disturb: it closes its descriptors, and the parent goes on. */
static void forked(void **state) {
    struct rig rig;
    int fds[2];
    int status;
    ring_open(&rig, state, 4);
    rig_pair(fds);
    rig.d->ops->host_fd(rig.d);
    qt_req *req = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    rig_tick(&rig, 0, 1);
    qt_uring *u = (qt_uring *)rig.d;
    pid_t child = fork();
    if (child == 0) {
        bool mapped = is_mapped(u->ring.sq.ring_ptr) || is_mapped(u->ring.sq.sqes) || is_mapped(u->buffers);
        int ring = u->ring.ring_fd;
        int host = u->host_fd;
        rig.d->ops->destroy(rig.d, true);
        _exit(mapped ? 1 : fcntl(ring, F_GETFD) != -1 ? 2 : fcntl(host, F_GETFD) != -1 ? 3 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(is_mapped(u->ring.sq.sqes));
    rig_write(fds[1], "still", 5);
    struct told told = rig_next(&rig, req);
    assert_int_equal(told.res, 5);
    assert_true(told.flags & QT_CQ_MORE);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

static unsigned open_descriptors(void) {
    unsigned count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) != -1;
    return count;
}

/* With all kinds in flight: no completion is told, no descriptor stays, and nobody writes into the memory afterwards. */
static void destroyed_in_flight(void **state) {
    struct rig rig;
    int fds[2];
    int pipe_fds[2];
    char *memory = calloc(1, 64);
    unsigned before = open_descriptors();
    ring_open(&rig, state, 8);
    rig_pair(fds);
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    rig.d->ops->host_fd(rig.d);
    rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    rig_submit(&rig, rig_memory(&rig, QT_REQ_READ, pipe_fds[0], memory, 64));
    qt_req *poll = rig_req(&rig, QT_REQ_POLL, fds[1]);
    poll->op_flags = POLLIN;
    rig_submit(&rig, poll);
    rig_tick(&rig, 0, 10);
    rig.d->ops->host_begin(rig.d);
    rig.d->ops->host_end(rig.d, false, qt_now_ns() + RIG_PATIENCE_NS);
    /* One whose new descriptor is never told, and one that is not even entered. */
    rig_submit(&rig, rig_memory(&rig, QT_REQ_OPENAT, AT_FDCWD, "/dev/null", 0));
    rig.d->ops->enter(rig.d, 0);
    rig_submit(&rig, rig_req(&rig, QT_REQ_CLOSE, dup(fds[0])));
    int64_t from = qt_now_ns();
    rig.d->ops->destroy(rig.d, false);
    assert_true(qt_now_ns() - from < 900000000); /* it was confirmed, not given up */
    assert_int_equal(rig.count, 0);
    assert_int_equal(write(pipe_fds[1], "late", 4), 4);
    rig_write(fds[1], "late", 4);
    assert_int_equal(memory[0], 0);
    for (size_t i = 0; i < (size_t)RIG_BUFFERS * RIG_BUFFER_SIZE; i++)
        assert_int_equal(rig.memory[i], 0);
    for (int i = 0; i < 2; i++) {
        close(fds[i]);
        close(pipe_fds[i]);
    }
    assert_int_equal(open_descriptors(), before);
    qt_req_table_destroy(&rig.requests);
    free(rig.memory);
    free(rig.told);
    free(memory);
}

struct owner {
    struct rig rig;
    int fds[2];
};

static void *own_for_a_while(void *argument) {
    struct owner *owner = argument;
    assert_int_equal(owner->rig.d->ops->enable(owner->rig.d), 0);
    rig_recv(&owner->rig, owner->fds[0], QT_REQ_MULTISHOT);
    rig_tick(&owner->rig, 0, 1);
    return NULL;
}

/* By another thread, when the one that ran it has ended with a receive in flight. */
static void destroyed_by_another(void **state) {
    struct owner owner;
    pthread_t thread;
    assert_int_equal(ring_create(&owner.rig, (uint32_t)(uintptr_t)*state, whole), 0);
    owner.rig.d->ops->buffer_add(owner.rig.d, 0);
    rig_pair(owner.fds);
    assert_int_equal(pthread_create(&thread, NULL, own_for_a_while, &owner), 0);
    pthread_join(thread, NULL);
    owner.rig.d->ops->destroy(owner.rig.d, false);
    rig_write(owner.fds[1], "late", 4);
    assert_int_equal(owner.rig.memory[0], 0);
    qt_req_table_destroy(&owner.rig.requests);
    free(owner.rig.memory);
    free(owner.rig.told);
    close(owner.fds[0]);
    close(owner.fds[1]);
}

static void note_leak(void *ctx) {
    *(bool *)ctx = true;
}

struct stubborn {
    struct owner owner;
    atomic_int step;
};

static void *own_until_told(void *argument) {
    struct stubborn *s = argument;
    own_for_a_while(&s->owner);
    atomic_store(&s->step, 1);
    while (atomic_load(&s->step) == 1)
        sched_yield();
    return NULL;
}

/* A live thread's single-issuer ring takes no cancel from another: nothing is confirmed, so it is told and leaked. */
static void unconfirmed_is_leaked(void **state) {
    static struct stubborn s;
    bool leaked = false;
    pthread_t thread;
    uint32_t rung = (uint32_t)(uintptr_t)*state;
    memset(&s, 0, sizeof s);
    assert_int_equal(ring_create(&s.owner.rig, rung, whole), 0);
    rig_pair(s.owner.fds);
    qt_uring *u = (qt_uring *)s.owner.rig.d;
    u->options.host.ctx = &leaked;
    u->options.host.leaked = note_leak;
    assert_int_equal(pthread_create(&thread, NULL, own_until_told, &s), 0);
    while (atomic_load(&s.step) == 0)
        sched_yield();
    u->driver.ops->destroy(&u->driver, false);
    assert_int_equal(leaked, rung == QUOIT_DRIVER_URING_DEFER);
    atomic_store(&s.step, 2);
    pthread_join(thread, NULL);
    if (leaked) {
        /* What the driver kept on purpose, now that the owner is gone. */
        munmap(u->buffers, u->buffers_bytes);
        free(u);
    }
    qt_req_table_destroy(&s.owner.rig.requests);
    free(s.owner.rig.memory);
    free(s.owner.rig.told);
    close(s.owner.fds[0]);
    close(s.owner.fds[1]);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(little_memory),
        cmocka_unit_test(memory_for_none),
        cmocka_unit_test(descriptors_run_out),
        cmocka_unit_test(sizes),
        cmocka_unit_test(forked),
        cmocka_unit_test(destroyed_in_flight),
        cmocka_unit_test(destroyed_by_another),
        cmocka_unit_test(unconfirmed_is_leaked),
    };
    return ring_run("uring lives", tests, sizeof tests / sizeof tests[0]);
}
