/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* quoit/pool.h: the blocking pool and the description of a native call (QUOIT_OP_OFFLOAD). */
#ifndef QUOIT_POOL_H
#define QUOIT_POOL_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A call of any C function, described at run time. The struct, `types` and `args` are copied before the call returns; memory
 * that arguments point at stays the program's, untouched until the op's last event.
 *   entry        address of the function
 *   types        address of nargs bytes, each QUOIT_TYPE_*: the arguments' types
 *   args         address of nargs 64-bit words: each holds its argument in its low bytes (integers sign- or zero-extended,
 *                double and float as their IEEE bits, pointers as addresses)
 *   nargs        0 to QUOIT_CALL_ARGS_MAX
 *   return_type  QUOIT_TYPE_*
 * With ARENA_SEND, types and args are offsets in the scratch region; entry is always an address.
 * The event's value holds the result in the same form.
 */
typedef struct quoit_call {
    uint32_t struct_size;
    uint32_t nargs;
    uint64_t entry;
    uint64_t types;
    uint64_t args;
    uint32_t return_type;
    uint32_t flags;
} quoit_call;

#define QUOIT_CALL_ARGS_MAX 16

#define QUOIT_TYPE_VOID 0
#define QUOIT_TYPE_I8 1
#define QUOIT_TYPE_U8 2
#define QUOIT_TYPE_I16 3
#define QUOIT_TYPE_U16 4
#define QUOIT_TYPE_I32 5
#define QUOIT_TYPE_U32 6
#define QUOIT_TYPE_I64 7
#define QUOIT_TYPE_U64 8
#define QUOIT_TYPE_FLOAT 9
#define QUOIT_TYPE_DOUBLE 10
#define QUOIT_TYPE_POINTER 11

/*
 * Address of a symbol in a shared library opened with dlopen(3) (path null: the process itself), into *address, for languages
 * without a dlsym of their own. The library stays loaded. Any thread. path and symbol are NUL-terminated, not kept.
 * QUOIT_E_ARGUMENT: symbol or address is null; -ENOENT: no such library or symbol. Since 0.1.
 */
QUOIT_API quoit_status quoit_symbol(const char *path, const char *symbol, uint64_t *address);

#ifdef __cplusplus
}
#endif

#endif
