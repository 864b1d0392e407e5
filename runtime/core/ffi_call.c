/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ffi_call.h"

#include <errno.h>
#include <ffi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct qt_ffi_call {
    ffi_cif cif;
    void (*entry)(void);
    uint32_t return_type;
    ffi_type *types[QUOIT_CALL_ARGS_MAX];
    uint64_t words[QUOIT_CALL_ARGS_MAX]; /* each argument, at its own width */
    void *values[QUOIT_CALL_ARGS_MAX];
};

static ffi_type *type_of(uint32_t type) {
    switch (type) {
    case QUOIT_TYPE_VOID:
        return &ffi_type_void;
    case QUOIT_TYPE_I8:
        return &ffi_type_sint8;
    case QUOIT_TYPE_U8:
        return &ffi_type_uint8;
    case QUOIT_TYPE_I16:
        return &ffi_type_sint16;
    case QUOIT_TYPE_U16:
        return &ffi_type_uint16;
    case QUOIT_TYPE_I32:
        return &ffi_type_sint32;
    case QUOIT_TYPE_U32:
        return &ffi_type_uint32;
    case QUOIT_TYPE_I64:
        return &ffi_type_sint64;
    case QUOIT_TYPE_U64:
        return &ffi_type_uint64;
    case QUOIT_TYPE_FLOAT:
        return &ffi_type_float;
    case QUOIT_TYPE_DOUBLE:
        return &ffi_type_double;
    case QUOIT_TYPE_POINTER:
        return &ffi_type_pointer;
    default:
        return NULL;
    }
}

/* libffi reads each argument at its type's width from the value's address: the low bytes, whatever the byte order. */
static void store_argument(uint64_t *word, uint64_t bits, size_t size) {
    uint8_t byte = (uint8_t)bits;
    uint16_t half = (uint16_t)bits;
    uint32_t single = (uint32_t)bits;
    switch (size) {
    case 1:
        memcpy(word, &byte, size);
        break;
    case 2:
        memcpy(word, &half, size);
        break;
    case 4:
        memcpy(word, &single, size);
        break;
    default:
        *word = bits;
        break;
    }
}

quoit_status qt_ffi_prepare(const quoit_call *call, const uint8_t *types, const uint64_t *args,
                            struct qt_ffi_call **out) {
    ffi_type *result = type_of(call->return_type);
    if (call->nargs > QUOIT_CALL_ARGS_MAX || result == NULL)
        return QUOIT_E_FIELD;
    struct qt_ffi_call *made = calloc(1, sizeof *made);
    if (made == NULL)
        return -ENOMEM;
    made->entry = (void (*)(void))(uintptr_t)call->entry;
    made->return_type = call->return_type;
    bool bad = false;
    for (uint32_t i = 0; i < call->nargs && !bad; i++) {
        uint64_t bits;
        memcpy(&bits, args + i, sizeof bits);
        made->types[i] = type_of(types[i]);
        bad = made->types[i] == NULL || types[i] == QUOIT_TYPE_VOID;
        if (!bad)
            store_argument(&made->words[i], bits, made->types[i]->size);
        made->values[i] = &made->words[i];
    }
    if (bad || ffi_prep_cif(&made->cif, FFI_DEFAULT_ABI, call->nargs, result, made->types) != FFI_OK) {
        free(made);
        return QUOIT_E_FIELD;
    }
    *out = made;
    return 0;
}

/* An integer narrower than a register comes back widened to ffi_arg: cut to its type, then extended as its sign says. */
static uint64_t widen(uint32_t type, ffi_arg value) {
    switch (type) {
    case QUOIT_TYPE_I8:
        return (uint64_t)(int64_t)(int8_t)value;
    case QUOIT_TYPE_U8:
        return (uint8_t)value;
    case QUOIT_TYPE_I16:
        return (uint64_t)(int64_t)(int16_t)value;
    case QUOIT_TYPE_U16:
        return (uint16_t)value;
    case QUOIT_TYPE_I32:
        return (uint64_t)(int64_t)(int32_t)value;
    case QUOIT_TYPE_U32:
        return (uint32_t)value;
    default:
        return value;
    }
}

uint64_t qt_ffi_invoke(struct qt_ffi_call *call) {
    union {
        ffi_arg integer;
        uint64_t word;
        float single;
    } result = {.word = 0};
    ffi_call(&call->cif, call->entry, &result, call->values);
    switch (call->return_type) {
    case QUOIT_TYPE_VOID:
        return 0;
    case QUOIT_TYPE_FLOAT: {
        uint32_t bits;
        memcpy(&bits, &result.single, sizeof bits);
        return bits;
    }
    case QUOIT_TYPE_DOUBLE:
    case QUOIT_TYPE_I64:
    case QUOIT_TYPE_U64:
        return result.word;
    case QUOIT_TYPE_POINTER:
        return (uint64_t)(uintptr_t)result.integer;
    default:
        return widen(call->return_type, result.integer);
    }
}

void qt_ffi_free(struct qt_ffi_call *call) {
    free(call);
}
