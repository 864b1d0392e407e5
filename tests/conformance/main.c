/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* quoit-conformance: what every driver and every rung must do, seen through the public headers only. */
#include "groups.h"
#include "leak.h"

#define LIST_GROUP(name) &group_##name,
static const struct test_group *const groups[] = {ALL_GROUPS(LIST_GROUP)};

int main(int argc, char **argv) {
    test_before = leak_watch;
    test_after = leak_check;
    return runner_main(argc, argv, groups, sizeof groups / sizeof *groups);
}
