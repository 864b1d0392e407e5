/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "calls.h"
#include "core/object.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse_port(const char *text, uint16_t *port) {
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    unsigned long number = strtoul(text, &end, 10);
    *port = (uint16_t)number;
    return *end == 0 && number <= 65535;
}

static bool parse_unix(const char *path, quoit_addr *out) {
    size_t length = strlen(path);
    if (length == 0 || length >= 108)
        return false;
    out->family = QUOIT_FAMILY_UNIX;
    out->len = (uint32_t)length;
    memcpy(out->bytes, path, length);
    if (path[0] == '@')
        out->bytes[0] = 0;
    return true;
}

/* The inside of the brackets, with an optional scope: a number or an interface's name. */
static bool parse_v6(char *host, quoit_addr *out) {
    char *scope = strchr(host, '%');
    if (scope != NULL) {
        char *end;
        *scope++ = 0;
        out->scope = (uint32_t)strtoul(scope, &end, 10);
        if (*scope == 0 || *end != 0)
            out->scope = if_nametoindex(scope);
        if (out->scope == 0)
            return false;
    }
    out->family = QUOIT_FAMILY_V6;
    out->len = 16;
    return inet_pton(AF_INET6, host, out->bytes) == 1;
}

static bool parse(char *text, quoit_addr *out) {
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(text + 5, out);
    char *colon = strrchr(text, ':');
    if (colon == NULL || !parse_port(colon + 1, &out->port))
        return false;
    *colon = 0;
    size_t length = strlen(text);
    if (text[0] == '[' && text[length - 1] == ']') {
        text[length - 1] = 0;
        return parse_v6(text + 1, out);
    }
    out->family = QUOIT_FAMILY_V4;
    out->len = 4;
    return inet_pton(AF_INET, text, out->bytes) == 1;
}

quoit_status quoit_addr_parse(const char *text, uint32_t text_len, quoit_addr *out) {
    char copy[160];
    if (text == NULL || out == NULL || text_len >= sizeof copy)
        return QUOIT_E_ARGUMENT;
    memcpy(copy, text, text_len);
    copy[text_len] = 0;
    memset(out, 0, sizeof *out);
    if (strlen(copy) == text_len && parse(copy, out))
        return 0;
    memset(out, 0, sizeof *out);
    return QUOIT_E_ARGUMENT;
}

quoit_status quoit_addr_text(const quoit_addr *addr, char *text, uint32_t capacity) {
    char host[INET6_ADDRSTRLEN + 16];
    int length = -1;
    if (addr == NULL || text == NULL)
        return QUOIT_E_ARGUMENT;
    if (addr->family == QUOIT_FAMILY_V4 && addr->len == 4) {
        inet_ntop(AF_INET, addr->bytes, host, sizeof host);
        length = snprintf(text, capacity, "%s:%u", host, addr->port);
    } else if (addr->family == QUOIT_FAMILY_V6 && addr->len == 16) {
        inet_ntop(AF_INET6, addr->bytes, host, sizeof host);
        length = addr->scope ? snprintf(text, capacity, "[%s%%%u]:%u", host, addr->scope, addr->port)
                             : snprintf(text, capacity, "[%s]:%u", host, addr->port);
    } else if (addr->family == QUOIT_FAMILY_UNIX && addr->len <= 108) {
        bool abstract = addr->len > 0 && addr->bytes[0] == 0;
        length = snprintf(text, capacity, "unix:%s%.*s", abstract ? "@" : "", (int)addr->len - abstract,
                          (const char *)addr->bytes + abstract);
    } else {
        return QUOIT_E_ARGUMENT;
    }
    return length >= 0 && (uint32_t)length < capacity ? length : -ENOSPC;
}

static quoit_status name_of(quoit_worker *pointer, quoit_handle handle, quoit_addr *out, uint32_t kinds,
                            int (*ask)(int, struct sockaddr *, socklen_t *)) {
    qt_worker *w;
    qt_object *object;
    struct sockaddr_storage name;
    socklen_t length = sizeof name;
    if (out == NULL)
        return QUOIT_E_ARGUMENT;
    quoit_status status = qt_own_worker(pointer, true, false, &w);
    if (status == 0)
        status = qt_handle_find(w, handle, kinds, &object);
    if (status == 0 && object->closing == QT_CLOSE_SUBMITTED)
        status = QUOIT_E_CLOSING;
    if (status == 0 && object->moving)
        status = QUOIT_E_BUSY;
    if (status != 0)
        return status;
    QT_COUNT(w, system_calls, 1);
    if (ask(object->fd, (struct sockaddr *)&name, &length) != 0)
        return -errno;
    return qt_addr_from_sockaddr(&name, length, out);
}

quoit_status quoit_peer_addr(quoit_worker *worker, quoit_handle handle, quoit_addr *out) {
    return name_of(worker, handle, out, QT_KIND(QUOIT_HANDLE_STREAM) | QT_KIND(QUOIT_HANDLE_DATAGRAM),
                   getpeername);
}

quoit_status quoit_local_addr(quoit_worker *worker, quoit_handle handle, quoit_addr *out) {
    uint32_t kinds =
        QT_KIND(QUOIT_HANDLE_STREAM) | QT_KIND(QUOIT_HANDLE_LISTENER) | QT_KIND(QUOIT_HANDLE_DATAGRAM);
    return name_of(worker, handle, out, kinds, getsockname);
}
