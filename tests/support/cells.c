/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "cells.h"

#include "check.h"
#include "runner.h"
#include "track.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An op is looked for among so many of the newest when a cancel or a close names its object. */
#define LOOK_BACK 256
#define CELLS_MAX 512

enum { ASKED_CANCEL_BEFORE = 1, ASKED_CANCEL = 2, ASKED_CLOSE = 4 };

/* All pumps of a test share them, on whichever thread each runs: a test is a process. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cell {
    uint32_t opcode;
    int32_t status;
    const char *how;
} cells[CELLS_MAX];
static uint32_t count;

static bool noted(uint32_t opcode, const char *how, int32_t status) {
    for (uint32_t i = 0; i < count; i++)
        if (cells[i].opcode == opcode && cells[i].status == status && !strcmp(cells[i].how, how))
            return true;
    return false;
}

static void note(uint32_t opcode, const char *how, int32_t status) {
    pthread_mutex_lock(&lock);
    if (!noted(opcode, how, status)) {
        CHECK(count < CELLS_MAX);
        cells[count++] = (struct cell){opcode, status, how};
    }
    pthread_mutex_unlock(&lock);
}

/* The object that the op works on: its target, or the one that it made and told of (timers, MULTI polls). */
static bool works_on(const struct op_record *record, quoit_handle object) {
    bool own = record->opcode == QUOIT_OP_TIMER || record->opcode == QUOIT_OP_POLL;
    return record->target ? record->target == object : own && record->last.value == object;
}

static void ask(struct op_record *record, const struct op_record *asker, uint32_t how) {
    if (!record->taken || record == asker)
        return;
    if (record->ended)
        record->asked_late = true;
    else
        record->asked |= how == ASKED_CANCEL && record->given == asker->given ? ASKED_CANCEL_BEFORE : how;
}

static void ask_object(struct pump *pump, const quoit_op *op, struct op_record *asker, uint32_t how) {
    uint32_t first = pump->count > LOOK_BACK ? pump->count - LOOK_BACK : 0;
    for (uint32_t i = first; i < pump->count; i++) {
        struct op_record *record = &pump->records[i];
        if (works_on(record, op->target) && (how == ASKED_CLOSE || !op->arg || op->arg == record->opcode) &&
            (!op->arg2 || op->arg2 == (TRACK_ID | i)))
            ask(record, asker, how);
    }
}

void cells_given(struct pump *pump, const quoit_op *op) {
    struct op_record *asker = op_record(pump, op->user_data);
    if (op->opcode == QUOIT_OP_CLOSE)
        ask_object(pump, op, asker, ASKED_CLOSE);
    if (op->opcode != QUOIT_OP_CANCEL)
        return;
    if (op->target)
        ask_object(pump, op, asker, ASKED_CANCEL);
    else if (op_record(pump, op->arg2) && op_record(pump, op->arg2)->opcode == op->arg)
        ask(op_record(pump, op->arg2), asker, ASKED_CANCEL);
}

/* A cancel that found nothing, of an op that had ended well: it came after. */
static void cancel_ended(struct pump *pump, const struct op_record *cancel) {
    if (cancel->last.result != -ENOENT && cancel->last.result != QUOIT_E_STALE)
        return;
    uint32_t first = pump->count > LOOK_BACK ? pump->count - LOOK_BACK : 0;
    for (uint32_t i = first; i < pump->count; i++)
        if (pump->records[i].asked_late && pump->records[i].last.result >= 0)
            note(pump->records[i].opcode, "cancel after", 0);
}

void cells_ended(struct pump *pump, struct op_record *record) {
    int64_t result = record->last.result;
    if (result >= 0 || record->last.flags & QUOIT_EVF_MESSAGE) {
        note(record->opcode, "success", 0);
        if (record->asked & (ASKED_CANCEL | ASKED_CANCEL_BEFORE))
            note(record->opcode, "cancel after", 0);
        if (record->limited)
            note(record->opcode, "deadline kept", 0);
    } else if (result == -ECANCELED && record->asked & ASKED_CLOSE) {
        note(record->opcode, "close in flight", 0);
    } else if (result == -ECANCELED && record->asked) {
        note(record->opcode, record->asked & ASKED_CANCEL ? "cancel during" : "cancel before", 0);
    } else if (result == -ETIMEDOUT && record->limited) {
        note(record->opcode, "deadline", 0);
    } else {
        note(record->opcode, "error", (int32_t)result);
    }
    if (record->opcode == QUOIT_OP_CANCEL)
        cancel_ended(pump, record);
}

void cells_write(const struct pump *pump) {
    const char *path = getenv("QUOIT_TEST_CELLS");
    char line[256];
    if (!path)
        return;
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    const char *driver = driver_text((uint32_t)quoit_runtime_driver(pump->runtime));
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count; i++) {
        int len = snprintf(line, sizeof line, "%s %s %u %s%s%s\n", test_name(), driver, cells[i].opcode,
                           cells[i].how, cells[i].status ? " " : "",
                           cells[i].status ? quoit_status_name(cells[i].status) : "");
        CHECK_EQ(write(fd, line, (size_t)len), len);
    }
    count = 0;
    pthread_mutex_unlock(&lock);
    close(fd);
}
