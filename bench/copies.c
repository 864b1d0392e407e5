/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * quoit-copies: what it saves not to copy. Over loopback, in interleaved rounds: sends of 1 MiB with ZEROCOPY against plain ones, and a file spliced
 * into a stream against its being read and sent. Prints the median of each and the ratio of the two; compare within one run only.
 *
 *     quoit-copies [uring|epoll] [rounds]
 */
#define _GNU_SOURCE
#include <quoit/quoit.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define MIB (1u << 20)
#define PER_ROUND 256u

static quoit_worker *worker;
static quoit_batch *batch;
static quoit_handle stream, file;
static char data[MIB];

static void need(int holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "quoit-copies: %s failed\n", what);
    exit(1);
}

static quoit_op *next_op(uint32_t *nops, uint32_t opcode, quoit_handle target) {
    quoit_op *op = (quoit_op *)(uintptr_t)batch->ops + (*nops)++;
    memset(op, 0, sizeof *op);
    op->opcode = opcode;
    op->target = target;
    return op;
}

/* Gives the op and waits for its end. */
static quoit_event finish(uint32_t nops, const quoit_op *op) {
    uint32_t opcode = op->opcode;
    for (;;) {
        quoit_status n = quoit_turn(worker, nops, -1);
        need(n >= 0, "a turn");
        nops = 0;
        const quoit_event *events = (const quoit_event *)(uintptr_t)batch->events;
        for (int i = 0; i < n; i++)
            if (events[i].kind == opcode && !(events[i].flags & QUOIT_EVF_MORE)) {
                need(events[i].result >= 0, "an op");
                return events[i];
            }
    }
}

static void send_memory(uint32_t flags) {
    uint32_t nops = 0;
    quoit_op *op = next_op(&nops, QUOIT_OP_SEND, stream);
    op->flags = QUOIT_OPF_BORROW | flags;
    op->addr = (uintptr_t)data;
    op->len = MIB;
    finish(nops, op);
}

static void plain(void) {
    send_memory(0);
}

static void zerocopy(void) {
    send_memory(QUOIT_OPF_ZEROCOPY);
}

static void spliced(void) {
    uint32_t nops = 0;
    quoit_op *op = next_op(&nops, QUOIT_OP_SPLICE, file);
    op->arg2 = stream;
    op->len = MIB;
    finish(nops, op);
}

static void read_and_sent(void) {
    uint32_t nops = 0;
    quoit_op *op = next_op(&nops, QUOIT_OP_READ, file);
    op->len = MIB;
    quoit_event read = finish(nops, op);
    nops = 0;
    op = next_op(&nops, QUOIT_OP_SEND, stream);
    op->flags = QUOIT_OPF_ARENA_RECV;
    op->addr = read.offset;
    op->len = read.len;
    op->arg2 = read.buffer;
    finish(nops, op);
}

static void *drain_socket(void *arg) {
    static char sink[4 * MIB];
    int fd = *(int *)arg;
    while (read(fd, sink, sizeof sink) > 0)
        ;
    return NULL;
}

static double seconds_of(void (*body)(void), double *cpu) {
    struct timespec from, to;
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (uint32_t i = 0; i < PER_ROUND; i++)
        body();
    clock_gettime(CLOCK_MONOTONIC, &to);
    getrusage(RUSAGE_SELF, &after);
    *cpu = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec -
                    before.ru_stime.tv_sec) +
           (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec -
                    before.ru_stime.tv_usec) /
               1e6;
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, ascending);
    return values[n / 2];
}

static void compare(const char *one, void (*first)(void), const char *other, void (*second)(void),
                    int rounds) {
    double *times[2], *cpus[2];
    for (int i = 0; i < 2; i++) {
        times[i] = calloc((size_t)rounds, sizeof **times);
        cpus[i] = calloc((size_t)rounds, sizeof **cpus);
        need(times[i] != NULL && cpus[i] != NULL, "calloc");
    }
    for (int i = 0; i < rounds; i++) {
        times[0][i] = seconds_of(first, &cpus[0][i]);
        times[1][i] = seconds_of(second, &cpus[1][i]);
    }
    double a = median(times[0], rounds), b = median(times[1], rounds);
    double c = median(cpus[0], rounds), d = median(cpus[1], rounds);
    printf("%-9s %7.0f MiB/s, CPU %4.0f us/MiB   %-9s %7.0f MiB/s, CPU %4.0f us/MiB   rate %.2f, CPU %.2f\n",
           one, PER_ROUND / a, c * 1e6 / PER_ROUND, other, PER_ROUND / b, d * 1e6 / PER_ROUND, b / a, c / d);
    for (int i = 0; i < 2; i++) {
        free(times[i]);
        free(cpus[i]);
    }
}

static quoit_handle adopt(int fd) {
    uint32_t nops = 0;
    quoit_op *op = next_op(&nops, QUOIT_OP_ADOPT, 0);
    op->offset = fd;
    return finish(nops, op).value;
}

static void connect_pair(int ends[2]) {
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    need(listening >= 0 && bind(listening, (struct sockaddr *)&addr, sizeof addr) == 0 &&
             listen(listening, 1) == 0 && getsockname(listening, (struct sockaddr *)&addr, &len) == 0,
         "listening");
    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    need(ends[0] >= 0 && connect(ends[0], (struct sockaddr *)&addr, sizeof addr) == 0, "connect");
    ends[1] = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    need(ends[1] >= 0, "accept");
    close(listening);
}

int main(int argc, char **argv) {
    quoit_runtime_options options = {.struct_size = sizeof options};
    quoit_runtime *runtime;
    pthread_t thread;
    int ends[2], rounds = argc > 2 ? atoi(argv[2]) : 7;
    if (argc > 1)
        options.driver = strcmp(argv[1], "epoll") == 0 ? QUOIT_DRIVER_EPOLL : QUOIT_DRIVER_URING;
    need(rounds > 0, "reading the number of rounds");
    need(quoit_runtime_create(&options, &runtime) == 0 && quoit_worker_create(runtime, NULL, &worker) == 0,
         "making a worker");
    batch = quoit_worker_batch(worker);
    connect_pair(ends);
    need(pthread_create(&thread, NULL, drain_socket, &ends[1]) == 0, "a thread");
    int fd = memfd_create("quoit-copies", MFD_CLOEXEC);
    need(fd >= 0 && write(fd, data, MIB) == (ssize_t)MIB, "a file");
    stream = adopt(ends[0]);
    file = adopt(fd);
    compare("zerocopy", zerocopy, "plain", plain, rounds);
    compare("splice", spliced, "read+send", read_and_sent, rounds);
    need(quoit_runtime_destroy(runtime) == 0, "destroying the runtime");
    pthread_join(thread, NULL);
    close(ends[1]);
    return 0;
}
