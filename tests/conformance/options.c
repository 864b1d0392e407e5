/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* options.c: structs that grow, their defaults, and what they refuse. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"

#include <errno.h>
#include <string.h>

static quoit_status create_runtime(const void *options) {
    quoit_runtime *runtime = NULL;
    quoit_status status = quoit_runtime_create(options, &runtime);
    CHECK((status == QUOIT_OK) == (runtime != NULL));
    if (runtime)
        CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
    return status;
}

static void runtime_struct_size(void) {
    struct {
        quoit_runtime_options known;
        uint64_t newer[4];
    } longer = {.known = {.struct_size = sizeof longer}};
    quoit_runtime_options options = {.struct_size = 0};
    CHECK_EQ(create_runtime(&options), QUOIT_E_STRUCT_SIZE);
    options.struct_size = sizeof options - 4;
    CHECK_EQ(create_runtime(&options), QUOIT_E_STRUCT_SIZE);
    options.struct_size = sizeof options;
    CHECK_EQ(create_runtime(&options), QUOIT_OK);
    CHECK_EQ(create_runtime(&longer), QUOIT_OK);
    longer.newer[3] = 1;
    CHECK_EQ(create_runtime(&longer), QUOIT_E_STRUCT_SIZE);
    CHECK_EQ(create_runtime(NULL), QUOIT_OK);
    CHECK_EQ(quoit_runtime_create(NULL, NULL), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_runtime_destroy(runtime_open(NULL)), QUOIT_OK);
}

static void runtime_values(void) {
    quoit_runtime_options options = {.struct_size = sizeof options, .flags = 0x80000000u};
    CHECK_EQ(create_runtime(&options), QUOIT_E_FLAGS);
    options.flags = 0x2;
    CHECK_EQ(create_runtime(&options), QUOIT_E_FLAGS);
    options.flags = 0;
    options.driver = QUOIT_DRIVER_EPOLL + 1;
    CHECK_EQ(create_runtime(&options), QUOIT_E_ARGUMENT);
    options.driver = 0;
    options.reserved = 1;
    CHECK_EQ(create_runtime(&options), QUOIT_E_ARGUMENT);
    options.reserved = 0;
    options.reserved2 = 1;
    CHECK_EQ(create_runtime(&options), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_runtime_destroy(runtime_open(NULL)), QUOIT_OK);
}

static quoit_status create_worker(quoit_runtime *runtime, const void *options) {
    quoit_worker *worker = NULL;
    quoit_status status = quoit_worker_create(runtime, options, &worker);
    CHECK((status == QUOIT_OK) == (worker != NULL));
    if (worker)
        CHECK_EQ(quoit_worker_destroy(worker), QUOIT_OK);
    return status;
}

static void worker_struct_size(void) {
    quoit_runtime *runtime = runtime_open(NULL);
    struct {
        quoit_worker_options known;
        uint64_t newer;
    } longer = {.known = {.struct_size = sizeof longer}};
    quoit_worker_options options = {.struct_size = 8};
    CHECK_EQ(create_worker(runtime, &options), QUOIT_E_STRUCT_SIZE);
    options.struct_size = sizeof options;
    CHECK_EQ(create_worker(runtime, &options), QUOIT_OK);
    CHECK_EQ(create_worker(runtime, &longer), QUOIT_OK);
    longer.newer = 1ull << 40;
    CHECK_EQ(create_worker(runtime, &longer), QUOIT_E_STRUCT_SIZE);
    CHECK_EQ(create_worker(runtime, NULL), QUOIT_OK);
    CHECK_EQ(create_worker(NULL, NULL), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_worker_create(runtime, NULL, NULL), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
}

/* Each entry is refused by itself; the worker that follows shows that nothing of it stayed. */
static void worker_values(void) {
    quoit_runtime *runtime = runtime_open(NULL);
    static const quoit_worker_options wrong[] = {
        {.events_max = 65537},
        {.ops_max = 65537},
        {.recv_buffers = 3},
        {.recv_buffers = 65536},
        {.recv_buffer_size = 63},
        {.recv_buffer_size = 1048577},
        {.ring_entries = 256, .cq_entries = 256},
        {.reserved = 1},
        {.reserved2 = 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        quoit_worker_options options = wrong[i];
        options.struct_size = sizeof options;
        if (create_worker(runtime, &options) != QUOIT_E_ARGUMENT)
            FAIL("the wrong options number %zu are not refused", i);
    }
    quoit_worker_options options = {.struct_size = sizeof options, .flags = 0x2};
    CHECK_EQ(create_worker(runtime, &options), QUOIT_E_FLAGS);
    options.flags = 0x80000000u;
    CHECK_EQ(create_worker(runtime, &options), QUOIT_E_FLAGS);
    CHECK_EQ(create_worker(runtime, NULL), QUOIT_OK);
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
}

static void edges_are_taken(void) {
    quoit_runtime *runtime = runtime_open(NULL);
    static const quoit_worker_options edges[] = {
        {.events_max = 1, .ops_max = 1},
        {.events_max = 65536, .ops_max = 65536},
        {.recv_buffers = 1, .recv_buffer_size = 64},
        {.recv_buffers = 16, .recv_buffer_size = 1048576},
        {.recv_buffers = 32768, .recv_buffer_size = 64},
        {.ring_entries = 4, .cq_entries = 8},
        {.recv_arena = 16 << 20, .send_arena = 16 << 20, .scratch_len = 4096},
        {.objects_max = 1},
        {.cpu = 1},
    };
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        quoit_worker_options options = edges[i];
        options.struct_size = sizeof options;
        quoit_status status = create_worker(runtime, &options);
        if (status != QUOIT_OK)
            FAIL("the options number %zu are refused: %s", i, quoit_status_name(status));
    }
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
}

static void defaults_and_batch(void) {
    quoit_runtime *runtime = runtime_open(NULL);
    quoit_worker *worker;
    CHECK_EQ(quoit_worker_create(runtime, NULL, &worker), QUOIT_OK);
    quoit_batch *batch = quoit_worker_batch(worker);
    CHECK(batch != NULL && (uintptr_t)batch % 64 == 0);
    CHECK_EQ(batch->struct_size, sizeof(quoit_batch));
    CHECK_EQ(batch->events_max, 256);
    CHECK_EQ(batch->ops_max, 1024);
    CHECK_EQ(batch->stride, 64);
    CHECK_EQ(batch->scratch_len, 1 << 20);
    CHECK_EQ(batch->worker, quoit_worker_handle(worker));
    CHECK_EQ(quoit_handle_kind(batch->worker), QUOIT_HANDLE_WORKER);
    CHECK_EQ(batch->nops, 0);
    CHECK_EQ(batch->nevents, 0);
    CHECK_EQ(batch->reserved, 0);
    CHECK(batch->ops % 64 == 0 && batch->events % 64 == 0);
    CHECK(batch->recv_base && batch->send_base && batch->recv_size && batch->send_size);
    CHECK(batch->scratch_off + batch->scratch_len <= batch->send_size);
    memset((char *)(uintptr_t)(batch->send_base + batch->scratch_off), 1, batch->scratch_len);
    /* All of the receive arena may be looked at, also where nothing was received. */
    for (uint64_t at = 0; at < batch->recv_size; at += batch->recv_size / 64)
        CHECK_EQ(((const volatile char *)(uintptr_t)batch->recv_base)[at], 0);
    quoit_batch first = *batch;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(quoit_turn_nb(worker, 0), 0);
        CHECK(quoit_worker_batch(worker) == batch);
        CHECK(batch->ops == first.ops && batch->events == first.events && batch->worker == first.worker);
        CHECK(batch->recv_base == first.recv_base && batch->send_base == first.send_base);
        CHECK_EQ(batch->tick, first.tick + (uint64_t)i + 1);
    }
    CHECK_EQ(quoit_worker_destroy(worker), QUOIT_OK);
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
}

static void capacities_follow_options(void) {
    struct pump pump;
    quoit_worker_options options = {.events_max = 7, .scratch_len = 8192, .recv_buffers = 16};
    pump_open(&pump, &options);
    CHECK_EQ(pump.batch->events_max, 7);
    CHECK_EQ(pump.batch->ops_max, 28);
    CHECK_EQ(pump.batch->scratch_len, 8192);
    for (int i = 0; i < 100; i++)
        op_simple(&pump, QUOIT_OP_NOP, 0);
    uint64_t last = op_simple(&pump, QUOIT_OP_NOP, 0);
    CHECK_EQ(pump_turn(&pump, -1), 7);
    CHECK(pump.batch->flags & QUOIT_BATCH_LEFT);
    op_must(&pump, last, 0);
    CHECK(!(pump.batch->flags & QUOIT_BATCH_LEFT));
    CHECK_EQ(stats_of(&pump).buffers_total, 16);
    pump_close(&pump);
}

static void arguments_of_addresses(void) {
    static const char *const good[] = {"127.0.0.1:80", "[::1]:65535", "[fe80::1%2]:80",
                                       "unix:/tmp/x",  "unix:@name",  "0.0.0.0:0"};
    static const char *const bad[] = {
        "",        "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "::1:80",       "[::1]",    "[::1:80",
        "host:80", "unix:",     "1.2.3:4",    "127.0.0.1:80 ",   "127.0.0.1:-1", "[::1%]:80"};
    char text[160];
    quoit_addr addr, again;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        memset(&addr, 0xFF, sizeof addr);
        if (quoit_addr_parse(good[i], (uint32_t)strlen(good[i]), &addr) != QUOIT_OK)
            FAIL("%s is not taken", good[i]);
        CHECK_EQ(quoit_addr_text(&addr, text, sizeof text), strlen(good[i]));
        if (strcmp(text, good[i]))
            FAIL("%s becomes %s", good[i], text);
        CHECK_EQ(quoit_addr_parse(text, (uint32_t)strlen(text), &again), QUOIT_OK);
        CHECK(!memcmp(&addr, &again, sizeof addr)); /* unused bytes are zero */
        CHECK_EQ(quoit_addr_text(&addr, text, (uint32_t)strlen(good[i])), -ENOSPC);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (quoit_addr_parse(bad[i], (uint32_t)strlen(bad[i]), &addr) != QUOIT_E_ARGUMENT)
            FAIL("\"%s\" is taken", bad[i]);
    CHECK_EQ(quoit_addr_parse("127.0.0.1:8080", 12, &addr), QUOIT_OK); /* text_len bounds it */
    CHECK_EQ(addr.port, 80);
    CHECK_EQ(quoit_addr_parse(NULL, 5, &addr), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_addr_parse("127.0.0.1:80", 12, NULL), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_addr_text(NULL, text, sizeof text), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_addr_text(&addr, NULL, 10), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_runtime_destroy(runtime_open(NULL)), QUOIT_OK);
}

static const struct test_case cases[] = {
    {"runtime_struct_size", runtime_struct_size},
    {"runtime_values", runtime_values},
    {"worker_struct_size", worker_struct_size},
    {"worker_values", worker_values},
    {"edges_are_taken", edges_are_taken},
    {"defaults_and_batch", defaults_and_batch},
    {"capacities_follow_options", capacities_follow_options},
    {"arguments_of_addresses", arguments_of_addresses},
};
TEST_GROUP(options, cases);
