/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The index by key, against a list that is searched from end to end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/index.h"

#include <stdlib.h>

#define MANY 5000

typedef struct item {
    qt_index_node node;
    uint64_t key;
    bool in;
    uint32_t added; /* the how-many-th addition it was */
} item;

static uint64_t random_state;

static uint32_t next_random(uint32_t below) {
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(random_state >> 33) % below;
}

/* Every item with the key, in the order of addition, and no other. */
static void check_key(const qt_index *index, const item *items, uint64_t key) {
    uint32_t expected = 0, found = 0, newest = 0;
    for (uint32_t i = 0; i < MANY; i++)
        expected += items[i].in && items[i].key == key;
    for (qt_index_node *at = qt_index_next(index, key, NULL); at; at = qt_index_next(index, key, at)) {
        const item *it = qt_container(at, item, node);
        assert_true(it->in && it->key == key && it->added > newest);
        newest = it->added;
        found++;
    }
    assert_int_equal(found, expected);
}

static void finds_what_was_added(void **state) {
    qt_index index;
    item *items = calloc(MANY, sizeof *items);
    uint32_t additions = 0, in = 0;
    (void)state;
    random_state = 7;
    assert_non_null(items);
    qt_index_init(&index);
    for (uint32_t step = 0; step < 20 * MANY; step++) {
        item *it = &items[next_random(MANY)];
        if (it->in) {
            qt_index_remove(&index, &it->node);
            in--;
        } else {
            it->key = (uint64_t)next_random(MANY / 3) << 20; /* several items a key, like aligned pointers */
            it->added = ++additions;
            qt_index_add(&index, &it->node, it->key);
            in++;
        }
        it->in = !it->in;
        assert_int_equal(index.count, in);
        if (step % 500 == 0)
            check_key(&index, items, items[next_random(MANY)].key);
    }
    for (uint64_t key = 0; key < MANY / 3; key++)
        check_key(&index, items, key << 20);
    assert_null(qt_index_next(&index, 1, NULL));
    qt_index_destroy(&index);
    free(items);
}

/* Chains stay short: with each key once, no bucket holds more than a few of them. */
static void spreads_keys(void **state) {
    qt_index index;
    item *items = calloc(MANY, sizeof *items);
    uint32_t longest = 0;
    (void)state;
    assert_non_null(items);
    qt_index_init(&index);
    for (uint32_t i = 0; i < MANY; i++)
        qt_index_add(&index, &items[i].node, (uint64_t)i << 12);
    for (uint32_t bucket = 0; bucket <= index.mask; bucket++) {
        uint32_t length = 0;
        for (const qt_link *at = index.buckets[bucket].next; at != &index.buckets[bucket]; at = at->next)
            length++;
        longest = length > longest ? length : longest;
    }
    assert_true(index.mask + 1 >= MANY / 2);
    assert_true(longest <= 8);
    qt_index_destroy(&index);
    free(items);
}

static void removing_what_is_not_in(void **state) {
    qt_index index;
    qt_index_node node = {.key = 1};
    (void)state;
    qt_index_init(&index);
    qt_index_remove(&index, &node);
    qt_index_add(&index, &node, 5);
    qt_index_remove(&index, &node);
    qt_index_remove(&index, &node);
    assert_int_equal(index.count, 0);
    assert_null(qt_index_next(&index, 5, NULL));
    qt_index_destroy(&index);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_was_added),
        cmocka_unit_test(spreads_keys),
        cmocka_unit_test(removing_what_is_not_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
