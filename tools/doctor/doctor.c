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
    "Exit status: 0 io_uring whole, 10 io_uring on a lesser rung, 11 epoll, 20 quoit cannot run, 2 bad usage.\n"
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

static int exit_code(quoit_status driver) {
    switch (driver) {
    case QUOIT_DRIVER_URING_DEFER:
        return EXIT_WHOLE;
    case QUOIT_DRIVER_URING_COOP:
    case QUOIT_DRIVER_URING_PLAIN:
        return EXIT_LESSER;
    case QUOIT_DRIVER_EPOLL:
        return EXIT_EPOLL;
    default:
        return EXIT_NONE;
    }
}

/* The trial of a driver does not need descriptors to spare; a service does. This makes one worker for real. */
static quoit_status really_runs(void) {
    quoit_runtime *runtime;
    quoit_worker *worker;
    quoit_status status = quoit_runtime_create(NULL, &runtime);
    if (status < 0)
        return status;
    status = quoit_worker_create(runtime, NULL, &worker);
    if (status == 0)
        status = quoit_turn(worker, 0, 0);
    if (status >= 0) {
        quoit_stats stats = {.struct_size = sizeof stats};
        status = quoit_stats_read(quoit_worker_handle(worker), &stats);
        status = status < 0 ? status : (quoit_status)stats.driver;
    }
    quoit_runtime_destroy(runtime);
    return status;
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

static void print_json(const quoit_probe_entry *entries, int count, quoit_status driver, int code) {
    printf("{\"version\":\"%s\",\"driver\":\"%s\",\"exit\":%d,\"status\":", quoit_version_text(), driver_name(driver), code);
    print_string(driver < 0 ? quoit_status_name(driver) : "QUOIT_OK");
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

static void print_text(const quoit_probe_entry *entries, int count, quoit_status driver) {
    printf("quoit %s\n\n", quoit_version_text());
    for (int i = 0; i < count; i++) {
        const quoit_probe_entry *e = &entries[i];
        printf("  %-18s %-8s %s\n", e->name, state_name(e->state), e->reason);
        if (e->fix[0])
            printf("  %-18s          fix: %s\n", "", e->fix);
    }
    if (driver < 0)
        printf("\nquoit cannot run here: %s %s\n", quoit_status_message(driver), quoit_status_hint(driver));
    else
        printf("\nquoit runs on %s here.\n", driver_name(driver));
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
    quoit_status driver = really_runs();
    int code = exit_code(driver);
    if (json)
        print_json(entries, count, driver, code);
    else
        print_text(entries, count, driver);
    return code;
}
