/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Gives mutations of live handles to every op and call, and checks that each is refused in words. Usage: handles TRIES SEED
 * Prints one JSON object. A mutation is: generation + 1 or - 1, another type, another worker, a freed slot's handle, a flipped bit.
 */
#include <quoit/quoit.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIVE_MAX 16
#define FREED_MAX 64
#define PER_TURN 64

static uint64_t state;
static quoit_runtime *runtime;
static quoit_worker *worker;
static quoit_worker *other;
static quoit_batch *batch;
static quoit_handle live[LIVE_MAX];
static uint32_t live_count;
static quoit_handle freed[FREED_MAX];
static uint32_t freed_count;
static uint64_t by_status[32]; /* of -20001 - status */
static uint64_t other_errors;
static uint64_t not_refused;

static uint64_t random_word(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void die(const char *what, int64_t status) {
    fprintf(stderr, "handles: %s: %s\n", what, quoit_status_name((quoit_status)status));
    exit(1);
}

static quoit_op *op_at(uint32_t i) {
    return (quoit_op *)(uintptr_t)batch->ops + i;
}

static const quoit_event *event_at(uint32_t i) {
    return (const quoit_event *)(uintptr_t)batch->events + i;
}

/* One op, until an event of its kind comes; that event. */
static quoit_event ask(quoit_op op) {
    uint32_t nops = 1;
    *op_at(0) = op;
    for (int tries = 0; tries < 1000; tries++) {
        quoit_status n = quoit_turn(worker, nops, 100000000);
        nops = 0;
        if (n < 0)
            die("turn", n);
        for (int32_t i = 0; i < n; i++)
            if (event_at((uint32_t)i)->kind == op.opcode)
                return *event_at((uint32_t)i);
    }
    die("an op that ends", -ETIMEDOUT);
    exit(1);
}

static quoit_handle object_of(quoit_op op) {
    quoit_event event = ask(op);
    if (event.result < 0)
        die("set-up", event.result);
    return event.value;
}

static void connect_a_peer(uint32_t port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0 || send(fd, "quoit", 5, 0) != 5)
        die("peer", -errno);
}

/* One live object of each type, two of streams, a kept buffer, and some that have ended. */
static void set_up(void) {
    quoit_addr addr;
    if (quoit_runtime_create(NULL, &runtime) < 0 || quoit_worker_create(runtime, NULL, &worker) < 0 ||
        quoit_worker_create(runtime, NULL, &other) < 0 || quoit_addr_parse("127.0.0.1:0", 11, &addr) < 0)
        die("runtime", QUOIT_E_CLOSED);
    batch = quoit_worker_batch(worker);
    quoit_event listening =
        ask((quoit_op){.opcode = QUOIT_OP_LISTEN, .addr = (uintptr_t)&addr, .len = sizeof addr});
    live[live_count++] = listening.value;
    for (int i = 0; i < 2; i++) {
        connect_a_peer(listening.aux);
        live[live_count++] = object_of((quoit_op){.opcode = QUOIT_OP_ACCEPT, .target = listening.value});
    }
    quoit_event got = ask((quoit_op){.opcode = QUOIT_OP_RECV, .flags = QUOIT_OPF_KEEP, .target = live[1]});
    live[live_count++] = got.buffer;
    live[live_count++] = object_of((quoit_op){.opcode = QUOIT_OP_OPEN,
                                              .addr = (uintptr_t) "/dev/null",
                                              .len = 9,
                                              .arg = QUOIT_OPEN_READ | QUOIT_OPEN_WRITE});
    live[live_count++] = object_of(
        (quoit_op){.opcode = QUOIT_OP_OPEN, .addr = (uintptr_t) "/", .len = 1, .arg = QUOIT_OPEN_DIRECTORY});
    live[live_count++] = object_of(
        (quoit_op){.opcode = QUOIT_OP_TIMER, .flags = QUOIT_OPF_ARMED, .offset = (int64_t)3600 * 1000000000});
    live[live_count++] =
        object_of((quoit_op){.opcode = QUOIT_OP_BIND, .addr = (uintptr_t)&addr, .len = sizeof addr});
    live[live_count++] = quoit_worker_handle(worker);
    live[live_count++] = quoit_worker_handle(other);
    for (freed_count = 0; freed_count < FREED_MAX; freed_count++) {
        quoit_handle file = object_of((quoit_op){
            .opcode = QUOIT_OP_OPEN, .addr = (uintptr_t) "/dev/null", .len = 9, .arg = QUOIT_OPEN_READ});
        ask((quoit_op){.opcode = QUOIT_OP_CLOSE, .target = file});
        freed[freed_count] = file;
    }
}

static int is_live(quoit_handle handle) {
    for (uint32_t i = 0; i < live_count; i++)
        if (live[i] == handle)
            return 1;
    return 0;
}

static quoit_handle mutation(void) {
    quoit_handle handle;
    do {
        uint64_t word = random_word();
        handle = live[word % live_count];
        switch ((word >> 8) % 6) {
        case 0:
            handle += (quoit_handle)1 << 24;
            break;
        case 1:
            handle -= (quoit_handle)1 << 24;
            break;
        case 2:
            handle = (handle & ~((quoit_handle)0x7F << 56)) | ((word >> 16) & 0x7F) << 56;
            break;
        case 3:
            handle = (handle & ~((quoit_handle)0xFF << 48)) | ((word >> 16) & 0xFF) << 48;
            break;
        case 4:
            handle = freed[(word >> 16) % freed_count];
            break;
        default:
            handle ^= (quoit_handle)1 << ((word >> 16) % 64);
            break;
        }
    } while (is_live(handle) || handle == 0);
    return handle;
}

/* An op that would succeed on a live target of the right type. */
static quoit_op make_op(quoit_handle handle) {
    static const uint32_t opcodes[] = {
        QUOIT_OP_ACCEPT, QUOIT_OP_RECV,     QUOIT_OP_RECV_PAUSE, QUOIT_OP_RECV_RESUME, QUOIT_OP_SEND,
        QUOIT_OP_SENDV,  QUOIT_OP_SHUTDOWN, QUOIT_OP_CLOSE,      QUOIT_OP_CANCEL,      QUOIT_OP_TIMER,
        QUOIT_OP_POST,   QUOIT_OP_OPEN,     QUOIT_OP_READ,       QUOIT_OP_WRITE,       QUOIT_OP_FSYNC,
        QUOIT_OP_KEEP,   QUOIT_OP_RELEASE,  QUOIT_OP_RECVMSG,    QUOIT_OP_SENDMSG};
    static const quoit_iov slice = {0, 0, 0};
    static const quoit_addr nowhere = {
        .family = QUOIT_FAMILY_V4, .port = 9, .len = 4, .bytes = {127, 0, 0, 1}};
    uint64_t word = random_word();
    quoit_op op = {.opcode = opcodes[word % (sizeof opcodes / sizeof opcodes[0])], .target = handle};
    switch (op.opcode) {
    case QUOIT_OP_SEND:
    case QUOIT_OP_WRITE:
        op.addr = (uintptr_t) "x", op.len = 1;
        if ((word >> 32) & 1) { /* the mutated handle names the payload's buffer instead */
            op.target = op.opcode == QUOIT_OP_SEND ? live[2] : live[4];
            op.flags = QUOIT_OPF_ARENA_RECV, op.addr = 0, op.arg2 = handle;
        }
        break;
    case QUOIT_OP_SENDMSG:
        op.arg2 = (uintptr_t)&nowhere;
        break;
    case QUOIT_OP_SENDV:
        op.addr = (uintptr_t)&slice, op.len = 1, op.flags = QUOIT_OPF_IOV;
        break;
    case QUOIT_OP_SHUTDOWN:
        op.arg = QUOIT_SHUTDOWN_SEND;
        break;
    case QUOIT_OP_OPEN:
        op.addr = (uintptr_t) "tmp", op.len = 3, op.arg = QUOIT_OPEN_DIRECTORY;
        break;
    case QUOIT_OP_READ:
        op.len = 16;
        break;
    default:
        break;
    }
    return op;
}

static void judge(int64_t status) {
    int64_t index = -20001 - status;
    if (status >= 0)
        not_refused++;
    else if (index >= 0 && index < 32)
        by_status[index]++;
    else
        other_errors++;
}

static void try_calls(quoit_handle handle) {
    quoit_addr addr;
    quoit_stats stats = {.struct_size = sizeof stats};
    quoit_op nop = {.opcode = QUOIT_OP_NOP};
    switch (random_word() % 6) {
    case 0:
        judge(quoit_peer_addr(worker, handle, &addr));
        break;
    case 1:
        judge(quoit_local_addr(worker, handle, &addr));
        break;
    case 2:
        judge(quoit_file_size(worker, handle));
        break;
    case 3:
        judge(quoit_stats_read(handle, &stats));
        break;
    case 4:
        judge(quoit_post(handle, &nop, 1));
        break;
    default:
        judge(quoit_stop(handle));
        break;
    }
}

static uint64_t try_ops(void) {
    for (uint32_t i = 0; i < PER_TURN; i++) {
        *op_at(i) = make_op(mutation());
        op_at(i)->user_data = 1000 + i;
    }
    quoit_status n = quoit_turn(worker, PER_TURN, 0);
    uint64_t told = 0;
    for (int32_t i = 0; i < n; i++) {
        if (event_at((uint32_t)i)->user_data >= 1000) {
            judge(event_at((uint32_t)i)->result);
            told++;
        }
    }
    if (told != PER_TURN)
        die("one event for each op", (int64_t)told - PER_TURN);
    return told;
}

int main(int argc, char **argv) {
    uint64_t tries = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
    state = (argc > 2 ? strtoull(argv[2], NULL, 10) : 1) * 0x9E3779B97F4A7C15u | 1;
    set_up();
    uint64_t done = 0;
    while (done < tries) {
        done += try_ops();
        for (int i = 0; i < 16; i++, done++)
            try_calls(mutation());
    }
    /* What is live still works: nothing was ended by a handle that was not its own. */
    ask((quoit_op){.opcode = QUOIT_OP_CLOSE, .target = live[2]});
    printf("{\"language\":\"c\",\"driver_ran\":%d,\"tries\":%llu,\"not_refused\":%llu,\"other_errors\":%llu",
           quoit_runtime_driver(runtime), (unsigned long long)done, (unsigned long long)not_refused,
           (unsigned long long)other_errors);
    for (int i = 0; i < 32; i++)
        if (by_status[i])
            printf(",\"%s\":%llu", quoit_status_name(-20001 - i), (unsigned long long)by_status[i]);
    printf("}\n");
    quoit_runtime_destroy(runtime);
    return not_refused != 0;
}
