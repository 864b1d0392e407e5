/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* info.c: what the library says of itself: versions, statuses, drivers, the probe, the log, counters. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "peer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void assert_driver(void) {
    CHECK_EQ(quoit_runtime_destroy(runtime_open(NULL)), QUOIT_OK);
}

static void version_before_runtime(void) {
    char text[32];
    CHECK_EQ(quoit_version(), QUOIT_VERSION_NUM);
    CHECK(!strcmp(quoit_version_text(), QUOIT_VERSION_TEXT));
    uint32_t version = quoit_version();
    snprintf(text, sizeof text, "%u.%u.%u", version >> 16, version >> 8 & 0xFF, version & 0xFF);
    CHECK(!strcmp(text, quoit_version_text()));
    CHECK_EQ(quoit_feature(QUOIT_FEATURE_URING), 1);
    CHECK_EQ(quoit_feature(QUOIT_FEATURE_EPOLL), 1);
    CHECK_EQ(quoit_feature(QUOIT_FEATURE_OFFLOAD), 1);
    CHECK_EQ(quoit_feature(0), 0);
    CHECK_EQ(quoit_feature(4711), 0);
    for (uint32_t opcode = QUOIT_OP_NOP; opcode <= QUOIT_OP_MULTICAST; opcode++)
        CHECK_EQ(quoit_op_supported(opcode), 1);
    CHECK_EQ(quoit_op_supported(63), 0);
    for (uint32_t opcode = QUOIT_OP_CHANNEL; opcode <= QUOIT_OP_CHANNEL_RECV; opcode++)
        CHECK_EQ(quoit_op_supported(opcode), 1);
    CHECK_EQ(quoit_op_supported(0x7FFF), 0);
    CHECK_EQ(quoit_op_supported(QUOIT_KIND_MESSAGE), 0);
    CHECK_EQ(quoit_op_supported(UINT32_MAX), 0);
    assert_driver();
}

static const struct {
    quoit_status status;
    const char *name;
} statuses[] = {
#define ONE(name)                                                                                            \
    { name, #name }
    ONE(QUOIT_E_ARGUMENT), ONE(QUOIT_E_STRUCT_SIZE), ONE(QUOIT_E_FLAGS),        ONE(QUOIT_E_FIELD),
    ONE(QUOIT_E_OPCODE),   ONE(QUOIT_E_UNSUPPORTED), ONE(QUOIT_E_STALE),        ONE(QUOIT_E_KIND),
    ONE(QUOIT_E_WORKER),   ONE(QUOIT_E_HANDLE),      ONE(QUOIT_E_THREAD),       ONE(QUOIT_E_REENTER),
    ONE(QUOIT_E_FORKED),   ONE(QUOIT_E_CLOSED),      ONE(QUOIT_E_TOO_MANY),     ONE(QUOIT_E_RANGE),
    ONE(QUOIT_E_BUSY),     ONE(QUOIT_E_LIMIT),       ONE(QUOIT_E_DRIVER),       ONE(QUOIT_E_CLOSING),
#undef ONE
    {0, "QUOIT_OK"},       {1, "QUOIT_OK"},          {INT32_MAX, "QUOIT_OK"},   {-ECONNRESET, "ECONNRESET"},
    {-ENOENT, "ENOENT"},   {-EAGAIN, "EAGAIN"},      {-ECANCELED, "ECANCELED"}, {-ETIMEDOUT, "ETIMEDOUT"},
    {-ENOBUFS, "ENOBUFS"}, {-EPERM, "EPERM"},        {-EHWPOISON, "EHWPOISON"},
};

static void check_sentence(const char *text, const char *what) {
    CHECK(text != NULL);
    if (strlen(text) < 8 || text[strlen(text) - 1] != '.')
        FAIL("%s is no sentence: \"%s\"", what, text);
}

static void status_texts(void) {
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        quoit_status status = statuses[i].status;
        if (strcmp(quoit_status_name(status), statuses[i].name))
            FAIL("%d is named %s, not %s", status, quoit_status_name(status), statuses[i].name);
        CHECK(*quoit_status_message(status)); /* of rare errnos it is the system's own text */
        CHECK(quoit_status_hint(status) != NULL);
        if (status <= -20001) {
            check_sentence(quoit_status_message(status), statuses[i].name);
            check_sentence(quoit_status_hint(status), statuses[i].name);
        }
    }
    static const quoit_status unknown[] = {-4095, -4096, -19999, -20000, -20021, -30000, INT32_MIN};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        CHECK(*quoit_status_name(unknown[i]));
        check_sentence(quoit_status_message(unknown[i]), "the message of an unknown status");
        CHECK(quoit_status_hint(unknown[i]) != NULL);
    }
    assert_driver();
}

static void status_classes(void) {
    CHECK_EQ(quoit_status_class(0), QUOIT_CLASS_OK);
    CHECK_EQ(quoit_status_class(17), QUOIT_CLASS_OK);
    CHECK_EQ(quoit_status_class(-EAGAIN), QUOIT_CLASS_RETRY);
    CHECK_EQ(quoit_status_class(-ENOBUFS), QUOIT_CLASS_RETRY);
    CHECK_EQ(quoit_status_class(-ECONNRESET), QUOIT_CLASS_CLOSED);
    CHECK_EQ(quoit_status_class(-EPIPE), QUOIT_CLASS_CLOSED);
    CHECK_EQ(quoit_status_class(QUOIT_E_CLOSED), QUOIT_CLASS_CLOSED);
    CHECK_EQ(quoit_status_class(QUOIT_E_CLOSING), QUOIT_CLASS_CLOSED);
    CHECK_EQ(quoit_status_class(QUOIT_E_FIELD), QUOIT_CLASS_USAGE);
    CHECK_EQ(quoit_status_class(QUOIT_E_THREAD), QUOIT_CLASS_USAGE);
    CHECK_EQ(quoit_status_class(QUOIT_E_ARGUMENT), QUOIT_CLASS_USAGE);
    CHECK_EQ(quoit_status_class(-EACCES), QUOIT_CLASS_SYSTEM);
    CHECK_EQ(quoit_status_class(-ECANCELED), QUOIT_CLASS_CANCELLED);
    CHECK_EQ(quoit_status_class(-ETIMEDOUT), QUOIT_CLASS_CANCELLED);
    for (quoit_status status = -1; status > -200; status--) {
        quoit_status class = quoit_status_class(status);
        CHECK(class > QUOIT_CLASS_OK && class <= QUOIT_CLASS_CANCELLED);
    }
    assert_driver();
}

static void handle_kinds(void) {
    for (quoit_handle type = QUOIT_HANDLE_WORKER; type <= QUOIT_HANDLE_CHANNEL; type++)
        CHECK_EQ(quoit_handle_kind(type << 56 | 1ull << 48 | 1ull << 24), type);
    CHECK_EQ(quoit_handle_kind(0), QUOIT_E_HANDLE);
    CHECK_EQ(quoit_handle_kind(1), QUOIT_E_HANDLE);
    CHECK_EQ(quoit_handle_kind(255), QUOIT_E_HANDLE);
    CHECK_EQ(quoit_handle_kind(1ull << 63 | 3ull << 56), QUOIT_E_HANDLE);
    CHECK_EQ(quoit_handle_kind(UINT64_MAX), QUOIT_E_HANDLE);
    CHECK_EQ(quoit_handle_kind(100ull << 56), QUOIT_E_HANDLE);
    assert_driver();
}

static void clocks(void) {
    for (uint32_t clock = QUOIT_CLOCK_MONOTONIC; clock <= QUOIT_CLOCK_WALL; clock++) {
        int64_t first = quoit_now(clock);
        CHECK(first > 0);
        CHECK(quoit_now(clock) >= first);
    }
    CHECK(quoit_now(QUOIT_CLOCK_WALL) > 1700000000ll * 1000000000);
    CHECK(quoit_now(QUOIT_CLOCK_BOOT) >= quoit_now(QUOIT_CLOCK_MONOTONIC) - 1000000000);
    CHECK(quoit_now(3) < 0);
    assert_driver();
}

static void probe_entries(void) {
    static quoit_probe_entry entries[256];
    quoit_status count = quoit_probe(NULL, 0);
    CHECK(count > 0 && count <= 256);
    CHECK_EQ(quoit_probe(NULL, 1), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_probe(entries, 256), count);
    for (quoit_status i = 0; i < count; i++) {
        const quoit_probe_entry *entry = &entries[i];
        CHECK(entry->state >= QUOIT_PROBE_USED && entry->state <= QUOIT_PROBE_FACT);
        CHECK(memchr(entry->name, 0, sizeof entry->name) && entry->name[0]);
        CHECK(memchr(entry->reason, 0, sizeof entry->reason) && entry->reason[0]);
        CHECK(memchr(entry->fix, 0, sizeof entry->fix));
        if (entry->state == QUOIT_PROBE_REFUSED)
            CHECK(entry->status < 0);
    }
    memset(entries, 0x5A, sizeof entries);
    CHECK_EQ(quoit_probe(entries, 1), count); /* fills no more than it may */
    for (size_t i = 0; i < sizeof entries[1]; i++)
        CHECK_EQ(((unsigned char *)&entries[1])[i], 0x5A);
    quoit_status driver = quoit_probe_driver();
    CHECK(driver >= QUOIT_DRIVER_URING_DEFER && driver <= QUOIT_DRIVER_EPOLL);
    assert_driver();
}

static void driver_reason(void) {
    quoit_runtime *runtime = runtime_open(NULL);
    char text[512] = "", small[4] = "abc";
    quoit_status len = quoit_runtime_driver_reason(runtime, text, sizeof text);
    CHECK_EQ(len, strlen(text));
    check_sentence(text, "the reason");
    CHECK_EQ(quoit_runtime_driver_reason(runtime, small, sizeof small), -ENOSPC);
    CHECK_EQ(quoit_runtime_driver_reason(runtime, NULL, 10), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_runtime_driver(NULL), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
}

/* Whether the probe found that this rung cannot be had; its entry has the rung's name. */
static bool is_refused(uint32_t driver) {
    static quoit_probe_entry entries[256];
    quoit_status count = quoit_probe(entries, 256);
    for (quoit_status i = 0; i < count; i++)
        if (!strcmp(entries[i].name, driver_text(driver)))
            return entries[i].state == QUOIT_PROBE_REFUSED;
    FAIL("the probe does not tell of %s", driver_text(driver));
}

/* Each driver is had where the kernel gives it, and is an error, not another driver, where it does not. */
static void forced_driver_or_error(void) {
    bool none = true;
    for (uint32_t driver = QUOIT_DRIVER_EPOLL; driver >= QUOIT_DRIVER_URING; driver--) {
        quoit_runtime_options options = {.struct_size = sizeof options, .driver = driver};
        quoit_runtime *runtime = NULL;
        quoit_status status = quoit_runtime_create(&options, &runtime);
        bool refused = driver == QUOIT_DRIVER_URING ? none : is_refused(driver);
        if (driver != QUOIT_DRIVER_EPOLL)
            none &= refused;
        if (refused) {
            CHECK_EQ(status, QUOIT_E_DRIVER);
            CHECK(runtime == NULL);
            continue;
        }
        CHECK_EQ(status, QUOIT_OK);
        quoit_status ran = quoit_runtime_driver(runtime);
        if (driver == QUOIT_DRIVER_URING)
            CHECK(ran >= QUOIT_DRIVER_URING_DEFER && ran <= QUOIT_DRIVER_URING_PLAIN);
        else
            CHECK_EQ(ran, driver);
        CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
    }
    assert_driver();
}

static void log_lines(void) {
    quoit_runtime *runtime = runtime_open(NULL);
    quoit_worker_options options = {.struct_size = sizeof options, .recv_buffers = 3};
    quoit_worker *worker;
    char text[512];
    uint32_t level = 0;
    while (quoit_log_read(runtime, text, sizeof text, NULL) > 0)
        ;
    CHECK_EQ(quoit_worker_create(runtime, &options, &worker), QUOIT_E_ARGUMENT);
    quoit_status len = quoit_log_read(runtime, text, sizeof text, &level);
    CHECK_EQ(len, strlen(text));
    CHECK(strstr(text, "recv_buffers") != NULL); /* it tells which argument is wrong */
    CHECK(level >= QUOIT_LOG_ERROR && level <= QUOIT_LOG_DEBUG);
    CHECK_EQ(quoit_log_read(runtime, text, sizeof text, &level), 0);
    for (int i = 0; i < 300; i++)
        CHECK_EQ(quoit_worker_create(runtime, &options, &worker), QUOIT_E_ARGUMENT);
    CHECK(quoit_log_read(runtime, text, 6, NULL) <= 5); /* cut to the capacity */
    CHECK(memchr(text, 0, 6) != NULL);
    int lines = 1;
    while (quoit_log_read(runtime, text, sizeof text, NULL) > 0)
        lines++;
    CHECK_EQ(lines, 256); /* the newest are kept */
    CHECK_EQ(quoit_log_read(runtime, NULL, 10, NULL), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_log_read(NULL, text, sizeof text, NULL), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
    CHECK_EQ(quoit_log_read(runtime, text, sizeof text, NULL), QUOIT_E_CLOSED);
}

static void stats_move(void) {
    struct pump pump;
    char data[100] = "", text[16384], small[8];
    pump_open(&pump, NULL);
    quoit_stats before = stats_of(&pump);
    struct link link = link_open(&pump);
    pump.on_event = on_event_echo;
    op_recv(&pump, link.stream, QUOIT_OPF_MULTI, 0);
    for (int i = 0; i < 10; i++) {
        peer_send(&pump, link.fd, data, sizeof data);
        peer_recv(&pump, link.fd, data, sizeof data);
    }
    op_must(&pump, op_timer(&pump, 1000000, 0, 0), 1);
    quoit_stats after = stats_of(&pump);
    CHECK_EQ(after.driver, quoit_runtime_driver(pump.runtime));
    CHECK_EQ(after.bytes_received - before.bytes_received, 1000);
    CHECK_EQ(after.bytes_sent - before.bytes_sent, 1000);
    CHECK_EQ(after.accepts - before.accepts, 1);
    CHECK_EQ(after.ticks, pump.batch->tick);
    CHECK_EQ(after.timers_fired, 1);
    CHECK(after.sends >= 1 && after.system_calls > before.system_calls && after.events >= 13);
    CHECK(after.ops >= 14 && after.crossings >= after.ticks && after.parks > 0 && after.park_ns > 0);
    CHECK_EQ(after.objects_live, 2); /* the listener and the stream */
    CHECK(after.buffers_total >= 256 && after.buffers_free <= after.buffers_total);
    uint64_t turns = 0;
    for (int i = 0; i < 16; i++)
        turns += after.tick_ns_hist[i];
    CHECK_EQ(turns, after.ticks);
    quoit_status len = quoit_stats_text(pump.handle, text, sizeof text);
    CHECK(len > 0 && (size_t)len == strlen(text));
    CHECK(strstr(text, "# EOF") != NULL);
    CHECK_EQ(quoit_stats_text(pump.handle, small, sizeof small), -ENOSPC);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void stats_arguments(void) {
    struct pump pump;
    quoit_stats stats = {.struct_size = 4};
    struct {
        quoit_stats known;
        uint64_t newer[2];
    } longer = {.known = {.struct_size = sizeof longer}};
    pump_open(&pump, NULL);
    quoit_handle handle = pump.handle;
    CHECK_EQ(quoit_stats_read(handle, &stats), QUOIT_E_STRUCT_SIZE);
    stats.struct_size = sizeof stats;
    CHECK_EQ(quoit_stats_read(0, &stats), QUOIT_E_HANDLE);
    CHECK_EQ(quoit_stats_read(handle ^ 1ull << 24, &stats), QUOIT_E_STALE);
    CHECK_EQ(quoit_stats_read(handle, &longer.known), QUOIT_OK); /* fills what both know */
    CHECK_EQ(longer.newer[0], 0);
    pump_close(&pump);
    CHECK_EQ(quoit_stats_read(handle, &stats), QUOIT_E_STALE);
}

static const struct test_case cases[] = {
    {"version_before_runtime", version_before_runtime},
    {"status_texts", status_texts},
    {"status_classes", status_classes},
    {"handle_kinds", handle_kinds},
    {"clocks", clocks},
    {"probe_entries", probe_entries},
    {"driver_reason", driver_reason},
    {"forced_driver_or_error", forced_driver_or_error},
    {"log_lines", log_lines},
    {"stats_move", stats_move},
    {"stats_arguments", stats_arguments},
};
TEST_GROUP(info, cases);
