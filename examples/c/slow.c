/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A service whose answers take their time, and which ends without cutting one off: SIGTERM drains it. Whatever a client sends is a
 * request; it is answered with "done" after the delay, and the connection closed. SIGHUP replaces it by a new process, to which it
 * hands its listening socket: no connection is refused or reset.
 * Usage: slow HOST:PORT GRACE_MS DELAY_MS [--driver D] [--buffers N] [--events N]
 */
#include "service.h"

#include <errno.h>
#include <fcntl.h>

enum { TAG_BOUND = TAG_FIRST_FREE, TAG_DETACHED, TAG_HUP };

#define SLOTS 65536 /* a stream's number is the low 24 bits of its handle */

static struct {
    quoit_handle stream;
    int busy;
} open_streams[SLOTS];
static uint32_t delay_ms;
static uint64_t answered, cut;
static int in_time;
static int shared_fd = -1; /* the listening socket, for a successor */
static int is_successor;
static char **arguments;

static uint32_t slot_of(quoit_handle stream) {
    uint32_t slot = (uint32_t)(stream & 0xFFFFFF);
    if (slot >= SLOTS) {
        fprintf(stderr, "More than %d connections at a time.\n", SLOTS);
        exit(1);
    }
    return slot;
}

static void close_stream(service *s, quoit_handle stream) {
    open_streams[slot_of(stream)].stream = 0;
    ask(s, (quoit_op){.opcode = QUOIT_OP_CLOSE, .flags = QUOIT_OPF_QUIET, .target = stream});
}

static void on_data(service *s, const quoit_event *e) {
    uint32_t slot = slot_of(e->source);
    if (open_streams[slot].stream != e->source)
        return;
    if (e->len > 0 && !open_streams[slot].busy) {
        open_streams[slot].busy = 1;
        ask(s, (quoit_op){.opcode = QUOIT_OP_TIMER,
                          .offset = (int64_t)(delay_ms / 2 + slot * 7 % (delay_ms / 2 + 1)) * 1000000,
                          .user_data = e->source});
    }
    if (!(e->flags & QUOIT_EVF_MORE) && !open_streams[slot].busy)
        close_stream(s, e->source);
}

/* The timer's user_data is the stream that waits for its answer. */
static void answer(service *s, const quoit_event *e) {
    quoit_handle stream = e->user_data;
    if (e->result < 0 || open_streams[slot_of(stream)].stream != stream)
        return;
    answered++;
    ask(s, (quoit_op){.opcode = QUOIT_OP_SEND,
                      .flags = QUOIT_OPF_QUIET,
                      .target = stream,
                      .addr = (uintptr_t) "done",
                      .len = 4});
    close_stream(s, stream);
}

/* Whoever is connected has a request on its way: all of them have the grace. */
static void on_drain(const quoit_event *e) {
    if (!(e->flags & QUOIT_EVF_MORE)) {
        cut = e->value;
        in_time = e->result == 0;
        return;
    }
    printf("draining %" PRIu64 " connections\n", e->value);
    fflush(stdout);
    close(shared_fd); /* else the socket would still take connections, and nobody serve them */
    shared_fd = -1;
}

/* The descriptors of a successor begin at 3, as service managers pass them: sd_listen_fds(3). */
static void become_successor(void) {
    char pid[32];
    if (shared_fd == 3)
        fcntl(3, F_SETFD, 0);
    else
        dup2(shared_fd, 3);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_PID", pid, 1);
    setenv("SLOW_SUCCEEDS", "1", 1);
    execv("/proc/self/exe", arguments);
    _exit(127);
}

static void replace(service *s) {
    char drop[128];
    if (read(s->signals, drop, sizeof drop) < 0 || fork() != 0)
        return; /* the successor ends us with SIGTERM when it listens */
    become_successor();
}

/* Out of quoit's hands and back into them, so that a duplicate is there to be handed on. */
static void share(service *s, int fd) {
    shared_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (shared_fd < 0)
        die("fcntl", -errno);
    ask(s,
        (quoit_op){
            .opcode = QUOIT_OP_ADOPT, .offset = fd, .arg = QUOIT_HANDLE_LISTENER, .user_data = TAG_LISTEN});
}

static void on_listener(service *s, const quoit_event *e) {
    if (e->result < 0)
        die("listen", e->result);
    if (e->user_data == TAG_BOUND)
        ask(s, (quoit_op){.opcode = QUOIT_OP_DETACH, .target = e->value, .user_data = TAG_DETACHED});
    else
        share(s, (int)e->value);
}

static void on_other(service *s, const quoit_event *e) {
    if (e->user_data == TAG_BOUND || e->user_data == TAG_DETACHED)
        on_listener(s, e);
    else if (e->user_data == TAG_HUP)
        replace(s);
    else if (common_event(s, e) && e->user_data == TAG_LISTEN && is_successor)
        kill(getppid(), SIGTERM);
}

static void open_listener(service *s) {
    int32_t first;
    quoit_status count = quoit_inherited_fds(&first, NULL, 0);
    if (count < 0)
        die("quoit_inherited_fds", count);
    is_successor = count > 0 && getenv("SLOW_SUCCEEDS") != NULL;
    if (count > 0)
        share(s, first);
    else
        ask(s, (quoit_op){.opcode = QUOIT_OP_LISTEN,
                          .addr = (uintptr_t)&s->addr,
                          .len = sizeof s->addr,
                          .user_data = TAG_BOUND});
}

static void watch_hup(service *s) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    ask(s, (quoit_op){.opcode = QUOIT_OP_POLL,
                      .flags = QUOIT_OPF_MULTI,
                      .offset = s->signals,
                      .arg = QUOIT_POLL_IN,
                      .user_data = TAG_HUP});
}

static quoit_status on_batch(void *ctx, quoit_worker *worker, quoit_batch *batch) {
    service *s = ctx;
    (void)worker;
    batch->nops = 0;
    for (uint32_t i = 0; i < batch->nevents; i++) {
        const quoit_event *e = &events_of(batch)[i];
        if (e->kind == QUOIT_KIND_DRAIN)
            on_drain(e);
        else if (e->kind == QUOIT_OP_RECV)
            on_data(s, e);
        else if (e->kind == QUOIT_OP_TIMER)
            answer(s, e);
        else if (e->kind == QUOIT_OP_ACCEPT && e->value != 0) {
            open_streams[slot_of(e->value)].stream = e->value;
            open_streams[slot_of(e->value)].busy = 0;
        } else
            on_other(s, e);
    }
    return 0;
}

int main(int argc, char **argv) {
    service s = {0};
    if (argc < 4) {
        fprintf(
            stderr,
            "Usage: %s HOST:PORT GRACE_MS DELAY_MS [--driver D] [--buffers N] [--events N]\n"
            "Answers each request after the delay; on SIGTERM it finishes what it has within the grace, on\n"
            "SIGHUP a new process takes its place.\n",
            argv[0]);
        return 2;
    }
    uint64_t grace_ns = (uint64_t)number_of("GRACE_MS", argv[2]) * 1000000;
    delay_ms = number_of("DELAY_MS", argv[3]);
    service_create(&s, argc, argv, 4);
    quoit_status status = quoit_drain_on_signals(s.runtime, QUOIT_SIGNAL_TERM | QUOIT_SIGNAL_INT, grace_ns);
    if (status < 0)
        die("quoit_drain_on_signals", status);
    arguments = argv;
    printf("pid %d\n", (int)getpid());
    watch_hup(&s);
    open_listener(&s);
    status = quoit_run(s.worker, on_batch, &s);
    printf("{\"answered\":%" PRIu64 ",\"cut\":%" PRIu64 ",\"in_time\":%s}\n", answered, cut,
           in_time ? "true" : "false");
    quoit_worker_destroy(s.worker);
    quoit_runtime_destroy(s.runtime);
    close(s.signals);
    return status < 0 ? 1 : 0;
}
