/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* descriptors.h: descriptors that travel over Unix sockets, and how many are open. */
#ifndef TEST_DESCRIPTORS_H
#define TEST_DESCRIPTORS_H

#include "pump.h"

/* The descriptor with the bytes of a text. */
uint64_t op_send_fd(struct pump *pump, quoit_handle socket, int fd, const char *text);
/* Takes at most so many bytes with it, 0 any number. */
uint64_t op_recv_fd(struct pump *pump, quoit_handle socket, uint32_t most);
/* Of a RECV_FD's event: the descriptors and who sent them, lent as its bytes are. */
const int32_t *fd_words(const struct pump *pump, const quoit_event *event);

/* Of this process; the count is always too high by the same few. */
int open_fds(void);

#endif
