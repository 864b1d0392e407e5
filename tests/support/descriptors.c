/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "descriptors.h"
#include "check.h"

#include <dirent.h>
#include <string.h>

uint64_t op_send_fd(struct pump *pump, quoit_handle socket, int fd, const char *text) {
    quoit_op *op = op_new(pump, QUOIT_OP_SEND_FD, socket);
    op->offset = fd;
    op->addr = (uintptr_t)text;
    op->len = (uint32_t)strlen(text);
    return op->user_data;
}

uint64_t op_recv_fd(struct pump *pump, quoit_handle socket, uint32_t most) {
    quoit_op *op = op_new(pump, QUOIT_OP_RECV_FD, socket);
    op->len = most;
    return op->user_data;
}

const int32_t *fd_words(const struct pump *pump, const quoit_event *event) {
    return (const int32_t *)(uintptr_t)(pump->batch->recv_base + event->value);
}

int open_fds(void) {
    DIR *list = opendir("/proc/self/fd");
    int count = 0;
    CHECK(list != NULL);
    while (readdir(list))
        count++;
    closedir(list);
    return count;
}
