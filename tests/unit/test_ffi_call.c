/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Native calls described at run time: each type both ways, what is refused, and functions of libraries opened by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/ffi_call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Each gives its argument back; the narrow ones must arrive cut to their width and come back extended by their sign. */
#define ECHO(name, type)                                                                                     \
    static type echo_##name(type value) {                                                                    \
        return value;                                                                                        \
    }
ECHO(i8, int8_t)
ECHO(u8, uint8_t)
ECHO(i16, int16_t)
ECHO(u16, uint16_t)
ECHO(i32, int32_t)
ECHO(u32, uint32_t)
ECHO(i64, int64_t)
ECHO(u64, uint64_t)
ECHO(float, float)
ECHO(double, double)
ECHO(pointer, void *)

typedef void (*function)(void);

static quoit_call call_of(function entry, uint32_t return_type, uint32_t nargs) {
    return (quoit_call){.struct_size = sizeof(quoit_call),
                        .entry = (uint64_t)(uintptr_t)entry,
                        .return_type = return_type,
                        .nargs = nargs};
}

static uint64_t invoke(function entry, uint32_t return_type, const uint8_t *types, const uint64_t *args,
                       uint32_t nargs) {
    quoit_call call = call_of(entry, return_type, nargs);
    struct qt_ffi_call *made;
    assert_int_equal(qt_ffi_prepare(&call, types, args, &made), 0);
    uint64_t result = qt_ffi_invoke(made);
    qt_ffi_free(made);
    return result;
}

static uint64_t echo(function entry, uint8_t type, uint64_t bits) {
    return invoke(entry, type, &type, &bits, 1);
}

static uint64_t double_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double bits_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void each_type(void **state) {
    (void)state;
    const uint64_t wide = 0x8182838485868788u;
    assert_int_equal(echo((function)echo_i8, QUOIT_TYPE_I8, wide), (uint64_t)(int64_t)-120);
    assert_int_equal(echo((function)echo_i8, QUOIT_TYPE_I8, 127), 127);
    assert_int_equal(echo((function)echo_u8, QUOIT_TYPE_U8, wide), 0x88);
    assert_int_equal(echo((function)echo_i16, QUOIT_TYPE_I16, wide), (uint64_t)(int64_t)(int16_t)0x8788);
    assert_int_equal(echo((function)echo_u16, QUOIT_TYPE_U16, wide), 0x8788);
    assert_int_equal(echo((function)echo_i32, QUOIT_TYPE_I32, wide), (uint64_t)(int64_t)(int32_t)0x85868788u);
    assert_int_equal(echo((function)echo_i32, QUOIT_TYPE_I32, (uint64_t)-1), (uint64_t)-1);
    assert_int_equal(echo((function)echo_u32, QUOIT_TYPE_U32, wide), 0x85868788u);
    assert_int_equal(echo((function)echo_i64, QUOIT_TYPE_I64, wide), wide);
    assert_int_equal(echo((function)echo_u64, QUOIT_TYPE_U64, wide), wide);
    assert_int_equal(echo((function)echo_float, QUOIT_TYPE_FLOAT, 0xFFFFFFFF3FC00000u),
                     0x3FC00000u); /* 1.5 */
    assert_int_equal(echo((function)echo_double, QUOIT_TYPE_DOUBLE, double_bits(-2.25)), double_bits(-2.25));
    assert_int_equal(echo((function)echo_pointer, QUOIT_TYPE_POINTER, (uint64_t)(uintptr_t)&state),
                     (uint64_t)(uintptr_t)&state);
}

static unsigned calls;

static void note_call(void) {
    calls++;
}

static void nothing_in_nothing_out(void **state) {
    (void)state;
    calls = 0;
    assert_int_equal(invoke(note_call, QUOIT_TYPE_VOID, NULL, NULL, 0), 0);
    assert_int_equal(calls, 1);
}

/* More arguments than registers of either kind, all of different weight. */
static double mix(int8_t a, double b, uint16_t c, float d, int64_t e, void *f, uint32_t g, double h,
                  int16_t i, float j, uint8_t k, int32_t l, double m, uint64_t n, double o, int8_t p) {
    return a + 2 * b + 3 * c + 4 * (double)d + 5 * (double)e + 6 * (double)(uintptr_t)f + 7 * (double)g +
           8 * h + 9 * i + 10 * (double)j + 11 * k + 12 * l + 13 * m + 14 * (double)n + 15 * o + 16 * p;
}

static void all_arguments(void **state) {
    (void)state;
    static const uint8_t types[QUOIT_CALL_ARGS_MAX] = {
        QUOIT_TYPE_I8,     QUOIT_TYPE_DOUBLE,  QUOIT_TYPE_U16,    QUOIT_TYPE_FLOAT,
        QUOIT_TYPE_I64,    QUOIT_TYPE_POINTER, QUOIT_TYPE_U32,    QUOIT_TYPE_DOUBLE,
        QUOIT_TYPE_I16,    QUOIT_TYPE_FLOAT,   QUOIT_TYPE_U8,     QUOIT_TYPE_I32,
        QUOIT_TYPE_DOUBLE, QUOIT_TYPE_U64,     QUOIT_TYPE_DOUBLE, QUOIT_TYPE_I8};
    uint64_t args[QUOIT_CALL_ARGS_MAX] = {(uint64_t)-3,
                                          double_bits(1.5),
                                          50000,
                                          0x40200000u,
                                          (uint64_t)-1000000,
                                          4096,
                                          4000000000u,
                                          double_bits(0.5),
                                          (uint64_t)-9,
                                          0x3F800000u,
                                          200,
                                          (uint64_t)-70000,
                                          double_bits(-8),
                                          1u << 30,
                                          double_bits(7),
                                          (uint64_t)-128};
    double want = mix(-3, 1.5, 50000, 2.5f, -1000000, (void *)(uintptr_t)4096, 4000000000u, 0.5, -9, 1.0f,
                      200, -70000, -8, 1u << 30, 7, -128);
    uint64_t got = invoke((function)mix, QUOIT_TYPE_DOUBLE, types, args, QUOIT_CALL_ARGS_MAX);
    assert_int_equal(got, double_bits(want));
}

static double divide(double a, double b) {
    return a / b;
}

/* The description may go as soon as it was read, and the call may be made again. */
static void all_is_copied(void **state) {
    (void)state;
    uint8_t types[2] = {QUOIT_TYPE_DOUBLE, QUOIT_TYPE_DOUBLE};
    uint64_t args[2] = {double_bits(2), double_bits(8)};
    quoit_call call = call_of((function)divide, QUOIT_TYPE_DOUBLE, 2);
    struct qt_ffi_call *made;
    assert_int_equal(qt_ffi_prepare(&call, types, args, &made), 0);
    memset(types, 0xFF, sizeof types);
    memset(args, 0xFF, sizeof args);
    memset(&call, 0xFF, sizeof call);
    assert_int_equal(qt_ffi_invoke(made), double_bits(0.25));
    assert_int_equal(qt_ffi_invoke(made), double_bits(0.25));
    qt_ffi_free(made);
}

static void refused(quoit_call call, uint8_t type, uint32_t nargs) {
    uint8_t types[64];
    uint64_t args[64] = {0};
    struct qt_ffi_call *made = NULL;
    call.nargs = nargs;
    for (uint32_t place = 0; place == 0 || place < nargs; place++) {
        memset(types, QUOIT_TYPE_I32, sizeof types);
        types[place] = type;
        assert_int_equal(qt_ffi_prepare(&call, types, args, &made), QUOIT_E_FIELD);
        assert_null(made);
    }
}

static void bad_descriptions(void **state) {
    (void)state;
    quoit_call good = call_of(note_call, QUOIT_TYPE_VOID, 0);
    quoit_call bad_return = call_of(note_call, QUOIT_TYPE_POINTER + 1, 0);
    refused(good, QUOIT_TYPE_VOID, 1);
    refused(good, QUOIT_TYPE_POINTER + 1, 3);
    refused(good, 255, QUOIT_CALL_ARGS_MAX);
    refused(good, QUOIT_TYPE_I32, QUOIT_CALL_ARGS_MAX + 1);
    refused(good, QUOIT_TYPE_I32, 64);
    refused(bad_return, QUOIT_TYPE_I32, 0);
    bad_return.return_type = UINT32_MAX;
    refused(bad_return, QUOIT_TYPE_I32, 1);
}

static void functions_by_name(void **state) {
    (void)state;
    uint64_t address = 1;
    static const uint8_t doubles[] = {QUOIT_TYPE_DOUBLE, QUOIT_TYPE_DOUBLE};
    static const uint8_t crc_types[] = {QUOIT_TYPE_U64, QUOIT_TYPE_POINTER, QUOIT_TYPE_U32};
    static const char text[] = "123456789";
    assert_int_equal(quoit_symbol("libm.so.6", "pow", &address), 0);
    uint64_t args[] = {double_bits(2), double_bits(0.5), 0};
    uint64_t bits = invoke((function)(uintptr_t)address, QUOIT_TYPE_DOUBLE, doubles, args, 2);
    assert_true(bits_double(bits) > 1.41421356237 && bits_double(bits) < 1.41421356238);
    assert_int_equal(quoit_symbol("libz.so.1", "crc32", &address), 0);
    args[0] = 0;
    args[1] = (uint64_t)(uintptr_t)text;
    args[2] = 9;
    assert_int_equal(invoke((function)(uintptr_t)address, QUOIT_TYPE_U64, crc_types, args, 3), 0xCBF43926u);
    assert_int_equal(quoit_symbol(NULL, "malloc", &address), 0); /* of the process itself */
    assert_int_not_equal(address, 0);
}

static void symbols_that_are_not_there(void **state) {
    (void)state;
    uint64_t address = 1;
    assert_int_equal(quoit_symbol("libz.so.1", "no_such_function", &address), -ENOENT);
    assert_int_equal(address, 0);
    assert_int_equal(quoit_symbol("libno-such-library.so.1", "pow", &address), -ENOENT);
    assert_int_equal(quoit_symbol("libz.so.1", NULL, &address), QUOIT_E_ARGUMENT);
    assert_int_equal(quoit_symbol("libz.so.1", "crc32", NULL), QUOIT_E_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_type),
        cmocka_unit_test(nothing_in_nothing_out),
        cmocka_unit_test(all_arguments),
        cmocka_unit_test(all_is_copied),
        cmocka_unit_test(bad_descriptions),
        cmocka_unit_test(functions_by_name),
        cmocka_unit_test(symbols_that_are_not_there),
    };
    return cmocka_run_group_tests_name("native calls", tests, NULL, NULL);
}
