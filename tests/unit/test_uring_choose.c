/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which driver is chosen and why, under filters and limits of a child's own; and what the system's files say, from made-up ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "driver/driver.h"
#include "sys/clock.h"
#include "sys/cpus.h"
#include "sys/ring_trial.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <quoit/probe.h>
#include <quoit/runtime.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint32_t uring_drivers[] = {QUOIT_DRIVER_URING_DEFER, QUOIT_DRIVER_URING_COOP,
                                         QUOIT_DRIVER_URING_PLAIN};

/* What a child chose under conditions of its own. */
struct choice {
    int driver;
    int64_t took_ns;
    char reason[512];
};

static int refuse(uint32_t number, int error) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int no_setup_eperm(void) {
    return refuse(__NR_io_uring_setup, EPERM);
}

static int no_setup_enosys(void) {
    return refuse(__NR_io_uring_setup, ENOSYS);
}

static int no_setup_einval(void) {
    return refuse(__NR_io_uring_setup, EINVAL);
}

static int no_enter(void) {
    return refuse(__NR_io_uring_enter, EPERM);
}

static int no_register(void) {
    return refuse(__NR_io_uring_register, EPERM);
}

static int no_descriptors(void) {
    struct rlimit limit = {3, 3};
    close_range(3, ~0u, 0);
    return setrlimit(RLIMIT_NOFILE, &limit);
}

static int no_memory(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    struct rlimit limit = {0, 0};
    if (syscall(SYS_capget, &header, data) != 0)
        return -1;
    data[0].effective &= ~(1u << CAP_IPC_LOCK);
    data[0].permitted &= ~(1u << CAP_IPC_LOCK);
    return syscall(SYS_capset, &header, data) != 0 || setrlimit(RLIMIT_MEMLOCK, &limit) != 0;
}

static struct choice choose_under(int (*condition)(void), uint32_t wanted) {
    struct choice choice = {0};
    int fds[2];
    int status;
    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int out = dup2(fds[1], 2);
        if (condition != NULL && condition() != 0)
            _exit(1);
        int64_t from = qt_now_ns();
        choice.driver = qt_driver_choose(wanted, choice.reason, sizeof choice.reason);
        choice.took_ns = qt_now_ns() - from;
        _exit(write(out, &choice, sizeof choice) != sizeof choice);
    }
    assert_int_equal(read(fds[0], &choice, sizeof choice), sizeof choice);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(fds[0]);
    close(fds[1]);
    print_message("    %s\n", choice.reason);
    return choice;
}

static void says(const struct choice *choice, const char *words) {
    if (strstr(choice->reason, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", choice->reason, words);
}

static void best_is_chosen(void **state) {
    (void)state;
    struct choice choice = choose_under(NULL, QUOIT_DRIVER_AUTO);
    assert_int_equal(choice.driver, QUOIT_DRIVER_URING_DEFER);
    says(&choice, "uring-defer works");
    choice = choose_under(NULL, QUOIT_DRIVER_URING);
    assert_int_equal(choice.driver, QUOIT_DRIVER_URING_DEFER);
}

static void forced_is_that_one(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(choose_under(NULL, uring_drivers[i]).driver, uring_drivers[i]);
    struct choice choice = choose_under(NULL, QUOIT_DRIVER_EPOLL);
    assert_int_equal(choice.driver, QUOIT_DRIVER_EPOLL);
    says(&choice, "epoll was asked for");
}

static void refused_by_a_filter(void **state) {
    static const struct {
        int (*condition)(void);
        const char *words[2];
    } cases[] = {{no_setup_eperm, {"io_uring_setup gave EPERM", "seccomp"}},
                 {no_setup_enosys, {"io_uring_setup gave ENOSYS", "seccomp"}},
                 {no_enter, {"EPERM", "seccomp"}},
                 {no_register, {"EPERM", "seccomp"}},
                 {no_setup_einval, {"io_uring_setup gave EINVAL", "Use Linux"}}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct choice choice = choose_under(cases[i].condition, QUOIT_DRIVER_AUTO);
        assert_int_equal(choice.driver, QUOIT_DRIVER_EPOLL);
        says(&choice, cases[i].words[0]);
        says(&choice, cases[i].words[1]);
        says(&choice, "epoll is used");
        /* Never a silent other one. */
        assert_int_equal(choose_under(cases[i].condition, QUOIT_DRIVER_URING).driver, QUOIT_E_DRIVER);
        assert_int_equal(choose_under(cases[i].condition, uring_drivers[i % 3]).driver, QUOIT_E_DRIVER);
        assert_int_equal(choose_under(cases[i].condition, QUOIT_DRIVER_EPOLL).driver, QUOIT_DRIVER_EPOLL);
    }
}

static void refused_by_limits(void **state) {
    (void)state;
    assert_int_equal(choose_under(no_descriptors, QUOIT_DRIVER_AUTO).driver, -EMFILE);
    assert_int_equal(choose_under(no_descriptors, QUOIT_DRIVER_URING_PLAIN).driver, -EMFILE);
    assert_int_equal(choose_under(no_descriptors, QUOIT_DRIVER_EPOLL).driver, -EMFILE);
    struct choice choice = choose_under(no_memory, QUOIT_DRIVER_AUTO);
    if (choice.driver != QUOIT_DRIVER_EPOLL) {
        print_message("skipped: this kernel does not charge rings to RLIMIT_MEMLOCK\n");
        skip();
    }
    says(&choice, "ENOMEM");
    says(&choice, "memlock limit is 0 bytes");
    assert_true(choice.took_ns < 500000000); /* waiting cannot help here */
    assert_int_equal(choose_under(no_memory, QUOIT_DRIVER_URING_COOP).driver, QUOIT_E_DRIVER);
}

/* A short buffer gets a short sentence, whole with its end. */
static void reason_is_cut(void **state) {
    (void)state;
    char reason[12];
    memset(reason, 'x', sizeof reason);
    assert_int_equal(qt_driver_choose(QUOIT_DRIVER_EPOLL, reason, 8), QUOIT_DRIVER_EPOLL);
    assert_string_equal(reason, "epoll w");
    assert_int_equal(reason[8], 'x');
}

/* Each refusal says what to change. */
static void explanations(void **state) {
    static const struct {
        enum qt_trial_step step;
        int error;
        int uring_disabled;
        int seccomp;
        const char *reason;
        const char *fix;
    } cases[] = {
        {QT_TRIAL_SETUP, -EPERM, 2, 0, "kernel.io_uring_disabled is 2", "kernel.io_uring_disabled=0"},
        {QT_TRIAL_SETUP, -EPERM, 1, 0, "kernel.io_uring_disabled is 1", "kernel.io_uring_group"},
        {QT_TRIAL_SETUP, -EPERM, 0, 2, "seccomp filter", "seccomp profile"},
        {QT_TRIAL_SETUP, -EPERM, -1, 0, "security policy", "allow io_uring"},
        {QT_TRIAL_SETUP, -ENOSYS, -1, 0, "has no io_uring", "CONFIG_IO_URING"},
        {QT_TRIAL_SETUP, -EMFILE, 0, 0, "file descriptor", "ulimit -n"},
        {QT_TRIAL_SETUP, -ENOMEM, 0, 0, "4096 bytes for all", "ulimit -l"},
        {QT_TRIAL_SETUP, -EOPNOTSUPP, 0, 0, "waits with a timeout", "Linux"},
        {QT_TRIAL_BUFFERS, -EINVAL, 0, 0, "buffer ring gave EINVAL", "Linux 5.19"},
        {QT_TRIAL_RECV, -EINVAL, 0, 0, "multishot receive gave EINVAL", "Linux 6.0"},
        {QT_TRIAL_RECV, -1234, 0, 0, "error 1234", "Linux 6.0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char reason[256];
        char fix[256];
        qt_limits limits = {
            .memlock = 4096, .uring_disabled = cases[i].uring_disabled, .seccomp = cases[i].seccomp};
        qt_trial_explain_step(cases[i].step, cases[i].error, 0, &limits, reason, sizeof reason, fix,
                              sizeof fix);
        if (strstr(reason, cases[i].reason) == NULL || strstr(fix, cases[i].fix) == NULL)
            fail_msg("case %zu: \"%s\" \"%s\"", i, reason, fix);
    }
}

/* A tree that stands for / */

static char root[] = "/tmp/quoit-root-XXXXXX";

static void put(const char *path, const char *text) {
    char full[256];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')) != NULL; *at++ = '/') {
        *at = '\0';
        mkdir(full, 0700);
    }
    FILE *file = fopen(full, "we");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int make_root(void **state) {
    (void)state;
    strcpy(root, "/tmp/quoit-root-XXXXXX");
    return mkdtemp(root) == NULL;
}

static int remove_root(void **state) {
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static void quota_none(void **state) {
    (void)state;
    assert_int_equal(qt_cpus_quota_milli(root), -1);
    put("proc/self/cgroup", "0::/\n");
    put("sys/fs/cgroup/cpu.max", "max 100000\n");
    assert_int_equal(qt_cpus_quota_milli(root), -1);
    assert_int_equal(qt_cpus_usable(root), qt_cpus_affinity());
    put("proc/self/cgroup", "nonsense\n0::/a/b");
    assert_int_equal(qt_cpus_quota_milli(root), -1);
}

static void quota_v2(void **state) {
    (void)state;
    put("proc/self/cgroup", "0::/outer/inner\n");
    put("sys/fs/cgroup/outer/inner/cpu.max", "250000 100000\n");
    assert_int_equal(qt_cpus_quota_milli(root), 2500);
    put("sys/fs/cgroup/outer/cpu.max", "50000 100000\n"); /* a parent's binds too */
    assert_int_equal(qt_cpus_quota_milli(root), 500);
    assert_int_equal(qt_cpus_usable(root), 1);
    put("sys/fs/cgroup/outer/cpu.max", "max 100000\n");
    assert_int_equal(qt_cpus_quota_milli(root), 2500);
    /* In a container without a cgroup namespace the group's own path is not there: its root is. */
    put("proc/self/cgroup", "0::/docker/0123456789\n");
    put("sys/fs/cgroup/cpu.max", "150000 100000\n");
    assert_int_equal(qt_cpus_quota_milli(root), 1500);
}

static void quota_v1(void **state) {
    (void)state;
    put("proc/self/cgroup", "9:memory:/m\n4:cpuacct,cpu:/job\n1:cpuset:/c\n0::/\n");
    put("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    assert_int_equal(qt_cpus_quota_milli(root), -1);
    put("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "75000\n");
    assert_int_equal(qt_cpus_quota_milli(root), 750);
    /* The mount under its full name only. */
    put("proc/self/cgroup", "4:cpu,cpuacct:/other\n");
    put("sys/fs/cgroup/cpu,cpuacct/other/cpu.cfs_quota_us", "300000\n");
    put("sys/fs/cgroup/cpu,cpuacct/other/cpu.cfs_period_us", "100000\n");
    assert_int_equal(qt_cpus_quota_milli(root), 3000);
    put("proc/self/cgroup", "4:cpuset:/job\n");
    assert_int_equal(qt_cpus_quota_milli(root), -1);
}

static void limits_from_files(void **state) {
    char proc[64];
    qt_limits limits;
    (void)state;
    snprintf(proc, sizeof proc, "%s/proc", root);
    qt_limits_read(proc, &limits);
    assert_int_equal(limits.uring_disabled, -1);
    assert_int_equal(limits.seccomp, -1);
    assert_false(limits.ipc_lock);
    put("proc/self/status", "Name:\tx\nCapEff:\t0000000000004000\nSeccomp:\t2\n");
    put("proc/sys/kernel/io_uring_disabled", "1\n");
    qt_limits_read(proc, &limits);
    assert_int_equal(limits.uring_disabled, 1);
    assert_int_equal(limits.seccomp, 2);
    assert_true(limits.ipc_lock);
    assert_true(limits.nofile > 0 && limits.nofile <= limits.nofile_hard);
}

/* What is charged is what can be read of a ring: two processes, one of which is not charged. */
static void used_memory(void **state) {
    char proc[64];
    char link[160];
    (void)state;
    snprintf(proc, sizeof proc, "%s/proc", root);
    for (int id = 10; id < 12; id++) {
        char path[96];
        snprintf(path, sizeof path, "proc/%d/status", id);
        put(path, id == 10 ? "CapEff:\t0000000000000000\n" : "CapEff:\t000001ffffffffff\n");
        snprintf(path, sizeof path, "proc/%d/fdinfo/5", id);
        put(path, "pos:\t0\nSqMask:\t0xff\nSqHead:\t2\nCqMask:\t0x1ff\n");
        snprintf(path, sizeof path, "proc/%d/fd/3", id);
        put(path, "");
        snprintf(link, sizeof link, "%s/proc/%d/fd/5", root, id);
        assert_int_equal(symlink("anon_inode:[io_uring]", link), 0);
    }
    assert_int_equal(qt_memlock_used(proc), qt_ring_bytes(256, 512, 0));
    assert_int_equal(qt_ring_bytes(256, 512, 0), 28672); /* as measured: 292 of them fill 8 MiB */
    assert_int_equal(qt_ring_bytes(1024, 4096, 0), 139264);
    assert_int_equal(qt_ring_bytes(256, 4096, 256), 90112);
}

static void affinity(void **state) {
    cpu_set_t before;
    cpu_set_t one;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(qt_cpus_affinity(), CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &before))
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(qt_cpus_affinity(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

/* The public probe: names once each, whole texts, a reason always, and a refusal never without a way out. */
static void probe_entries(void **state) {
    quoit_probe_entry entries[64];
    (void)state;
    int count = quoit_probe(NULL, 0);
    assert_true(count > 15 && count <= 64);
    assert_int_equal(quoit_probe(NULL, 1), QUOIT_E_ARGUMENT);
    memset(entries, 0xAA, sizeof entries);
    assert_int_equal(quoit_probe(entries, 3), count); /* no more than asked for are written */
    assert_int_equal(entries[3].state, 0xAAAAAAAA);
    assert_int_equal(quoit_probe(entries, 64), count);
    for (int i = 0; i < count; i++) {
        const quoit_probe_entry *e = &entries[i];
        assert_true(e->state >= QUOIT_PROBE_USED && e->state <= QUOIT_PROBE_FACT);
        assert_true(e->name[0] != '\0' && e->reason[0] != '\0');
        assert_int_equal(e->reason[strlen(e->reason) - 1], '.');
        if (e->state == QUOIT_PROBE_REFUSED)
            assert_true(e->status < 0 && e->fix[0] != '\0');
        for (int j = 0; j < i; j++)
            assert_string_not_equal(entries[j].name, e->name);
    }
    assert_int_equal(quoit_probe_driver(), QUOIT_DRIVER_URING_DEFER);
    setenv("QUOIT_DRIVER", "epoll", 1);
    assert_int_equal(quoit_probe_driver(), QUOIT_DRIVER_EPOLL);
    setenv("QUOIT_DRIVER", "poll", 1);
    assert_int_equal(quoit_probe_driver(), QUOIT_E_DRIVER);
    unsetenv("QUOIT_DRIVER");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_is_chosen),
        cmocka_unit_test(forced_is_that_one),
        cmocka_unit_test(refused_by_a_filter),
        cmocka_unit_test(refused_by_limits),
        cmocka_unit_test(reason_is_cut),
        cmocka_unit_test(explanations),
        cmocka_unit_test_setup_teardown(quota_none, make_root, remove_root),
        cmocka_unit_test_setup_teardown(quota_v2, make_root, remove_root),
        cmocka_unit_test_setup_teardown(quota_v1, make_root, remove_root),
        cmocka_unit_test_setup_teardown(limits_from_files, make_root, remove_root),
        cmocka_unit_test_setup_teardown(used_memory, make_root, remove_root),
        cmocka_unit_test(affinity),
        cmocka_unit_test(probe_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
