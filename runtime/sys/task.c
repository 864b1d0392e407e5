/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "task.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* PF_EXITING of the kernel's include/linux/sched.h: a task that is leaving. Its io_uring requests are cancelled before. */
#define TASK_EXITS 0x4u

/* Joined, but the kernel still has its task for a moment: the flags in its stat (the 7th field after the name) say that it exits. */
static bool is_exiting(pid_t tid) {
    char path[64];
    char text[512];
    unsigned flags = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t len = read(fd, text, sizeof text - 1);
    close(fd);
    if (len <= 0)
        return false;
    text[len] = 0;
    const char *rest = strrchr(text, ')');
    return rest != NULL && sscanf(rest, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1 && flags & TASK_EXITS;
}

bool qt_task_ended(pid_t tid) {
    return is_exiting(tid) || (tgkill(getpid(), tid, 0) != 0 && errno == ESRCH);
}
