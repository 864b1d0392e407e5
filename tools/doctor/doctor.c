/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* quoit-doctor: tells what quoit can use on this machine, why not the rest, and how to change that. */
#include <quoit/quoit.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_WHOLE = 0, EXIT_USAGE = 2, EXIT_LESSER = 10, EXIT_EPOLL = 11, EXIT_NONE = 20 };

static const char usage[] =
    "Usage: quoit-doctor [--json] [--help] [--version]\n"
    "\n"
    "Tries each feature that quoit uses on this machine and tells, for each, whether it is used, why not,\n"
    "and how to change that.\n"
    "\n"
    "  --json      one JSON object instead of text\n"
    "  --help      this text\n"
    "  --version   the library's version\n"
    "\n"
    "Exit status: 0 io_uring whole, 10 io_uring but on a lesser rung or smaller rings,\n"
    "11 epoll, 20 quoit cannot run, 2 bad usage.\n"
    "\n"
    "Examples:\n"
    "  quoit-doctor                       look at this machine\n"
    "  quoit-doctor --json | jq .driver   the driver alone\n"
    "  docker run IMAGE quoit-doctor      look into a container\n";

static const char *state_name(uint32_t state) {
    switch (state) {
    case QUOIT_PROBE_USED:
        return "used";
    case QUOIT_PROBE_REFUSED:
        return "refused";
    case QUOIT_PROBE_UNUSED:
        return "unused";
    default:
        return "fact";
    }
}

static const char *driver_name(quoit_status driver) {
    switch (driver) {
    case QUOIT_DRIVER_URING_DEFER:
        return "uring-defer";
    case QUOIT_DRIVER_URING_COOP:
        return "uring-coop";
    case QUOIT_DRIVER_URING_PLAIN:
        return "uring-plain";
    case QUOIT_DRIVER_EPOLL:
        return "epoll";
    default:
        return "none";
    }
}

/* What a runtime and one worker with default options really run on, and why. */
typedef struct verdict {
    quoit_status driver; /* QUOIT_DRIVER_*, or the error */
    int code;
    char why[512];
} verdict;

/* The newest log line: why a worker does not run on its runtime's driver. */
static void take_log(quoit_runtime *runtime, char *text, uint32_t capacity) {
    char line[512];
    uint32_t level;
    while (quoit_log_read(runtime, line, sizeof line, &level) > 0)
        if (level <= QUOIT_LOG_WARNING)
            snprintf(text, capacity, "%s", line);
}

/* A trial needs no descriptors to spare, a service does: so one worker is made for real and makes a turn. */
static quoit_status run_worker(quoit_runtime *runtime, verdict *v) {
    quoit_worker *worker;
    quoit_stats stats = {.struct_size = sizeof stats};
    quoit_runtime_driver_reason(runtime, v->why, sizeof v->why);
    quoit_status status = quoit_worker_create(runtime, NULL, &worker);
    if (status == 0)
        status = quoit_turn(worker, 0, 0);
    if (status >= 0)
        status = quoit_stats_read(quoit_worker_handle(worker), &stats);
    if (status < 0)
        return status;
    if ((quoit_status)stats.driver != quoit_runtime_driver(runtime))
        take_log(runtime, v->why, sizeof v->why);
    return (quoit_status)stats.driver;
}

static int is_whole(const quoit_probe_entry *entries, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(entries[i].name, "worker_ring") == 0)
            return entries[i].state == QUOIT_PROBE_USED;
    return 0;
}

static verdict judge(const quoit_probe_entry *entries, int count) {
    verdict v = {.code = EXIT_NONE};
    quoit_runtime *runtime;
    v.driver = quoit_runtime_create(NULL, &runtime);
    if (v.driver == 0) {
        v.driver = run_worker(runtime, &v);
        quoit_runtime_destroy(runtime);
    }
    if (v.driver < 0)
        snprintf(v.why, sizeof v.why, "%s %s", quoit_status_message(v.driver), quoit_status_hint(v.driver));
    else if (v.driver == QUOIT_DRIVER_EPOLL)
        v.code = EXIT_EPOLL;
    else
        v.code = v.driver == QUOIT_DRIVER_URING_DEFER && is_whole(entries, count) ? EXIT_WHOLE : EXIT_LESSER;
    return v;
}

static void print_string(const char *text) {
    putchar('"');
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void print_json(const quoit_probe_entry *entries, int count, const verdict *v) {
    printf("{\"version\":\"%s\",\"driver\":\"%s\",\"exit\":%d,\"status\":", quoit_version_text(),
           driver_name(v->driver), v->code);
    print_string(v->driver < 0 ? quoit_status_name(v->driver) : "QUOIT_OK");
    printf(",\"reason\":");
    print_string(v->why);
    printf(",\"features\":[");
    for (int i = 0; i < count; i++) {
        const quoit_probe_entry *e = &entries[i];
        printf("%s{\"name\":", i ? "," : "");
        print_string(e->name);
        printf(",\"state\":\"%s\",\"errno\":%d,\"number\":%llu,\"reason\":", state_name(e->state), -e->status,
               (unsigned long long)e->number);
        print_string(e->reason);
        printf(",\"fix\":");
        print_string(e->fix);
        putchar('}');
    }
    printf("]}\n");
}

static void print_text(const quoit_probe_entry *entries, int count, const verdict *v) {
    const char *said = "";
    printf("quoit %s\n\n", quoit_version_text());
    for (int i = 0; i < count; i++) {
        const quoit_probe_entry *e = &entries[i];
        printf("  %-18s %-8s %s\n", e->name, state_name(e->state), e->reason);
        if (e->fix[0] && strcmp(e->fix, said) != 0)
            printf("  %-18s %-8s fix: %s\n", "", "", e->fix);
        said = e->fix;
    }
    if (v->driver < 0)
        printf("\nquoit cannot run here: %s\n", v->why);
    else
        printf("\nquoit runs on %s here%s: %s\n", driver_name(v->driver),
               v->code == EXIT_LESSER ? ", but not on all of io_uring" : "", v->why);
}

int main(int argc, char **argv) {
    int json = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            json = 1;
        } else if (strcmp(argv[i], "--help") == 0) {
            fputs(usage, stdout);
            return EXIT_WHOLE;
        } else if (strcmp(argv[i], "--version") == 0) {
            printf("quoit-doctor %s\n", quoit_version_text());
            return EXIT_WHOLE;
        } else {
            fprintf(stderr, "quoit-doctor: unknown option %s. Try quoit-doctor --help.\n", argv[i]);
            return EXIT_USAGE;
        }
    }
    quoit_probe_entry entries[64];
    int count = quoit_probe(entries, 64);
    if (count > 64)
        count = 64;
    verdict v = judge(entries, count);
    if (json)
        print_json(entries, count, &v);
    else
        print_text(entries, count, &v);
    return v.code;
}
