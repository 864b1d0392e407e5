/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "runner.h"

#include "check.h"
#include "descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <quoit/runtime.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct test_settings test_settings = {.seconds = 20};
void (*test_before)(void);
void (*test_after)(void);

/* Written by the test's process, read by the runner. */
struct report {
    uint32_t driver;
    char reason[256];
};

static struct report *report;
static const char *current = "runner";
static uint64_t started_ns;

static const char *const driver_names[] = {"auto",       "uring",       "uring-defer",
                                           "uring-coop", "uring-plain", "epoll"};
#define DRIVERS (sizeof driver_names / sizeof *driver_names)

uint32_t driver_number(const char *name) {
    for (uint32_t i = 0; i < DRIVERS; i++)
        if (!strcmp(driver_names[i], name))
            return i;
    return UINT32_MAX;
}

const char *driver_text(uint32_t driver) {
    return driver < DRIVERS ? driver_names[driver] : "unknown";
}

const char *test_name(void) {
    return current;
}

uint64_t test_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t test_deadline_ns(void) {
    return started_ns + test_settings.seconds * 850000000ull;
}

void test_note_driver(uint32_t driver) {
    report->driver = driver;
}

_Noreturn void test_skip(const char *reason) {
    snprintf(report->reason, sizeof report->reason, "%s", reason);
    _exit(TEST_EXIT_SKIPPED);
}

bool test_is_slow(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#else
    return false;
#endif
}

static _Noreturn void run_child(const struct test_case *test) {
    setpgid(0, 0);
    signal(SIGPIPE, SIG_DFL); /* the library must not raise it */
    int before = open_fds();
    if (test_before)
        test_before();
    test->body();
    if (test_after)
        test_after();
    int after = open_fds();
    if (after != before)
        FAIL("the test began with %d open files and ends with %d", before, after);
    exit(0);
}

/* Waits for the process at most so long; returns false when it had to be ended. */
static bool wait_child(pid_t pid, int *status) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd item = {.fd = fd, .events = POLLIN};
    bool in_time = true;
    if (fd < 0) {
        perror("pidfd_open");
        exit(3);
    }
    uint64_t end = test_now_ns() + test_settings.seconds * 1000000000ull;
    for (uint64_t now; (now = test_now_ns()) < end;)
        if (poll(&item, 1, (int)((end - now) / 1000000) + 1) > 0)
            break;
    if (!item.revents) {
        in_time = false;
        kill(pid, SIGKILL);
    }
    kill(-pid, SIGKILL); /* what the test forked and left behind */
    while (waitpid(pid, status, 0) < 0 && errno == EINTR)
        ;
    close(fd);
    return in_time;
}

enum outcome { PASSED, FAILED, SKIPPED };

static enum outcome judge(int status, bool in_time, char *why, size_t room) {
    if (!in_time) {
        snprintf(why, room, "ended after %u s", test_settings.seconds);
        return FAILED;
    }
    if (WIFSIGNALED(status)) {
        snprintf(why, room, "died of signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
        return FAILED;
    }
    if (WEXITSTATUS(status) == TEST_EXIT_SKIPPED && report->reason[0]) {
        snprintf(why, room, "%s", report->reason);
        return SKIPPED;
    }
    if (WEXITSTATUS(status)) {
        snprintf(why, room, "exit status %d", WEXITSTATUS(status));
        return FAILED;
    }
    if (!report->driver) {
        snprintf(why, room, "never asserted which driver ran");
        return FAILED;
    }
    return PASSED;
}

static enum outcome run_test(const struct test_case *test, unsigned number) {
    char why[300] = "";
    int status = 0;
    memset(report, 0, sizeof *report);
    started_ns = test_now_ns();
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0) {
        perror("fork");
        exit(3);
    }
    if (pid == 0)
        run_child(test);
    bool in_time = wait_child(pid, &status);
    enum outcome outcome = judge(status, in_time, why, sizeof why);
    unsigned ms = (unsigned)((test_now_ns() - started_ns) / 1000000);
    if (outcome == SKIPPED)
        printf("ok %u - %s # SKIP %s\nskipped %s: %s\n", number, current, why, current, why);
    else
        printf("%s %u - %s (%s, %u ms)%s%s\n", outcome == PASSED ? "ok" : "not ok", number, current,
               driver_text(report->driver), ms, *why ? ": " : "", why);
    fflush(stdout);
    return outcome;
}

/* The flight over all tests that match; with `list` it only names them. Returns how many there are. */
struct tally {
    unsigned counts[3];
    unsigned number;
    uint32_t driver;
};

static void visit(const struct test_group *const *groups, size_t count, const char *filter, bool list,
                  struct tally *tally) {
    static char name[128];
    for (size_t g = 0; g < count; g++)
        for (size_t t = 0; t < groups[g]->count; t++) {
            snprintf(name, sizeof name, "%s.%s", groups[g]->name, groups[g]->cases[t].name);
            if (filter && !strstr(name, filter))
                continue;
            tally->number++;
            current = name;
            if (list) {
                printf("%s\n", name);
                continue;
            }
            tally->counts[run_test(&groups[g]->cases[t], tally->number)]++;
            if (report->driver)
                tally->driver = report->driver;
        }
}

static int usage(const char *program) {
    fprintf(
        stderr,
        "usage: %s [--list] [--filter TEXT] [--driver NAME] [--expect-driver NAME] [--events N] [--grease]\n"
        "          [--repeat N] [--seconds N]\n"
        "  --driver         forces a driver by the runtime's options (QUOIT_DRIVER does it by the "
        "environment)\n"
        "  --expect-driver  the driver that must run, nothing being forced\n"
        "  --events         events in a batch of workers whose test does not choose\n"
        "  --grease         workers inject events of unknown kinds\n",
        program);
    return 2;
}

static bool take_driver(const char *text, uint32_t *driver) {
    *driver = driver_number(text);
    return *driver != UINT32_MAX;
}

static int run_all(const struct test_group *const *groups, size_t count, const char *filter,
                   unsigned repeat) {
    struct tally tally = {0};
    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (report == MAP_FAILED) {
        perror("mmap");
        return 3;
    }
    for (unsigned round = 0; round < repeat; round++)
        visit(groups, count, filter, false, &tally);
    printf("1..%u\n", tally.number);
    if (tally.driver)
        printf("driver ran: %s\n", driver_text(tally.driver));
    printf("conformance: %u passed, %u failed, %u skipped\n", tally.counts[PASSED], tally.counts[FAILED],
           tally.counts[SKIPPED]);
    if (!tally.number)
        return 3;
    return tally.counts[FAILED] ? 1 : 0;
}

int runner_main(int argc, char **argv, const struct test_group *const *groups, size_t count) {
    const char *filter = NULL, *forced = getenv("QUOIT_DRIVER");
    unsigned repeat = 1;
    bool list = false, good = true;
    if (test_is_slow())
        test_settings.seconds = 90;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--list"))
            list = true;
        else if (!strcmp(argv[i], "--grease"))
            test_settings.grease = true;
        else if (!value)
            return usage(argv[0]);
        else if (!strcmp(argv[i], "--filter"))
            filter = argv[++i];
        else if (!strcmp(argv[i], "--driver"))
            good &= take_driver(argv[++i], &test_settings.driver);
        else if (!strcmp(argv[i], "--expect-driver"))
            good &= take_driver(argv[++i], &test_settings.expect_driver);
        else if (!strcmp(argv[i], "--events"))
            test_settings.events_max = (uint32_t)atoi(argv[++i]);
        else if (!strcmp(argv[i], "--repeat"))
            repeat = (unsigned)atoi(argv[++i]);
        else if (!strcmp(argv[i], "--seconds"))
            test_settings.seconds = (unsigned)atoi(argv[++i]);
        else
            good = false;
        if (!good)
            return usage(argv[0]);
    }
    if (!test_settings.expect_driver)
        test_settings.expect_driver = test_settings.driver;
    if (!test_settings.expect_driver && forced && !take_driver(forced, &test_settings.expect_driver))
        return usage(argv[0]);
    if (list) {
        struct tally tally = {0};
        visit(groups, count, filter, true, &tally);
        return 0;
    }
    return run_all(groups, count, filter, repeat);
}
