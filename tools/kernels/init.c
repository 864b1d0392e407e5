/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The first process of a guest: mounts what the tests need, brings loopback up, runs /command, says how it ended, powers off. */
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define WORDS 32

_Noreturn static void over(const char *what, int status) {
    printf("\nquoit-guest: %s %d\n", what, status);
    fflush(stdout);
    tcdrain(STDOUT_FILENO);
    for (;;)
        reboot(RB_POWER_OFF);
}

static void mount_on(const char *type, const char *path) {
    mkdir(path, 0755);
    if (mount(type, path, type, 0, NULL) != 0)
        printf("quoit-guest: no %s on %s\n", type, path);
}

static void loopback_up(void) {
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo) != 0)
        over("loopback", 1);
    close(fd);
}

/* /command: one word a line. */
static void run_command(void) {
    static char text[4096];
    char *words[WORDS + 1] = {0};
    int fd = open("/command", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (length <= 0)
        _exit(127);
    unsigned n = 0;
    for (char *word = strtok(text, "\n"); word != NULL && n < WORDS; word = strtok(NULL, "\n"))
        words[n++] = word;
    setsid();
    if (chdir("/tmp") != 0)
        _exit(126);
    execv(words[0], words);
    _exit(127);
}

int main(void) {
    mount_on("devtmpfs", "/dev");
    int console = open("/dev/console", O_RDWR);
    for (int fd = 0; console >= 0 && fd < 3; fd++)
        dup2(console, fd);
    if (console > 2)
        close(console);
    mount_on("proc", "/proc");
    mount_on("sysfs", "/sys");
    mount_on("tmpfs", "/tmp");
    chmod("/tmp", 01777);
    mkdir("/dev/shm", 0755);
    mount_on("tmpfs", "/dev/shm");
    loopback_up();
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){20000, 20000});
    setenv("PATH", "/", 1);
    setenv("HOME", "/tmp", 1);
    setenv("QUOIT_TEST_SETS_CLOCK", "1", 1); /* this machine is there for the tests alone */
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        run_command();
    /* Also what the tests leave behind is this process's to bury. */
    for (pid_t dead = -1; dead != child;)
        dead = wait(&status);
    over("ended", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}
