/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The churn test's server: echoes on every connection, and for each line on standard input prints what it has: descriptors, memory
 * and the library's own counters, one JSON object a line. Ends at the end of its input.
 */
#include <quoit/quoit.h>

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define OF_ACCEPT 1
#define OF_INPUT 2

static quoit_worker *worker;
static quoit_batch *batch;
static uint32_t nops;
static uint64_t closed, failed;
static bool ended;

static void die(const char *what, int64_t status) {
    fprintf(stderr, "churn server: %s: %s\n", what, quoit_status_name((quoit_status)status));
    exit(1);
}

static quoit_op *new_op(uint32_t opcode, quoit_handle target) {
    if (nops == batch->ops_max) {
        quoit_status taken = quoit_submit(worker, nops);
        if (taken < 0)
            die("submit", taken);
        nops = 0;
    }
    quoit_op *op = (quoit_op *)(uintptr_t)batch->ops + nops++;
    memset(op, 0, sizeof *op);
    op->opcode = opcode;
    op->target = target;
    return op;
}

static unsigned long long count_fds(void) {
    unsigned long long count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir != NULL)
        closedir(dir);
    return count;
}

static unsigned long long rss_bytes(void) {
    unsigned long long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL && fscanf(file, "%llu %llu", &size, &resident) != 2)
        resident = 0;
    if (file != NULL)
        fclose(file);
    return resident * (unsigned long long)sysconf(_SC_PAGESIZE);
}

static void report(void) {
    quoit_stats stats = {.struct_size = sizeof stats};
    quoit_status status = quoit_stats_read(batch->worker, &stats);
    if (status < 0)
        die("stats", status);
    printf(
        "{\"fds\":%llu,\"rss\":%llu,\"accepts\":%llu,\"closed\":%llu,\"failed\":%llu,\"objects\":%llu,"
        "\"ops\":%llu,"
        "\"buffers_total\":%llu,\"buffers_free\":%llu,\"buffers_kept\":%llu,\"owed\":%llu,\"leaked\":%llu}\n",
        count_fds(), rss_bytes(), (unsigned long long)stats.accepts, (unsigned long long)closed,
        (unsigned long long)failed, (unsigned long long)stats.objects_live,
        (unsigned long long)stats.ops_live, (unsigned long long)stats.buffers_total,
        (unsigned long long)stats.buffers_free, (unsigned long long)stats.buffers_kept,
        (unsigned long long)stats.send_bytes_queued, (unsigned long long)stats.leaked);
    fflush(stdout);
}

static void read_input(void) {
    char text[256];
    ssize_t got = read(STDIN_FILENO, text, sizeof text);
    if (got <= 0)
        ended = true;
    for (ssize_t i = 0; i < got; i++)
        if (text[i] == '\n')
            report();
}

static void take(const quoit_event *event) {
    quoit_op *op;
    switch (event->kind) {
    case QUOIT_OP_RECV:
        if (event->len != 0) {
            op = new_op(QUOIT_OP_SEND, event->source);
            op->flags = QUOIT_OPF_ARENA_RECV | QUOIT_OPF_QUIET;
            op->addr = event->offset;
            op->len = event->len;
            op->arg2 = event->buffer;
        }
        if (!(event->flags & QUOIT_EVF_MORE)) {
            failed += event->result < 0;
            new_op(QUOIT_OP_CLOSE, event->source)->flags = event->result < 0 ? QUOIT_OPF_ABORT : 0;
        }
        break;
    case QUOIT_OP_CLOSE:
        closed++;
        break;
    case QUOIT_OP_POLL:
        read_input();
        break;
    case QUOIT_OP_ACCEPT:
        if (!(event->flags & QUOIT_EVF_MORE))
            die("accept", event->result);
        break;
    default: /* a send that its peer did not wait for */
        break;
    }
}

static quoit_event first_event(void) {
    quoit_status n = 0;
    while (n == 0) {
        n = quoit_turn(worker, nops, -1);
        nops = 0;
    }
    if (n < 0)
        die("turn", n);
    return *(const quoit_event *)(uintptr_t)batch->events;
}

int main(void) {
    struct rlimit limit;
    quoit_runtime *runtime;
    quoit_addr addr;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    quoit_status status = quoit_runtime_create(NULL, &runtime);
    if (status >= 0)
        status = quoit_worker_create(runtime, NULL, &worker);
    if (status < 0)
        die("runtime", status);
    batch = quoit_worker_batch(worker);
    quoit_addr_parse("127.0.0.1:0", 11, &addr);
    quoit_op *op = new_op(QUOIT_OP_LISTEN, 0);
    op->addr = (uintptr_t)&addr;
    op->len = sizeof addr;
    op->arg = 4096;
    quoit_event listening = first_event();
    if (listening.result < 0)
        die("listen", listening.result);
    op = new_op(QUOIT_OP_ACCEPT, listening.value);
    op->flags = QUOIT_OPF_MULTI | QUOIT_OPF_AUTO_RECV;
    op->user_data = OF_ACCEPT;
    op = new_op(QUOIT_OP_POLL, 0);
    op->flags = QUOIT_OPF_MULTI;
    op->offset = STDIN_FILENO;
    op->arg = QUOIT_POLL_IN;
    op->user_data = OF_INPUT;
    printf("{\"port\":%u,\"driver\":%d}\n", listening.aux, quoit_runtime_driver(runtime));
    fflush(stdout);
    while (!ended) {
        quoit_status n = quoit_turn(worker, nops, -1);
        nops = 0;
        if (n < 0)
            die("turn", n);
        for (int32_t i = 0; i < n; i++)
            take((const quoit_event *)(uintptr_t)batch->events + i);
    }
    quoit_runtime_destroy(runtime);
    return 0;
}
