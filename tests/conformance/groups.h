/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* groups.h: the list of all conformance tests, a group per file, in the order they run. */
#ifndef TEST_GROUPS_H
#define TEST_GROUPS_H

#include "runner.h"

/* clang-format off */
#define ALL_GROUPS(X) \
    X(info) X(options) X(lifecycle) X(run) X(ops_args) X(ops_flags) X(tcp) X(unix_sockets) X(socket_ops) X(adopt) X(adopt_datagrams) X(fds) X(order) X(matrix) X(queued) \
    X(datagrams) X(datagrams_bind) X(datagrams_send) X(datagrams_unix) X(datagrams_udp) X(seqpacket) X(seqpacket_ops) X(credentials) \
    X(recv_ops) X(send_ops) X(zerocopy) X(splices) X(splice_ends) X(arenas) X(close_ops) X(cancel_ops) X(races) X(timeouts) X(timers) \
    X(post) X(channels) X(channel_ends) X(channel_threads) X(move) X(move_ends) X(move_threads) X(poll_ops) X(poll_multi) X(offload) X(files) X(buffers) X(handles) X(fork_ops) X(threads) X(fd) \
    X(clocks) X(clock_jumps) X(overflow) X(limits) X(admission) X(drain) X(regressions)
/* clang-format on */

#define DECLARE_GROUP(name) extern const struct test_group group_##name;
ALL_GROUPS(DECLARE_GROUP)
#undef DECLARE_GROUP

#endif
