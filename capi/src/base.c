/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/status.h"
#include "core/worker.h"

uint32_t quoit_version(void) {
    return QUOIT_VERSION_NUM;
}

const char *quoit_version_text(void) {
    return QUOIT_VERSION_TEXT;
}

quoit_status quoit_feature(uint32_t feature) {
    return feature == QUOIT_FEATURE_URING || feature == QUOIT_FEATURE_EPOLL ||
           feature == QUOIT_FEATURE_OFFLOAD;
}

quoit_status quoit_op_supported(uint32_t opcode) {
    return qt_op_known(opcode);
}

const char *quoit_status_name(quoit_status status) {
    return qt_status_name(status);
}

const char *quoit_status_message(quoit_status status) {
    return qt_status_message(status);
}

const char *quoit_status_hint(quoit_status status) {
    return qt_status_hint(status);
}

quoit_status quoit_status_class(quoit_status status) {
    return (quoit_status)qt_status_class(status);
}

quoit_status quoit_handle_kind(quoit_handle handle) {
    uint64_t kind = handle >> 56;
    uint64_t generation = (handle >> 24) & 0xFFFFFF;
    return kind >= QUOIT_HANDLE_WORKER && kind <= QT_HANDLE_LAST && generation ? (quoit_status)kind
                                                                               : QUOIT_E_HANDLE;
}
