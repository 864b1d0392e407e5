/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A native call described at run time, prepared for libffi. */
#ifndef QT_FFI_CALL_H
#define QT_FFI_CALL_H

#include <quoit/pool.h>

struct qt_ffi_call;

/* Copies types and args (nargs each, null when there are none). 0, QUOIT_E_FIELD for a type or count that is not one, -ENOMEM. */
quoit_status qt_ffi_prepare(const quoit_call *call, const uint8_t *types, const uint64_t *args,
                            struct qt_ffi_call **out);

/* Calls it; the result's bits as quoit/pool.h describes them. */
uint64_t qt_ffi_invoke(struct qt_ffi_call *call);

void qt_ffi_free(struct qt_ffi_call *call);

#endif
