/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What both services share: options, a worker, a listener, stopping on SIGTERM, and the report of the counters. */
#ifndef SERVICE_H
#define SERVICE_H

#include <quoit/quoit.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { TAG_LISTEN = 1, TAG_ACCEPT, TAG_SIGNAL, TAG_FIRST_FREE };

typedef struct service {
    quoit_runtime *runtime;
    quoit_worker *worker;
    quoit_batch *batch;
    quoit_addr addr;
    int signals;
    uint64_t handler_messages;
    uint64_t handler_bytes;
} service;

static void die(const char *what, int64_t status) {
    fprintf(stderr, "%s: %s %s\n", what, quoit_status_message((quoit_status)status),
            quoit_status_hint((quoit_status)status));
    exit(1);
}

static const quoit_event *events_of(const quoit_batch *batch) {
    return (const quoit_event *)(uintptr_t)batch->events;
}

/* Appends an op to the batch's array; a full array is submitted first, which costs no system call. */
static void ask(service *s, quoit_op op) {
    if (s->batch->nops == s->batch->ops_max) {
        quoit_submit(s->worker, s->batch->nops);
        s->batch->nops = 0;
    }
    ((quoit_op *)(uintptr_t)s->batch->ops)[s->batch->nops++] = op;
}

static uint32_t number_of(const char *name, const char *text) {
    char *end;
    unsigned long number = strtoul(text, &end, 10);
    if (*text == 0 || *end != 0 || number > UINT32_MAX) {
        fprintf(stderr, "%s takes a number, not \"%s\".\n", name, text);
        exit(2);
    }
    return (uint32_t)number;
}

static void parse_options(int argc, char **argv, int first, quoit_worker_options *worker) {
    for (int i = first; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--driver") == 0)
            setenv("QUOIT_DRIVER", value, 1);
        else if (strcmp(argv[i], "--buffers") == 0)
            worker->recv_buffers = number_of("--buffers", value);
        else if (strcmp(argv[i], "--events") == 0)
            worker->events_max = number_of("--events", value);
        else {
            fprintf(stderr, "Unknown option %s. Options: --driver NAME, --buffers N, --events N.\n", argv[i]);
            exit(2);
        }
    }
}

/* SIGTERM and SIGINT become readable: the worker polls them like any other descriptor. */
static inline int block_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void service_create(service *s, int argc, char **argv, int first) {
    quoit_worker_options options = {.struct_size = sizeof options};
    parse_options(argc, argv, first, &options);
    quoit_status status = quoit_addr_parse(argv[1], (uint32_t)strlen(argv[1]), &s->addr);
    if (status < 0)
        die(argv[1], status);
    if ((status = quoit_runtime_create(NULL, &s->runtime)) < 0)
        die("quoit_runtime_create", status);
    if ((status = quoit_worker_create(s->runtime, &options, &s->worker)) < 0)
        die("quoit_worker_create", status);
    s->batch = quoit_worker_batch(s->worker);
}

static inline void service_open(service *s, int argc, char **argv, int first) {
    s->signals = block_signals();
    service_create(s, argc, argv, first);
    ask(s, (quoit_op){
               .opcode = QUOIT_OP_POLL, .offset = s->signals, .arg = QUOIT_POLL_IN, .user_data = TAG_SIGNAL});
}

static inline void service_listen(service *s) {
    ask(s, (quoit_op){.opcode = QUOIT_OP_LISTEN,
                      .addr = (uintptr_t)&s->addr,
                      .len = sizeof s->addr,
                      .user_data = TAG_LISTEN});
}

/* The events every service has; false if this one is the service's own. */
static inline int common_event(service *s, const quoit_event *e) {
    char text[160];
    quoit_addr addr;
    switch (e->user_data) {
    case TAG_LISTEN:
        if (e->result < 0)
            die("listen", e->result);
        quoit_local_addr(s->worker, e->value, &addr);
        quoit_addr_text(&addr, text, sizeof text);
        printf("listening on %s\n", text);
        fflush(stdout);
        ask(s, (quoit_op){.opcode = QUOIT_OP_ACCEPT,
                          .flags = QUOIT_OPF_MULTI | QUOIT_OPF_AUTO_RECV,
                          .target = e->value,
                          .user_data = TAG_ACCEPT});
        return 1;
    case TAG_SIGNAL:
        quoit_stop(s->batch->worker);
        return 1;
    default:
        return 0;
    }
}

static inline void report(const service *s) {
    static const char *const drivers[] = {"auto",       "uring",       "uring-defer",
                                          "uring-coop", "uring-plain", "epoll"};
    quoit_stats st = {.struct_size = sizeof st};
    quoit_stats_read(s->batch->worker, &st);
    printf("{\"language\":\"c\",\"driver\":\"%s\",\"handler_messages\":%" PRIu64 ",\"handler_bytes\":%" PRIu64
           ",\"stats\":{",
           drivers[st.driver], s->handler_messages, s->handler_bytes);
#define PRINT(name) printf("\"%s\":%" PRIu64 ",", #name, st.name)
    PRINT(ticks), PRINT(system_calls), PRINT(crossings), PRINT(ops), PRINT(events), PRINT(bytes_received),
        PRINT(bytes_sent);
    PRINT(accepts), PRINT(connects), PRINT(park_ns), PRINT(parks), PRINT(sends), PRINT(sends_partial),
        PRINT(sends_gathered);
    PRINT(recv_nobufs), PRINT(recv_rearms), PRINT(recv_paused), PRINT(cq_overflows), PRINT(accept_stalls),
        PRINT(posts_in);
    PRINT(posts_refused), PRINT(wakes), PRINT(offloads), PRINT(timers_fired), PRINT(objects_live),
        PRINT(ops_live);
    PRINT(buffers_total), PRINT(buffers_free), PRINT(buffers_kept), PRINT(send_bytes_queued);
    printf("\"leaked\":%" PRIu64 "}}\n", st.leaked);
}

static inline int service_run(service *s, quoit_batch_fn on_batch) {
    quoit_status status = quoit_run(s->worker, on_batch, s);
    report(s);
    quoit_worker_destroy(s->worker);
    quoit_runtime_destroy(s->runtime);
    close(s->signals);
    return status < 0 ? 1 : 0;
}

#endif
