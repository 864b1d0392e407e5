/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What receiving a datagram adds to recv.c. Every buffer that it lends holds the payload and, in our form, the address that it came
 * from; with packet info the one that it was sent to behind that. In a multishot's buffer they stand before the payload, where the kernel
 * left its own; else at the buffer's end.
 */
#include "object.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define ADDR_SIZE ((uint32_t)sizeof(quoit_addr))
/* With the driver's head the names fill just the place of a quoit_addr. */
#define NAME_SIZE (ADDR_SIZE - QT_PACKET_HEAD)
/* Enough for a packet info of either family and a segment size. */
#define CONTROL_SIZE ADDR_SIZE
#define GRO_SIZE 32u
/* Three words, as whole as what lies around them. */
#define CREDENTIALS_ROOM 16u
/* A receive without a cap brings at least so much, where the pool's buffers are small, and with joined datagrams so much. */
#define CAP_LEAST 1536u
#define CAP_JOINED 65536u

/* Bytes that the control data of a multishot's buffer take. An adopted socket may tell more, before what is read here. */
static uint32_t control_size(const qt_datagram *d) {
    if (d->family == AF_UNIX)
        return (d->sequenced ? QT_MARK_SIZE : 0) + (d->with_credentials ? QT_CREDENTIALS_SIZE : 0);
    uint32_t gro = d->stream.object.adopted ? CONTROL_SIZE : GRO_SIZE;
    return d->options & QUOIT_BIND_PKTINFO ? CONTROL_SIZE : d->options & QUOIT_BIND_GRO ? gro : 0;
}

static uint32_t names_size(const qt_datagram *d) {
    return ADDR_SIZE + (d->options & QUOIT_BIND_PKTINFO ? ADDR_SIZE
                        : d->with_credentials           ? CREDENTIALS_ROOM
                                                        : 0);
}

/* Payload bytes that a pool buffer has room for; 0 where none can serve. */
static uint32_t pool_room(const qt_datagram *d) {
    uint32_t size = d->stream.object.worker->buffers.size;
    uint32_t used = ADDR_SIZE + control_size(d);
    if (used < names_size(d))
        used = names_size(d);
    /* The addresses are structs: they must lie as such. */
    return size % sizeof(uint64_t) == 0 && size > used ? size - used : 0;
}

static uint32_t cap_of(const qt_datagram *d) {
    if (d->stream.recv_cap != 0)
        return d->stream.recv_cap;
    if (d->options & QUOIT_BIND_GRO)
        return CAP_JOINED;
    uint32_t room = pool_room(d);
    return room < CAP_LEAST ? CAP_LEAST : room;
}

void qt_op_recvmsg(qt_worker *w, const quoit_op *op, qt_object *object) {
    if (op->len > QUOIT_DATAGRAM_MAX)
        qt_refuse(w, op, QUOIT_E_FIELD, QUOIT_FIELD_LEN);
    else
        qt_op_recv(w, op, object);
}

static uint8_t form_of(const qt_datagram *d, uint32_t cap) {
    uint32_t room = pool_room(d);
    if (cap > room)
        return QT_FORM_BLOCK;
    bool many = d->stream.recv->flags & QUOIT_OPF_MULTI && cap == room;
    return many ? QT_FORM_MANY
                : QT_FORM_ONE; /* Linux 6.0 brought both multishots: where a ring is used, both are there */
}

int qt_recvmsg_fill(qt_datagram *d, qt_req *req) {
    qt_worker *w = d->stream.object.worker;
    d->with_credentials = d->credentials;
    uint32_t cap = cap_of(d);
    uint32_t control = control_size(d);
    d->form = form_of(d, cap);
    d->in_slice = (struct iovec){NULL, cap};
    d->in = (struct msghdr){.msg_name = &d->in_name,
                            .msg_namelen = sizeof d->in_name,
                            .msg_iov = &d->in_slice,
                            .msg_iovlen = 1,
                            .msg_control = control ? d->in_control : NULL,
                            .msg_controllen = control};
    if (d->form == QT_FORM_MANY) {
        d->in.msg_namelen = NAME_SIZE;
        d->in_slice.iov_len = 0; /* the whole buffer */
        req->flags = QT_REQ_MULTISHOT;
    } else if (d->form == QT_FORM_ONE) {
        req->flags = QT_REQ_POOL;
    } else {
        qt_buffer *block = qt_buffer_take_large(w, cap + names_size(d), d->stream.object.handle);
        if (block == NULL)
            return -ENOMEM;
        d->block = qt_buffer_index(w, block);
        d->in_slice.iov_base = w->buffers.base + block->offset;
    }
    req->code = QT_REQ_RECVMSG;
    req->addr = (uint64_t)(uintptr_t)&d->in;
    return 0;
}

/* The ring uses no pool buffer for an empty datagram; its addresses need a place all the same. */
qt_buffer *qt_recvmsg_block(qt_datagram *d, bool brought) {
    qt_worker *w = d->stream.object.worker;
    qt_buffer *block = NULL;
    if (d->form == QT_FORM_BLOCK)
        block = qt_buffer_at(w, d->block);
    else if (brought)
        block = qt_buffer_take_large(w, names_size(d), d->stream.object.handle);
    if (block == NULL)
        return NULL;
    block->pins--;
    block->length = 0;
    return block;
}

/* A Unix socket that was never bound has no name. */
static void read_name(const qt_datagram *d, const qt_packet *packet, quoit_addr *out) {
    struct sockaddr_storage name = {.ss_family = d->family};
    socklen_t len = packet->name_len < NAME_SIZE ? packet->name_len : NAME_SIZE;
    memcpy(&name, packet->name, len);
    if ((len == 0 && d->family != AF_UNIX) || qt_addr_from_sockaddr(&name, len, out) != 0)
        memset(out, 0, sizeof *out);
}

static void read_info(const qt_datagram *d, const struct cmsghdr *item, quoit_addr *out) {
    if (item->cmsg_level == IPPROTO_IP && item->cmsg_type == IP_PKTINFO) {
        struct in_pktinfo info;
        memcpy(&info, CMSG_DATA(item), sizeof info);
        *out = (quoit_addr){.family = QUOIT_FAMILY_V4, .len = 4, .scope = (uint32_t)info.ipi_ifindex};
        memcpy(out->bytes, &info.ipi_addr, 4);
    } else if (item->cmsg_level == IPPROTO_IPV6 && item->cmsg_type == IPV6_PKTINFO) {
        struct in6_pktinfo info;
        memcpy(&info, CMSG_DATA(item), sizeof info);
        *out = (quoit_addr){.family = QUOIT_FAMILY_V6, .len = 16, .scope = info.ipi6_ifindex};
        memcpy(out->bytes, &info.ipi6_addr, 16);
    } else {
        return;
    }
    out->port = d->port;
}

/* The control data, which lie anywhere, where a walk finds them aligned. */
typedef struct qt_control {
    uint64_t bytes[CONTROL_SIZE / sizeof(uint64_t)];
    struct msghdr header;
} qt_control;

static void copy_control(const qt_packet *packet, qt_control *out) {
    size_t len = packet->control_len < sizeof out->bytes ? packet->control_len : sizeof out->bytes;
    if (len != 0)
        memcpy(out->bytes, packet->control, len);
    out->header = (struct msghdr){.msg_control = out->bytes, .msg_controllen = len};
}

/* What came with a UDP datagram: where it was sent to; returns the size of each that is joined in it. */
static uint32_t read_control(const qt_datagram *d, qt_control *control, quoit_addr *to) {
    uint32_t segment = 0;
    struct msghdr *header = &control->header;
    for (struct cmsghdr *item = CMSG_FIRSTHDR(header); item != NULL; item = CMSG_NXTHDR(header, item)) {
        int size;
        read_info(d, item, to);
        if (item->cmsg_level != SOL_UDP || item->cmsg_type != UDP_GRO)
            continue;
        memcpy(&size, CMSG_DATA(item), sizeof size);
        segment = (uint32_t)size;
    }
    return segment;
}

void qt_recvmsg_read(qt_datagram *d, qt_buffer *buffer, const qt_packet *packet) {
    qt_worker *w = d->stream.object.worker;
    bool local = d->family == AF_UNIX;
    quoit_addr from;
    quoit_addr to = {0};
    int32_t words[CREDENTIALS_ROOM / sizeof(int32_t)] = {0, -1, -1};
    qt_control control;
    uint32_t at = d->form == QT_FORM_MANY ? 0 : qt_buffer_size(w, buffer) - names_size(d);
    read_name(d, packet, &from);
    copy_control(packet, &control);
    uint32_t segment = local ? 0 : read_control(d, &control, &to);
    buffer->credentials = local && qt_credentials_read(&control.header, words) && d->with_credentials;
    if (local)
        qt_fds_take(&control.header, NULL,
                    0); /* had there been room for descriptors: nobody asked for them */
    /* All was read: what the kernel left there may be overwritten. */
    uint8_t *place = w->buffers.base + buffer->offset + at;
    memcpy(place, &from, sizeof from);
    if (d->options & QUOIT_BIND_PKTINFO)
        memcpy(place + sizeof from, &to, sizeof to);
    else if (d->with_credentials)
        memcpy(place + sizeof from, words, sizeof words);
    buffer->packet = at + 1;
    buffer->payload = packet->at;
    buffer->length = packet->at + packet->len;
    buffer->whole = packet->whole;
    buffer->segment = segment < packet->whole ? segment : 0;
    assert(buffer->length <= qt_buffer_size(w, buffer));
}
