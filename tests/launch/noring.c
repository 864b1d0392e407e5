/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * noring: runs a program in a process whose io_uring calls fail with a given errno, as container profiles (EPERM) and
 * old kernels (ENOSYS) do. Usage: noring EPERM|ENOSYS|NUMBER PROGRAM [ARGUMENT...]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#elif defined(__i386__)
#define OUR_ARCH AUDIT_ARCH_I386
#else
#error "name the audit number of this architecture here"
#endif

static int refuse_rings(unsigned number) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_enter, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_register, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (number & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* The filter is only worth something if the call does fail with that number. */
static int is_refused(unsigned number) {
    return syscall(SYS_io_uring_setup, 0, NULL) == -1 && errno == (int)number;
}

int main(int argc, char **argv) {
    unsigned number = 0;
    if (argc > 2)
        number = !strcmp(argv[1], "EPERM")    ? EPERM
                 : !strcmp(argv[1], "ENOSYS") ? ENOSYS
                                              : (unsigned)atoi(argv[1]);
    if (!number || number > 4095) {
        fprintf(stderr, "usage: noring EPERM|ENOSYS|NUMBER PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    if (refuse_rings(number)) {
        perror("noring: seccomp");
        return 126;
    }
    if (!is_refused(number)) {
        fprintf(stderr, "noring: io_uring_setup does not fail with %u\n", number);
        return 126;
    }
    execvp(argv[2], argv + 2);
    fprintf(stderr, "noring: %s: %s\n", argv[2], strerror(errno));
    return 127;
}
