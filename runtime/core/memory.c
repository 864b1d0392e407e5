/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What an op points at: bytes, addresses. And kernel requests, made and submitted in one place. */
#include "object.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>

quoit_status qt_op_memory(qt_worker *w, const quoit_op *op, uint64_t addr, uint64_t len, const void **out) {
    if (!(op->flags & QUOIT_OPF_ARENA_SEND)) {
        if (addr == 0 && len > 0)
            return QUOIT_E_FIELD;
        *out = (const void *)(uintptr_t)addr;
        return 0;
    }
    const quoit_batch *batch = w->batch;
    if (addr < batch->scratch_off || addr - batch->scratch_off > batch->scratch_len ||
        len > batch->scratch_len - (addr - batch->scratch_off))
        return QUOIT_E_RANGE;
    *out = w->scratch.base + addr;
    return 0;
}

quoit_status qt_addr_to_sockaddr(const quoit_addr *addr, struct sockaddr_storage *out, socklen_t *out_len) {
    memset(out, 0, sizeof *out);
    if (addr->family == QUOIT_FAMILY_V4 && addr->len == 4) {
        struct sockaddr_in *in = (struct sockaddr_in *)out;
        in->sin_family = AF_INET;
        in->sin_port = htons(addr->port);
        memcpy(&in->sin_addr, addr->bytes, 4);
        *out_len = sizeof *in;
        return 0;
    }
    if (addr->family == QUOIT_FAMILY_V6 && addr->len == 16) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(addr->port);
        in6->sin6_flowinfo = htonl(addr->flowinfo);
        in6->sin6_scope_id = addr->scope;
        memcpy(&in6->sin6_addr, addr->bytes, 16);
        *out_len = sizeof *in6;
        return 0;
    }
    if (addr->family == QUOIT_FAMILY_UNIX && addr->len > 0 &&
        addr->len < sizeof((struct sockaddr_un *)0)->sun_path) {
        struct sockaddr_un *un = (struct sockaddr_un *)out;
        un->sun_family = AF_UNIX;
        memcpy(un->sun_path, addr->bytes, addr->len);
        *out_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + addr->len + (addr->bytes[0] != 0));
        return 0;
    }
    return QUOIT_E_FIELD;
}

quoit_status qt_addr_from_sockaddr(const struct sockaddr_storage *from, socklen_t len, quoit_addr *out) {
    memset(out, 0, sizeof *out);
    if (from->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)from;
        out->family = QUOIT_FAMILY_V4;
        out->port = ntohs(in->sin_port);
        out->len = 4;
        memcpy(out->bytes, &in->sin_addr, 4);
        return 0;
    }
    if (from->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)from;
        out->family = QUOIT_FAMILY_V6;
        out->port = ntohs(in6->sin6_port);
        out->flowinfo = ntohl(in6->sin6_flowinfo);
        out->scope = in6->sin6_scope_id;
        out->len = 16;
        memcpy(out->bytes, &in6->sin6_addr, 16);
        return 0;
    }
    if (from->ss_family == AF_UNIX) {
        const struct sockaddr_un *un = (const struct sockaddr_un *)from;
        size_t used =
            len > offsetof(struct sockaddr_un, sun_path) ? len - offsetof(struct sockaddr_un, sun_path) : 0;
        if (used > 0 && un->sun_path[0] != 0)
            used = strnlen(un->sun_path, used);
        out->family = QUOIT_FAMILY_UNIX;
        out->len = (uint32_t)used;
        memcpy(out->bytes, un->sun_path, used);
        return 0;
    }
    return QUOIT_E_UNSUPPORTED;
}

quoit_status qt_op_addr(qt_worker *w, const quoit_op *op, uint64_t addr, uint32_t len,
                        struct sockaddr_storage *out, socklen_t *out_len) {
    const void *memory;
    quoit_addr copy;
    if (len != sizeof copy)
        return QUOIT_E_STRUCT_SIZE;
    quoit_status status = qt_op_memory(w, op, addr, len, &memory);
    if (status != 0)
        return status;
    memcpy(&copy, memory, sizeof copy);
    return qt_addr_to_sockaddr(&copy, out, out_len);
}

qt_req *qt_request(qt_worker *w, uint8_t code, int fd, void *owner, qt_req_fn done) {
    qt_req *req = qt_req_alloc(&w->requests);
    if (req == NULL)
        return NULL;
    req->code = code;
    req->fd = fd;
    req->owner = owner;
    req->done = done;
    req->offset = -1;
    return req;
}

void qt_submit(qt_worker *w, qt_req *req) {
    w->driver->ops->submit(w->driver, req);
    w->submitted++;
}

void qt_cancel_request(qt_worker *w, qt_req *req) {
    if (req->cancelled)
        return;
    w->driver->ops->cancel(w->driver, req);
    w->submitted++;
}
