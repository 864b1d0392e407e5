/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A million timers of one worker, on all three clocks: armed, taken back one by one, each told once; nothing is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <quoit/quoit.h>
#include <stdlib.h>
#include <string.h>

#define MANY 1000000u
#define STEP 7919u /* prime: every one once, none beside the one before */
#define HOUR (INT64_C(3600) * 1000000000)

struct rig {
    quoit_worker *worker;
    quoit_batch *batch;
    uint32_t nops;
    uint8_t *told;
    uint32_t ended;
};

static void give(struct rig *rig) {
    assert_int_equal(quoit_submit(rig->worker, rig->nops), (int)rig->nops);
    rig->nops = 0;
}

static quoit_op *new_op(struct rig *rig, uint32_t opcode) {
    if (rig->nops == rig->batch->ops_max)
        give(rig);
    quoit_op *op = (quoit_op *)(uintptr_t)rig->batch->ops + rig->nops++;
    memset(op, 0, sizeof *op);
    op->opcode = opcode;
    return op;
}

static uint64_t count_of(struct rig *rig, size_t at) {
    quoit_stats stats = {.struct_size = sizeof stats};
    uint64_t value;
    assert_int_equal(quoit_stats_read(rig->batch->worker, &stats), 0);
    memcpy(&value, (const char *)&stats + at, sizeof value);
    return value;
}

static void take(struct rig *rig, int n) {
    assert_true(n >= 0);
    for (int i = 0; i < n; i++) {
        const quoit_event *event = (const quoit_event *)(uintptr_t)rig->batch->events + i;
        uint64_t number = event->user_data - 1;
        if (event->kind != QUOIT_OP_TIMER || event->result != -ECANCELED || number >= MANY ||
            rig->told[number]++)
            fail_msg("event %u of %llu: %lld", event->kind, (unsigned long long)event->user_data,
                     (long long)event->result);
    }
    rig->ended += (uint32_t)n;
}

static void armed_and_taken_back(void **state) {
    quoit_runtime_options options = {.struct_size = sizeof options, .driver = (uint32_t)(uintptr_t)*state};
    quoit_runtime *runtime = NULL;
    struct rig rig = {.told = calloc(MANY, 1)};
    if (quoit_runtime_create(&options, &runtime) == QUOIT_E_DRIVER) {
        free(rig.told);
        print_message("skipped: this driver cannot be had here\n");
        skip();
    }
    assert_int_equal(quoit_worker_create(runtime, NULL, &rig.worker), 0);
    rig.batch = quoit_worker_batch(rig.worker);
    take(&rig, quoit_turn_nb(rig.worker, 0));
    int64_t base[3];
    for (uint32_t clock = 0; clock < 3; clock++)
        base[clock] = quoit_now(clock) + HOUR;
    for (uint32_t i = 0; i < MANY; i++) {
        quoit_op *op = new_op(&rig, QUOIT_OP_TIMER);
        op->flags = QUOIT_OPF_ABS;
        op->user_data = i + 1;
        op->arg = i % 3;
        op->offset = base[i % 3] + (int64_t)(i * (uint64_t)STEP % MANY) * 1000000;
    }
    give(&rig);
    take(&rig, quoit_turn_nb(rig.worker, 0));
    assert_int_equal(count_of(&rig, offsetof(quoit_stats, objects_live)), MANY);
    assert_int_equal(rig.ended, 0);
    assert_true(rig.batch->next_ns > 0);
    for (uint32_t i = 0; i < MANY; i++) {
        quoit_op *op = new_op(&rig, QUOIT_OP_CANCEL);
        op->flags = QUOIT_OPF_QUIET;
        op->arg = QUOIT_OP_TIMER;
        op->arg2 = i * (uint64_t)STEP % MANY + 1;
    }
    give(&rig);
    while (rig.ended < MANY)
        take(&rig, quoit_turn_nb(rig.worker, 0));
    take(&rig, quoit_turn_nb(rig.worker, 0));
    assert_int_equal(rig.ended, MANY);
    assert_int_equal(count_of(&rig, offsetof(quoit_stats, objects_live)), 0);
    assert_int_equal(count_of(&rig, offsetof(quoit_stats, ops_live)), 0);
    assert_int_equal(rig.batch->next_ns, -1);
    assert_int_equal(quoit_runtime_destroy(runtime), 0);
    free(rig.told);
}

#define ON(name, driver)                                                                                     \
    { "armed_and_taken_back (" name ")", armed_and_taken_back, NULL, NULL, (void *)(uintptr_t)(driver) }

int main(void) {
    const struct CMUnitTest tests[] = {ON("uring", QUOIT_DRIVER_URING), ON("epoll", QUOIT_DRIVER_EPOLL)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
