/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * droplock: runs a program without CAP_IPC_LOCK and with at most so many bytes of locked memory, as a plain user in a
 * container has it. Root needs this to be charged at all. Usage: droplock BYTES PROGRAM [ARGUMENT...]
 *
 * Locked memory is charged per user over all processes: run one such program at a time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Out of the bounding set first, or exec would give a root its capability back. */
static int drop_lock(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data))
        return -1;
    unsigned bit = CAP_TO_MASK(CAP_IPC_LOCK), word = CAP_TO_INDEX(CAP_IPC_LOCK);
    if (!(data[word].permitted & bit))
        return 0; /* a plain user: there is nothing to drop */
    if (prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0) && errno != EPERM)
        return -1;
    data[word].effective &= ~bit;
    data[word].permitted &= ~bit;
    data[word].inheritable &= ~bit;
    return (int)syscall(SYS_capset, &header, data);
}

int main(int argc, char **argv) {
    char *end = NULL;
    if (argc < 3) {
        fprintf(stderr, "usage: droplock BYTES PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    unsigned long bytes = strtoul(argv[1], &end, 10);
    if (*end) {
        fprintf(stderr, "droplock: %s is not a number of bytes\n", argv[1]);
        return 2;
    }
    struct rlimit limit = {.rlim_cur = bytes, .rlim_max = bytes};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) || drop_lock()) {
        perror("droplock");
        return 126;
    }
    execvp(argv[2], argv + 2);
    fprintf(stderr, "droplock: %s: %s\n", argv[2], strerror(errno));
    return 127;
}
