/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A file server with a line protocol: "GET path\n" is answered with "length\n" and the bytes, or "-1 message\n". Requests may be
 * pipelined; answers keep their order. A file is read in lent blocks and sent from them, one block at a time for each connection.
 * Usage: files HOST:PORT DIRECTORY [--driver D] [--buffers N] [--events N]
 */
#include "service.h"

#define LINE_MAX_ 4096
#define BLOCK (256u << 10)
#define INPUT_MAX (64u << 10)

enum { TAG_DIRECTORY = TAG_FIRST_FREE, TAG_QUIET, TAG_CONNECTION };

typedef struct connection {
    quoit_handle stream;
    quoit_handle file;
    int64_t position;
    int64_t size;
    uint32_t input_len;
    int busy;   /* a request is being answered */
    int ended;  /* the peer will send no more */
    int paused; /* its input waits in the kernel */
    int closed;
    char input[INPUT_MAX];
} connection;

typedef struct file_service {
    service base; /* first */
    quoit_handle directory;
    connection **connections; /* by the low 24 bits of the stream's handle */
    uint32_t capacity;
} file_service;

static connection *connection_of(file_service *s, quoit_handle stream) {
    uint32_t index = stream & 0xFFFFFF;
    if (index >= s->capacity) {
        uint32_t capacity = index + 64;
        s->connections = realloc(s->connections, capacity * sizeof *s->connections);
        memset(s->connections + s->capacity, 0, (capacity - s->capacity) * sizeof *s->connections);
        s->capacity = capacity;
    }
    if (s->connections[index] == NULL) {
        s->connections[index] = calloc(1, sizeof(connection));
        s->connections[index]->stream = stream;
    }
    return s->connections[index];
}

static void say(file_service *s, connection *c, const char *text) {
    ask(&s->base, (quoit_op){.opcode = QUOIT_OP_SEND,
                             .flags = QUOIT_OPF_QUIET,
                             .target = c->stream,
                             .user_data = TAG_QUIET,
                             .addr = (uintptr_t)text,
                             .len = (uint32_t)strlen(text)});
    /* The text may be on our stack: submitting copies it now. */
    quoit_submit(s->base.worker, s->base.batch->nops);
    s->base.batch->nops = 0;
}

static void close_stream(file_service *s, connection *c) {
    if (!c->closed)
        ask(&s->base, (quoit_op){.opcode = QUOIT_OP_CLOSE, .target = c->stream, .user_data = (uintptr_t)c});
    c->closed = 1;
}

static void close_file(file_service *s, connection *c) {
    ask(&s->base,
        (quoit_op){
            .opcode = QUOIT_OP_CLOSE, .flags = QUOIT_OPF_QUIET, .target = c->file, .user_data = TAG_QUIET});
    c->file = 0;
}

static int escapes(const char *path) {
    return path[0] == '/' || strstr(path, "..") != NULL || path[0] == 0;
}

static void next_request(file_service *s, connection *c);

static void refuse(file_service *s, connection *c, const char *why) {
    char text[256];
    snprintf(text, sizeof text, "-1 %s\n", why);
    say(s, c, text);
    c->busy = 0;
}

static void begin(file_service *s, connection *c, char *line) {
    s->base.handler_messages++;
    c->busy = 1;
    if (strncmp(line, "GET ", 4) != 0)
        refuse(s, c, "requests are: GET path");
    else if (escapes(line + 4))
        refuse(s, c, "the path must stay inside the directory");
    else {
        ask(&s->base, (quoit_op){.opcode = QUOIT_OP_OPEN,
                                 .target = s->directory,
                                 .user_data = (uintptr_t)c,
                                 .addr = (uintptr_t)(line + 4),
                                 .len = (uint32_t)strlen(line + 4),
                                 .arg = QUOIT_OPEN_READ});
        quoit_submit(s->base.worker, s->base.batch->nops);
        s->base.batch->nops = 0;
    }
}

static void resume(file_service *s, connection *c) {
    if (!c->paused || c->input_len > INPUT_MAX / 2)
        return;
    c->paused = 0;
    ask(&s->base, (quoit_op){.opcode = QUOIT_OP_RECV_RESUME,
                             .flags = QUOIT_OPF_QUIET,
                             .target = c->stream,
                             .user_data = TAG_QUIET});
}

static void next_request(file_service *s, connection *c) {
    char line[LINE_MAX_];
    while (!c->busy && !c->closed) {
        char *end = memchr(c->input, '\n', c->input_len);
        if (end == NULL)
            break;
        size_t length = (size_t)(end - c->input);
        if (length < sizeof line) {
            memcpy(line, c->input, length);
            line[length] = 0;
        }
        c->input_len -= (uint32_t)length + 1;
        memmove(c->input, end + 1, c->input_len);
        if (length < sizeof line)
            begin(s, c, line);
        else
            refuse(s, c, "the line is too long");
    }
    resume(s, c);
    if (!c->busy && c->ended)
        close_stream(s, c);
}

static void read_block(file_service *s, connection *c) {
    ask(&s->base, (quoit_op){.opcode = QUOIT_OP_READ,
                             .target = c->file,
                             .user_data = (uintptr_t)c,
                             .len = BLOCK,
                             .offset = c->position});
}

static void on_data(file_service *s, const quoit_event *e) {
    connection *c = connection_of(s, e->source);
    uint32_t room = INPUT_MAX - c->input_len;
    if (e->len > room) { /* a line as long as all the input we hold */
        c->ended = 1;
        close_stream(s, c);
    } else {
        memcpy(c->input + c->input_len, (const char *)(uintptr_t)(s->base.batch->recv_base + e->offset),
               e->len);
        c->input_len += e->len;
        s->base.handler_bytes += e->len;
    }
    if (c->input_len > INPUT_MAX / 2 && !c->paused && c->busy) {
        c->paused = 1;
        ask(&s->base, (quoit_op){.opcode = QUOIT_OP_RECV_PAUSE,
                                 .flags = QUOIT_OPF_QUIET,
                                 .target = c->stream,
                                 .user_data = TAG_QUIET});
    }
    if (!(e->flags & QUOIT_EVF_MORE))
        c->ended = 1;
    next_request(s, c);
}

static void on_open(file_service *s, connection *c, const quoit_event *e) {
    char text[32];
    if (c->closed) {
        c->file = e->value;
        if (e->result == 0)
            close_file(s, c);
        return;
    }
    c->file = e->value;
    c->position = 0;
    c->size = e->result < 0 ? e->result : quoit_file_size(s->base.worker, c->file);
    if (c->size < 0) {
        refuse(s, c, quoit_status_message((quoit_status)c->size));
        if (c->file)
            close_file(s, c);
        next_request(s, c);
        return;
    }
    snprintf(text, sizeof text, "%" PRId64 "\n", c->size);
    say(s, c, text);
    read_block(s, c);
}

static void on_read(file_service *s, connection *c, const quoit_event *e) {
    if (e->result > 0 && !c->closed) {
        c->position += e->result;
        ask(&s->base, (quoit_op){.opcode = QUOIT_OP_SEND,
                                 .flags = QUOIT_OPF_ARENA_RECV,
                                 .target = c->stream,
                                 .user_data = (uintptr_t)c,
                                 .addr = e->offset,
                                 .len = e->len,
                                 .arg2 = e->buffer});
        return;
    }
    close_file(s, c);
    if (c->position < c->size) /* the file shrank or failed: the promised length cannot be kept */
        close_stream(s, c);
    c->busy = 0;
    next_request(s, c);
}

static void on_sent(file_service *s, connection *c, const quoit_event *e) {
    if (e->result < 0 || c->closed) {
        close_file(s, c);
        close_stream(s, c);
    } else {
        read_block(s, c);
    }
}

static void on_event(file_service *s, const quoit_event *e) {
    connection *c = (connection *)(uintptr_t)e->user_data;
    switch (e->kind) {
    case QUOIT_OP_RECV:
        on_data(s, e);
        break;
    case QUOIT_OP_OPEN:
        on_open(s, c, e);
        break;
    case QUOIT_OP_READ:
        on_read(s, c, e);
        break;
    case QUOIT_OP_SEND:
        if (e->user_data != TAG_QUIET)
            on_sent(s, c, e);
        break;
    case QUOIT_OP_CLOSE:
        if (e->user_data >= TAG_CONNECTION) {
            s->connections[c->stream & 0xFFFFFF] = NULL;
            free(c);
        }
        break;
    default:
        break;
    }
}

static quoit_status on_batch(void *ctx, quoit_worker *worker, quoit_batch *batch) {
    file_service *s = ctx;
    (void)worker;
    batch->nops = 0;
    for (uint32_t i = 0; i < batch->nevents; i++) {
        const quoit_event *e = &events_of(batch)[i];
        if (e->user_data == TAG_DIRECTORY && e->result < 0)
            die("directory", e->result);
        else if (e->user_data == TAG_DIRECTORY)
            s->directory = e->value,
            service_listen(&s->base); /* nobody is served before there is a directory */
        else if (!common_event(&s->base, e))
            on_event(s, e);
    }
    return 0;
}

int main(int argc, char **argv) {
    file_service s = {0};
    if (argc < 3) {
        fprintf(stderr, "Usage: %s HOST:PORT DIRECTORY [--driver D] [--buffers N] [--events N]\n", argv[0]);
        return 2;
    }
    service_open(&s.base, argc, argv, 3);
    ask(&s.base, (quoit_op){.opcode = QUOIT_OP_OPEN,
                            .user_data = TAG_DIRECTORY,
                            .addr = (uintptr_t)argv[2],
                            .len = (uint32_t)strlen(argv[2]),
                            .arg = QUOIT_OPEN_DIRECTORY});
    int code = service_run(&s.base, on_batch);
    free(s.connections);
    return code;
}
