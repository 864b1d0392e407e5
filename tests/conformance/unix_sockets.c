/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* unix_sockets.c: streams in the file system and in the abstract space. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static quoit_addr own_addr(const char *form) {
    char path[100];
    snprintf(path, sizeof path, form, (int)getpid());
    return addr_unix(path);
}

static void echo_over(quoit_addr addr) {
    struct pump pump;
    quoit_addr seen;
    pump_open(&pump, NULL);
    quoit_handle listener = serve_echo(&pump, &addr);
    CHECK_EQ(quoit_local_addr(pump.worker, listener, &seen), QUOIT_OK);
    CHECK(!memcmp(&seen, &addr, sizeof seen));
    int fd = peer_connect(&addr);
    for (size_t at = 0; at < 1 << 20; at += 32768) {
        peer_send_pattern(&pump, fd, 5, at, 32768);
        peer_recv_pattern(&pump, fd, 5, at, 32768);
    }
    CHECK_EQ(shutdown(fd, SHUT_WR), 0);
    peer_expect_end(&pump, fd);
    close(fd);
    pump_close(&pump);
}

static void echo_at_a_path(void) {
    quoit_addr addr = own_addr("/tmp/quoit-test-%d.sock");
    echo_over(addr);
    unlink((char *)addr.bytes);
}

static void echo_abstract(void) {
    echo_over(own_addr("@quoit-test-%d"));
}

/* A name may hold any bytes, and all 107 of them. */
static void echo_abstract_odd_name(void) {
    quoit_addr addr = own_addr("@quoit-test-%d-odd");
    addr.bytes[addr.len++] = 0;
    addr.bytes[addr.len++] = 0xFF;
    addr.bytes[addr.len++] = '\n';
    echo_over(addr);
    addr.len = 107;
    echo_over(addr);
}

static void old_socket_file(void) {
    struct pump pump;
    quoit_addr addr = own_addr("/tmp/quoit-test-%d-old.sock");
    quoit_listen_options options = {.struct_size = sizeof options, .flags = QUOIT_LISTEN_UNLINK};
    const char *path = (char *)addr.bytes;
    struct stat found;
    pump_open(&pump, NULL);
    quoit_handle listener = listen_on(&pump, &addr);
    op_must(&pump, op_close(&pump, listener, 0), 0);
    CHECK_EQ(stat(path, &found), 0); /* closing leaves the file, as close(2) does */
    quoit_op *op = op_new(&pump, QUOIT_OP_LISTEN, 0);
    op->addr = (uintptr_t)&addr;
    op->len = sizeof addr;
    op_must(&pump, op->user_data, -EADDRINUSE);
    op = op_new(&pump, QUOIT_OP_LISTEN, 0);
    op->addr = (uintptr_t)&addr;
    op->len = sizeof addr;
    op->arg2 = (uintptr_t)&options;
    op_must(&pump, op->user_data, 0);
    unlink(path);
    /* Only a socket is removed, never another file. */
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fclose(file);
    op = op_new(&pump, QUOIT_OP_LISTEN, 0);
    op->addr = (uintptr_t)&addr;
    op->len = sizeof addr;
    op->arg2 = (uintptr_t)&options;
    op_must(&pump, op->user_data, -EADDRINUSE);
    CHECK_EQ(unlink(path), 0);
    pump_close(&pump);
}

static void connect_out(void) {
    struct pump pump;
    quoit_addr addr = own_addr("@quoit-test-%d-out"), missing = own_addr("/tmp/quoit-test-%d-missing.sock");
    pump_open(&pump, NULL);
    int listener = peer_listen(&addr, 8);
    quoit_op *op = op_new(&pump, QUOIT_OP_CONNECT, 0);
    op->addr = (uintptr_t)&addr;
    op->len = sizeof addr;
    quoit_handle stream = op_must(&pump, op->user_data, 0).value;
    int fd = peer_accept(&pump, listener);
    op_must(&pump, op_send(&pump, stream, "hello", 5, 0), 5);
    char text[5];
    peer_recv(&pump, fd, text, 5);
    op = op_new(&pump, QUOIT_OP_CONNECT, 0);
    op->addr = (uintptr_t)&missing;
    op->len = sizeof missing;
    op_must(&pump, op->user_data, -ENOENT);
    close(fd);
    close(listener);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"echo_at_a_path", echo_at_a_path},
    {"echo_abstract", echo_abstract},
    {"echo_abstract_odd_name", echo_abstract_odd_name},
    {"old_socket_file", old_socket_file},
    {"connect_out", connect_out},
};
TEST_GROUP(unix_sockets, cases);
