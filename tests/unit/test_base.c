/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The small containers of runtime/base: slab, blocks, list, and reading of sized structs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/blocks.h"
#include "base/list.h"
#include "base/options.h"
#include "base/slab.h"

#include <stdlib.h>
#include <string.h>

#define MANY 1000

static void slab_items(void **state) {
    (void)state;
    qt_slab slab;
    static uint8_t *items[MANY];
    enum { SIZE = 24, ROOM = 32 };
    qt_slab_init(&slab, SIZE, 7);
    for (int i = 0; i < MANY; i++) {
        items[i] = qt_slab_alloc(&slab);
        assert_non_null(items[i]);
        assert_int_equal((uintptr_t)items[i] % 16, 0);
        for (int byte = 0; byte < SIZE; byte++)
            assert_int_equal(items[i][byte], 0);
        memset(items[i], i % 255 + 1, ROOM); /* the rounded size is the item's */
    }
    assert_int_equal(slab.live, MANY);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(items[i][0], i % 255 + 1); /* none lies in another */
        assert_int_equal(items[i][ROOM - 1], i % 255 + 1);
    }
    for (int i = 0; i < MANY; i += 2)
        qt_slab_free(&slab, items[i]);
    assert_int_equal(slab.live, MANY / 2);
    for (int i = MANY - 2; i >= 0; i -= 2) { /* last in, first out, and zeroed again */
        uint8_t *again = qt_slab_alloc(&slab);
        assert_ptr_equal(again, items[i]);
        assert_int_equal(again[0] | again[SIZE - 1], 0);
    }
    assert_int_equal(items[1][0], 2);
    qt_slab_destroy(&slab);
    assert_int_equal(slab.live, 0);
    assert_null(slab.chunks);
}

static void blocks_of_all_sizes(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 255, 256, 257, 511, 512, 513, 4096, 65535, 65536, 65537, 1 << 20};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    qt_blocks blocks = {0};
    void *taken[COUNT];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) {
            taken[i] = qt_block_alloc(&blocks, sizes[i]);
            assert_non_null(taken[i]);
            memset(taken[i], i, sizes[i]); /* all of it may be written */
        }
        for (int i = 0; i < COUNT; i++)
            qt_block_free(&blocks, taken[i], sizes[i]);
    }
    qt_blocks_destroy(&blocks);
}

static void blocks_are_used_again(void **state) {
    (void)state;
    qt_blocks blocks = {0};
    void *block = qt_block_alloc(&blocks, 300);
    qt_block_free(&blocks, block, 300);
    assert_ptr_equal(qt_block_alloc(&blocks, 512), block); /* of the same class */
    void *other = qt_block_alloc(&blocks, 400);
    assert_ptr_not_equal(other, block);
    qt_block_free(&blocks, block, 512);
    qt_block_free(&blocks, other, 400);
    qt_blocks_destroy(&blocks);
}

/* After a burst only so much is kept. */
static void blocks_go_back(void **state) {
    (void)state;
    qt_blocks blocks = {0};
    static void *taken[64];
    for (int i = 0; i < 64; i++)
        taken[i] = qt_block_alloc(&blocks, 65536);
    for (int i = 0; i < 64; i++)
        qt_block_free(&blocks, taken[i], 65536);
    assert_int_equal(blocks.free_counts[QT_BLOCK_CLASSES - 1], 16); /* 1 MiB */
    qt_blocks_destroy(&blocks);
    for (int class = 0; class < QT_BLOCK_CLASSES; class ++)
        assert_null(blocks.free_heads[class]);
}

struct entry {
    int number;
    qt_link link;
};

static int numbers(const qt_link *head) {
    int value = 0;
    for (const qt_link *at = head->next; at != head; at = at->next) {
        assert_ptr_equal(at->next->prev, at);
        value = value * 10 + qt_container(at, struct entry, link)->number;
    }
    return value;
}

static void lists(void **state) {
    (void)state;
    qt_link a;
    qt_link b;
    struct entry entries[5];
    qt_list_init(&a);
    qt_list_init(&b);
    assert_true(qt_list_empty(&a));
    qt_list_splice(&a, &b);
    assert_true(qt_list_empty(&a));
    for (int i = 0; i < 5; i++) {
        entries[i].number = i + 1;
        qt_list_append(i < 3 ? &a : &b, &entries[i].link);
    }
    assert_int_equal(numbers(&a), 123);
    assert_int_equal(numbers(&b), 45);
    qt_list_remove(&entries[1].link);
    assert_true(qt_list_empty(&entries[1].link));
    qt_list_remove(&entries[1].link); /* one that is in no list */
    assert_int_equal(numbers(&a), 13);
    qt_list_splice(&a, &b);
    assert_int_equal(numbers(&a), 1345);
    assert_true(qt_list_empty(&b));
    qt_list_splice(&b, &a);
    assert_int_equal(numbers(&b), 1345);
    assert_true(qt_list_empty(&a));
}

struct sized {
    uint32_t struct_size;
    uint32_t first;
    uint64_t later;
};

#define V1 8u

static void sized_structs(void **state) {
    (void)state;
    static struct sized out;
    static struct {
        struct sized known;
        uint8_t tail[16];
    } given;
    given.known.first = 7;
    given.known.later = 9;
    given.known.struct_size = sizeof(struct sized);
    assert_int_equal(qt_options_read(&out, sizeof out, V1, &given), 0);
    assert_true(out.first == 7 && out.later == 9);
    given.known.struct_size = V1; /* shorter: the rest is zero, whatever stands there */
    assert_int_equal(qt_options_read(&out, sizeof out, V1, &given), 0);
    assert_true(out.first == 7 && out.later == 0);
    given.known.struct_size = sizeof given; /* longer: only with a tail of zeros */
    assert_int_equal(qt_options_read(&out, sizeof out, V1, &given), 0);
    assert_true(out.first == 7 && out.later == 9);
    given.tail[15] = 1;
    assert_int_equal(qt_options_read(&out, sizeof out, V1, &given), QT_STRUCT_SIZE_BAD);
    given.known.struct_size = sizeof given - 1; /* what stands behind it is not read */
    assert_int_equal(qt_options_read(&out, sizeof out, V1, &given), 0);
    given.tail[0] = 1;
    assert_int_equal(qt_options_read(&out, sizeof out, V1, &given), QT_STRUCT_SIZE_BAD);
    for (uint32_t size = 0; size < V1; size++) {
        given.known.struct_size = size;
        assert_int_equal(qt_options_read(&out, sizeof out, V1, &given), QT_STRUCT_SIZE_BAD);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slab_items),
        cmocka_unit_test(blocks_of_all_sizes),
        cmocka_unit_test(blocks_are_used_again),
        cmocka_unit_test(blocks_go_back),
        cmocka_unit_test(lists),
        cmocka_unit_test(sized_structs),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
