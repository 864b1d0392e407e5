/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Echo client of the demo: one thread, non-blocking sockets, every byte verified. Prints one JSON object.
 *   client PORT CONNECTIONS SECONDS ROUNDS SIZE[,SIZE...] [busy] [rcvbuf=N] [chunk=N]
 * Each connection sends a message, waits for all of its echo, then sends the next size in turn; a round is all sizes once.
 * Ends after ROUNDS rounds (0: none) or SECONDS. chunk: most bytes a read takes. busy: never sleeps, and where io_uring is to be had and
 * messages are small drives all connections by one call a round, so that the server is what is measured.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <liburing.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <netinet/tcp.h>

#define PATTERN 65521u
#define SIZES_MAX 32
#define BUCKETS 4096
#define READ_MAX (256u << 10)
#define DRAIN_NS 60000000000

typedef struct peer {
    int fd;
    uint32_t shift; /* where in the pattern this connection begins */
    uint64_t sent;  /* all bytes */
    uint64_t got;
    uint64_t target; /* end of the message in flight */
    uint64_t begun_ns;
    uint32_t size_at;
    uint32_t rounds;
    uint32_t events;
    int done;
} peer;

static uint8_t pattern[PATTERN + READ_MAX];
static uint32_t sizes[SIZES_MAX];
static uint32_t size_count;
static uint64_t latency[BUCKETS]; /* logarithmic: 64 buckets an octave of ns / 64 */
static uint64_t messages;
static uint64_t mismatches;
static uint32_t chunk = READ_MAX;
static int poller;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fail(const char *what) {
    fprintf(stderr, "client: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint32_t bucket_of(uint64_t ns) {
    uint64_t v = ns / 64 + 64;
    uint32_t octave = (uint32_t)(63 - __builtin_clzll(v));
    uint32_t b = (octave - 6) * 64 + (uint32_t)((v >> (octave - 6)) & 63);
    return b < BUCKETS ? b : BUCKETS - 1;
}

static double bucket_us(uint32_t b) {
    uint64_t v = (uint64_t)(64 + b % 64) << (b / 64);
    return (double)(v - 64) * 64 / 1000.0;
}

static double percentile(double share) {
    uint64_t wanted = (uint64_t)(share * (double)messages);
    uint64_t seen = 0;
    for (uint32_t b = 0; b < BUCKETS; b++) {
        seen += latency[b];
        if (seen > wanted)
            return bucket_us(b);
    }
    return 0;
}

static const uint8_t *expected(const peer *p, uint64_t at) {
    return pattern + (p->shift + at) % PATTERN;
}

static void watch(peer *p, uint32_t events) {
    struct epoll_event e = {.events = events, .data.ptr = p};
    if (p->events != events && epoll_ctl(poller, p->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, p->fd, &e) != 0)
        fail("epoll_ctl");
    p->events = events;
}

static void push(peer *p) {
    while (p->sent < p->target) {
        uint64_t left = p->target - p->sent;
        ssize_t n =
            send(p->fd, expected(p, p->sent), left < READ_MAX ? left : READ_MAX, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            fail("send");
        p->sent += (uint64_t)n;
    }
    watch(p, p->sent < p->target ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void next_message(peer *p, uint32_t rounds, int over) {
    if (over || (rounds && p->rounds == rounds)) {
        p->done = 1;
        return;
    }
    p->target += sizes[p->size_at];
    p->begun_ns = now_ns();
    if (++p->size_at == size_count) {
        p->size_at = 0;
        p->rounds++;
    }
    push(p);
}

/* Reads what is there; true when the message in flight has come back whole. */
static int pull(peer *p) {
    static uint8_t buffer[READ_MAX];
    ssize_t n = recv(p->fd, buffer, chunk, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0 || p->got + (uint64_t)n > p->sent) {
        errno = n == 0 ? EPIPE : errno;
        fail(n <= 0 ? "recv" : "more came back than was sent");
    }
    if (memcmp(buffer, expected(p, p->got), (size_t)n) != 0)
        mismatches++;
    p->got += (uint64_t)n;
    return p->got == p->target;
}

static void open_peer(peer *p, uint16_t port, uint32_t index, int receive_buffer) {
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    p->shift = index * 7919u % PATTERN;
    if (p->fd < 0)
        fail("socket");
    if (receive_buffer &&
        setsockopt(p->fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer) != 0)
        fail("SO_RCVBUF");
    if (connect(p->fd, (struct sockaddr *)&to, sizeof to) != 0)
        fail("connect");
    setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* Serves every connection until all have done their rounds or the time is over and what is in flight has come back. */
static void run(peer *peers, uint32_t count, uint64_t seconds, uint32_t rounds, int busy) {
    struct epoll_event ready[256];
    uint64_t end = now_ns() + seconds * 1000000000u;
    uint32_t open = count;
    for (uint32_t i = 0; i < count; i++)
        next_message(&peers[i], rounds, 0);
    while (open > 0) {
        int n = epoll_wait(poller, ready, 256, busy ? 0 : 1000);
        uint64_t now = now_ns();
        if (now > end + DRAIN_NS) {
            errno = ETIMEDOUT;
            fail("the echo of what was sent");
        }
        for (int i = 0; i < n; i++) {
            peer *p = ready[i].data.ptr;
            if (ready[i].events & EPOLLOUT)
                push(p);
            if (!(ready[i].events & ~(uint32_t)EPOLLOUT) || !pull(p))
                continue;
            latency[bucket_of(now_ns() - p->begun_ns)]++;
            messages++;
            next_message(p, rounds, now >= end);
            open -= (uint32_t)p->done;
        }
    }
}

/* The same for small messages of one size, over a ring with multishot receives. */
#define SMALL 4096u
#define RING_BUFFERS 1024u

typedef struct ring_client {
    struct io_uring ring;
    struct io_uring_buf_ring *buffers;
    uint8_t *memory;
} ring_client;

static void give_buffer(ring_client *c, uint32_t bid, int at) {
    io_uring_buf_ring_add(c->buffers, c->memory + (size_t)bid * SMALL, SMALL, (unsigned short)bid,
                          RING_BUFFERS - 1, at);
}

static void ring_receive(ring_client *c, peer *p) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&c->ring);
    io_uring_prep_recv_multishot(sqe, p->fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    io_uring_sqe_set_data(sqe, p);
}

static void ring_message(ring_client *c, peer *p) {
    p->target += sizes[0];
    p->begun_ns = now_ns();
    struct io_uring_sqe *sqe = io_uring_get_sqe(&c->ring);
    io_uring_prep_send(sqe, p->fd, expected(p, p->sent), sizes[0], MSG_WAITALL | MSG_NOSIGNAL);
    io_uring_sqe_set_data(sqe, NULL);
    p->sent += sizes[0];
}

static int ring_open(ring_client *c) {
    unsigned flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    if (io_uring_queue_init(4096, &c->ring, flags) != 0)
        return 0;
    c->memory = malloc((size_t)RING_BUFFERS * SMALL);
    if (posix_memalign((void **)&c->buffers, 4096, RING_BUFFERS * sizeof(struct io_uring_buf)) != 0 ||
        c->memory == NULL)
        fail("memory");
    struct io_uring_buf_reg reg = {.ring_addr = (uint64_t)(uintptr_t)c->buffers,
                                   .ring_entries = RING_BUFFERS};
    io_uring_buf_ring_init(c->buffers);
    if (io_uring_register_buf_ring(&c->ring, &reg, 0) != 0)
        return 0;
    for (uint32_t bid = 0; bid < RING_BUFFERS; bid++)
        give_buffer(c, bid, (int)bid);
    io_uring_buf_ring_advance(c->buffers, RING_BUFFERS);
    return 1;
}

/* What a receive brought. True when the message in flight has come back whole. */
static int ring_answer(ring_client *c, peer *p, const struct io_uring_cqe *cqe) {
    if (cqe->res <= 0 && cqe->res != -ENOBUFS) {
        errno = cqe->res < 0 ? -cqe->res : EPIPE;
        fail("recv");
    }
    if (!(cqe->flags & IORING_CQE_F_MORE))
        ring_receive(c, p);
    if (cqe->res <= 0)
        return 0;
    uint32_t bid = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
    if (memcmp(c->memory + (size_t)bid * SMALL, expected(p, p->got), (size_t)cqe->res) != 0)
        mismatches++;
    p->got += (uint64_t)cqe->res;
    give_buffer(c, bid, 0);
    io_uring_buf_ring_advance(c->buffers, 1);
    return p->got == p->target;
}

/* False if there is no ring here, or the messages are not small and of one size. */
static int run_ring(peer *peers, uint32_t count, uint64_t seconds) {
    ring_client c;
    if (size_count != 1 || sizes[0] > SMALL || count > 1024 || !ring_open(&c))
        return 0;
    uint64_t end = now_ns() + seconds * 1000000000u;
    uint32_t open = count;
    for (uint32_t i = 0; i < count; i++) {
        ring_receive(&c, &peers[i]);
        ring_message(&c, &peers[i]);
    }
    while (open > 0) {
        struct io_uring_cqe *cqes[256];
        io_uring_submit_and_get_events(&c.ring);
        unsigned n = io_uring_peek_batch_cqe(&c.ring, cqes, 256);
        uint64_t now = now_ns();
        for (unsigned i = 0; i < n; i++) {
            peer *p = io_uring_cqe_get_data(cqes[i]);
            if (p == NULL && cqes[i]->res != (int32_t)sizes[0])
                fail("send");
            if (p == NULL || !ring_answer(&c, p, cqes[i]))
                continue;
            latency[bucket_of(now - p->begun_ns)]++;
            messages++;
            if (now < end)
                ring_message(&c, p);
            else
                open--;
        }
        io_uring_cq_advance(&c.ring, n);
    }
    io_uring_queue_exit(&c.ring);
    free(c.memory);
    free(c.buffers);
    return 1;
}

int main(int argc, char **argv) {
    int busy = 0;
    int receive_buffer = 0;
    if (argc < 6) {
        fprintf(stderr,
                "Usage: client PORT CONNECTIONS SECONDS ROUNDS SIZE[,SIZE...] [busy] [rcvbuf=N] [chunk=N]\n");
        return 2;
    }
    uint32_t count = (uint32_t)atoi(argv[2]);
    for (char *size = strtok(argv[5], ","); size != NULL && size_count < SIZES_MAX; size = strtok(NULL, ","))
        sizes[size_count++] = (uint32_t)strtoul(size, NULL, 10);
    for (int i = 6; i < argc; i++) {
        busy |= strcmp(argv[i], "busy") == 0;
        if (strncmp(argv[i], "rcvbuf=", 7) == 0)
            receive_buffer = atoi(argv[i] + 7);
        if (strncmp(argv[i], "chunk=", 6) == 0)
            chunk = (uint32_t)atoi(argv[i] + 6);
    }
    uint64_t seed = 88172645463325252u;
    for (uint32_t i = 0; i < PATTERN; i++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        pattern[i] = (uint8_t)seed;
    }
    for (uint32_t i = 0; i < READ_MAX; i++)
        pattern[PATTERN + i] = pattern[i % PATTERN];
    poller = epoll_create1(EPOLL_CLOEXEC);
    peer *peers = calloc(count, sizeof *peers);
    for (uint32_t i = 0; i < count; i++)
        open_peer(&peers[i], (uint16_t)atoi(argv[1]), i, receive_buffer);
    uint64_t from = now_ns();
    uint64_t seconds = (uint64_t)atoi(argv[3]);
    uint32_t rounds = (uint32_t)atoi(argv[4]);
    if (!busy || rounds || !run_ring(peers, count, seconds))
        run(peers, count, seconds, rounds, busy);
    double took = (double)(now_ns() - from) / 1e9;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += peers[i].got, close(peers[i].fd);
    printf("{\"messages\":%llu,\"bytes\":%llu,\"mismatches\":%llu,\"seconds\":%.4f,\"p50_us\":%.1f,\"p99_"
           "us\":%.1f}\n",
           (unsigned long long)messages, (unsigned long long)bytes, (unsigned long long)mismatches, took,
           percentile(0.5), percentile(0.99));
    free(peers);
    return mismatches != 0;
}
