/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The table of kernel requests: stable addresses, found by slot, told apart by generation. */
#include "driver.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static int add_chunk(qt_req_table *table) {
    qt_req **chunks = realloc(table->chunks, (table->chunk_count + 1) * sizeof *chunks);
    if (chunks == NULL)
        return -1;
    table->chunks = chunks;
    qt_req *chunk = calloc(QT_REQ_CHUNK, sizeof *chunk);
    if (chunk == NULL)
        return -1;
    for (uint32_t i = QT_REQ_CHUNK; i-- > 0;) {
        chunk[i].slot = table->chunk_count * QT_REQ_CHUNK + i;
        chunk[i].generation = 1;
        chunk[i].next = table->free_head;
        table->free_head = &chunk[i];
    }
    chunks[table->chunk_count++] = chunk;
    return 0;
}

qt_req *qt_req_alloc(qt_req_table *table) {
    if (table->free_head == NULL && add_chunk(table) != 0)
        return NULL;
    qt_req *req = table->free_head;
    uint32_t slot = req->slot;
    uint32_t generation = req->generation;
    table->free_head = req->next;
    table->live++;
    memset(req, 0, sizeof *req);
    req->slot = slot;
    req->generation = generation;
    return req;
}

void qt_req_free(qt_req_table *table, qt_req *req) {
    assert(table->live > 0 && req->state == QT_REQ_IDLE);
    req->generation++;
    req->next = table->free_head;
    table->free_head = req;
    table->live--;
}

qt_req *qt_req_find(qt_req_table *table, uint32_t slot, uint32_t generation) {
    if (slot / QT_REQ_CHUNK >= table->chunk_count)
        return NULL;
    qt_req *req = &table->chunks[slot / QT_REQ_CHUNK][slot % QT_REQ_CHUNK];
    return req->generation == generation ? req : NULL;
}

void qt_req_table_destroy(qt_req_table *table) {
    for (uint32_t i = 0; i < table->chunk_count; i++)
        free(table->chunks[i]);
    free(table->chunks);
    memset(table, 0, sizeof *table);
}

void qt_packet_read(qt_packet *packet, const struct msghdr *header, uint32_t room, uint32_t whole) {
    *packet = (qt_packet){.name = header->msg_name,
                          .name_len = header->msg_namelen,
                          .control = header->msg_control,
                          .control_len = (uint32_t)header->msg_controllen,
                          .len = whole < room ? whole : room,
                          .whole = whole};
}
