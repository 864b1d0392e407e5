/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* offload.c: native functions, described at run time, on the blocking pool. */
#define _GNU_SOURCE
#include "calls.h"
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static uint64_t bits(double value) {
    uint64_t word;
    memcpy(&word, &value, 8);
    return word;
}

static void pow_of_libm(void) {
    static const uint8_t types[2] = {QUOIT_TYPE_DOUBLE, QUOIT_TYPE_DOUBLE};
    struct pump pump;
    uint64_t entry = 0;
    pump_open(&pump, NULL);
    CHECK_EQ(quoit_symbol("libm.so.6", "pow", &entry), QUOIT_OK);
    CHECK(entry != 0);
    for (int i = 0; i < 40; i++) {
        uint64_t args[2] = {bits(2.0), bits(i - 20)};
        double expected = i < 20 ? 1.0 / (double)(1u << (20 - i)) : (double)(1u << (i - 20));
        CHECK_EQ(op_must(&pump, op_call(&pump, entry, QUOIT_TYPE_DOUBLE, 2, types, args), 0).value,
                 bits(expected));
    }
    CHECK_EQ(stats_of(&pump).offloads, 40);
    pump_close(&pump);
}

static void crc32_of_zlib(void) {
    static const uint8_t types[3] = {QUOIT_TYPE_U64, QUOIT_TYPE_POINTER, QUOIT_TYPE_U32};
    struct pump pump;
    uint64_t entry = 0;
    pump_open(&pump, NULL);
    CHECK_EQ(quoit_symbol("libz.so.1", "crc32", &entry), QUOIT_OK);
    uint64_t args[3] = {0, (uintptr_t) "123456789", 9};
    CHECK_EQ(op_must(&pump, op_call(&pump, entry, QUOIT_TYPE_U64, 3, types, args), 0).value, 0xCBF43926u);
    pump_close(&pump);
}

static void symbols(void) {
    uint64_t entry = 0;
    CHECK_EQ(quoit_symbol(NULL, "getpid", &entry), QUOIT_OK);
    CHECK(entry != 0);
    CHECK_EQ(quoit_symbol(NULL, "no_such_function_at_all", &entry), -ENOENT);
    CHECK_EQ(quoit_symbol("libm.so.6", "no_such_function_at_all", &entry), -ENOENT);
    CHECK_EQ(quoit_symbol("libnothing-of-this-name.so.9", "pow", &entry), -ENOENT);
    CHECK_EQ(quoit_runtime_destroy(runtime_open(NULL)), QUOIT_OK);
}

/* Sixteen arguments of all types arrive as given. */
static int64_t weigh(int8_t a, uint8_t b, int16_t c, uint16_t d, int32_t e, uint32_t f, int64_t g, uint64_t h,
                     float i, double j, const char *k, double l, float m, int8_t n, uint64_t o, int32_t p) {
    CHECK(a == -128 && b == 255 && c == -32768 && d == 65535);
    CHECK(e == INT32_MIN && f == UINT32_MAX && g == INT64_MIN && h == UINT64_MAX);
    CHECK(i == 1.5f && j == -2.25 && !strcmp(k, "text") && l == 1e300 && m == -0.125f);
    CHECK(n == 127 && o == 1 && p == -1);
    return -4711;
}

static uint64_t float_bits(float value) {
    uint32_t word;
    memcpy(&word, &value, 4);
    return word;
}

static void every_argument_type(void) {
    static const uint8_t types[16] = {
        QUOIT_TYPE_I8,    QUOIT_TYPE_U8,     QUOIT_TYPE_I16,     QUOIT_TYPE_U16,
        QUOIT_TYPE_I32,   QUOIT_TYPE_U32,    QUOIT_TYPE_I64,     QUOIT_TYPE_U64,
        QUOIT_TYPE_FLOAT, QUOIT_TYPE_DOUBLE, QUOIT_TYPE_POINTER, QUOIT_TYPE_DOUBLE,
        QUOIT_TYPE_FLOAT, QUOIT_TYPE_I8,     QUOIT_TYPE_U64,     QUOIT_TYPE_I32,
    };
    struct pump pump;
    pump_open(&pump, NULL);
    uint64_t args[16] = {(uint64_t)-128,
                         255,
                         (uint64_t)-32768,
                         65535,
                         (uint64_t)INT32_MIN,
                         UINT32_MAX,
                         (uint64_t)INT64_MIN,
                         UINT64_MAX,
                         float_bits(1.5f),
                         bits(-2.25),
                         (uintptr_t) "text",
                         bits(1e300),
                         float_bits(-0.125f),
                         127,
                         1,
                         (uint64_t)-1};
    quoit_event event = op_must(&pump, op_call(&pump, (uintptr_t)weigh, QUOIT_TYPE_I64, 16, types, args), 0);
    CHECK_EQ((int64_t)event.value, -4711);
    pump_close(&pump);
}

static int8_t give_i8(void) {
    return -5;
}

static uint8_t give_u8(void) {
    return 250;
}

static int16_t give_i16(void) {
    return -300;
}

static uint16_t give_u16(void) {
    return 65000;
}

static int32_t give_i32(void) {
    return -70000;
}

static uint32_t give_u32(void) {
    return 4000000000u;
}

static float give_float(void) {
    return 0.5f;
}

static const char *give_pointer(void) {
    return "static";
}

static void give_nothing(void) {
}

/* Integers come sign- or zero-extended to the whole word. */
static void every_return_type(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    const struct {
        uintptr_t entry;
        uint32_t type;
        uint64_t value;
    } calls[] = {
        {(uintptr_t)give_i8, QUOIT_TYPE_I8, (uint64_t)-5},
        {(uintptr_t)give_u8, QUOIT_TYPE_U8, 250},
        {(uintptr_t)give_i16, QUOIT_TYPE_I16, (uint64_t)-300},
        {(uintptr_t)give_u16, QUOIT_TYPE_U16, 65000},
        {(uintptr_t)give_i32, QUOIT_TYPE_I32, (uint64_t)-70000},
        {(uintptr_t)give_u32, QUOIT_TYPE_U32, 4000000000u},
        {(uintptr_t)give_float, QUOIT_TYPE_FLOAT, float_bits(0.5f)},
        {(uintptr_t)give_pointer, QUOIT_TYPE_POINTER, (uintptr_t)give_pointer()},
        {(uintptr_t)give_nothing, QUOIT_TYPE_VOID, 0},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        quoit_event event = op_must(&pump, op_call(&pump, calls[i].entry, calls[i].type, 0, NULL, NULL), 0);
        if (event.value != calls[i].value)
            FAIL("return type %u gave %llx", calls[i].type, (unsigned long long)event.value);
    }
    pump_close(&pump);
}

static uint64_t thread_facts(uint64_t owner) {
    sigset_t blocked;
    char name[32], own[32];
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    pthread_getname_np(pthread_self(), name, sizeof name);
    pthread_getname_np((pthread_t)owner, own, sizeof own);
    return (uint64_t)(sigismember(&blocked, SIGINT) == 1) | (uint64_t)(strcmp(name, own) != 0) << 1 |
           (uint64_t)(pthread_self() != (pthread_t)owner) << 2;
}

static void runs_on_a_thread_of_the_pool(void) {
    static const uint8_t types[1] = {QUOIT_TYPE_U64};
    struct pump pump;
    pump_open(&pump, NULL);
    uint64_t self = (uint64_t)pthread_self();
    CHECK_EQ(
        op_must(&pump, op_call(&pump, (uintptr_t)thread_facts, QUOIT_TYPE_U64, 1, types, &self), 0).value, 7);
    pump_close(&pump);
}

/* Calls that block hold no turn up: a thousand echoes go on meanwhile. */
static void echoes_go_on(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    int pipes[2];
    char data[100] = "";
    uint64_t calls[4];
    pump_open(&pump, NULL);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    for (int i = 0; i < 4; i++)
        calls[i] = op_wait_for_byte(&pump, pipes[0]);
    serve_echo(&pump, &addr);
    int fd = peer_connect(&addr);
    for (int i = 0; i < 1000; i++) {
        peer_send(&pump, fd, data, sizeof data);
        peer_recv(&pump, fd, data, sizeof data);
    }
    close(fd);
    for (int i = 0; i < 4; i++)
        CHECK(!op_ended(&pump, calls[i]));
    CHECK_EQ(write(pipes[1], "xxxx", 4), 4);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(op_must(&pump, calls[i], 0).value, 7);
    close(pipes[0]);
    close(pipes[1]);
    pump_close(&pump);
}

static int ended_calls(struct pump *pump, const uint64_t *calls, int n) {
    int ended = 0;
    for (int i = 0; i < n; i++)
        ended += op_ended(pump, calls[i]);
    return ended;
}

static void full_queue(void) {
    quoit_runtime_options options = {.struct_size = sizeof options, .pool_threads = 1, .pool_queue = 4};
    quoit_runtime *runtime = runtime_open(&options);
    struct pump pump;
    int pipes[2];
    uint64_t calls[12];
    pump_open_in(&pump, runtime, NULL);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    for (int i = 0; i < 12; i++)
        calls[i] = op_wait_for_byte(&pump, pipes[0]);
    /* One runs and four wait at most; which of the twelve depends on when the thread comes. */
    PUMP_UNTIL(&pump, ended_calls(&pump, calls, 12) >= 7);
    int refused = ended_calls(&pump, calls, 12);
    for (int i = 0; i < 12; i++)
        CHECK(!op_ended(&pump, calls[i]) || op_record(&pump, calls[i])->last.result == -EAGAIN);
    for (int i = 0; i < 12 - refused; i++)
        CHECK_EQ(write(pipes[1], "x", 1), 1);
    for (int i = 0; i < 12; i++)
        if (!op_ended(&pump, calls[i]))
            op_must(&pump, calls[i], 0);
    close(pipes[0]);
    close(pipes[1]);
    pump_close(&pump);
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
}

static atomic_int done_calls;

static void count_call(void) {
    atomic_fetch_add(&done_calls, 1);
}

/* From one worker first in, first out is not promised; that each runs once is. */
static void many_calls(void) {
    struct pump pump;
    uint64_t calls[1000];
    pump_open(&pump, NULL);
    for (int i = 0; i < 1000; i++)
        calls[i] = op_call(&pump, (uintptr_t)count_call, QUOIT_TYPE_VOID, 0, NULL, NULL);
    for (int i = 0; i < 1000; i++)
        op_must(&pump, calls[i], 0);
    CHECK_EQ(atomic_load(&done_calls), 1000);
    pump_close(&pump);
}

/* A call that runs when the worker stops is waited for; its end is told. */
static void stop_waits_for_running_calls(void) {
    struct pump pump;
    int pipes[2];
    pump_open(&pump, NULL);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    uint64_t call = op_wait_for_byte(&pump, pipes[0]);
    PUMP_POLL(&pump, waits_begun() == 1);
    CHECK_EQ(quoit_stop(pump.handle), QUOIT_OK);
    for (int i = 0; i < 5; i++) {
        pump_turn(&pump, 1000000);
        CHECK(!op_ended(&pump, call) && !(pump.batch->flags & QUOIT_BATCH_DRAINED));
    }
    CHECK_EQ(write(pipes[1], "x", 1), 1);
    pump_close(&pump);
    close(pipes[0]);
    close(pipes[1]);
}

static const struct test_case cases[] = {
    {"pow_of_libm", pow_of_libm},
    {"crc32_of_zlib", crc32_of_zlib},
    {"symbols", symbols},
    {"every_argument_type", every_argument_type},
    {"every_return_type", every_return_type},
    {"runs_on_a_thread_of_the_pool", runs_on_a_thread_of_the_pool},
    {"echoes_go_on", echoes_go_on},
    {"full_queue", full_queue},
    {"many_calls", many_calls},
    {"stop_waits_for_running_calls", stop_waits_for_running_calls},
};
TEST_GROUP(offload, cases);
