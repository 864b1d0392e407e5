/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * quoit/base.h: types, status codes, handles, version.
 *
 * Conventions of every quoit header:
 *  - Each declaration states its effect, the threads that may call it, who owns what it points at and for how
 *    long, which pointers may be null, its errors, and the version that brought it ("since").
 *  - "owner" means the thread that runs the worker: the one that made its first turn or run.
 *  - "any thread" means any thread at any time while the library is loaded, also after a fork.
 *  - Structs that begin with struct_size grow at their end: set it to sizeof the struct you were compiled with.
 *    A shorter one is read as if filled with zeros; a longer one must have zeros in the part this library does
 *    not know. Zero in any field means "the default".
 *  - Times are nanoseconds, sizes are bytes, unless the name says otherwise.
 */
#ifndef QUOIT_BASE_H
#define QUOIT_BASE_H

#include <stddef.h>
#include <stdint.h>

/* Tools that cannot read attributes (SWIG, cffi) define QUOIT_API as empty. */
#ifndef QUOIT_API
#define QUOIT_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Version of these headers: 0xMMmmpp. quoit_version() tells that of the loaded library. */
#define QUOIT_VERSION_NUM 0x000100
#define QUOIT_VERSION_TEXT "0.1.0"

/*
 * Result of every call, and `result` of events that failed:
 *   >= 0            success, often a count
 *   -1 .. -4095     -errno of this platform (names: errno(3))
 *   <= -20001       one of QUOIT_E_*
 */
typedef int32_t quoit_status;

/*
 * A generational handle to an object of a worker. Bit 63 is zero; 7 bits type (QUOIT_HANDLE_*), 8 bits worker,
 * 24 bits generation, 24 bits slot. The slot (low 24 bits) is a small dense number, unique among the live
 * objects of its worker (buffers have a space of their own): lists may be indexed by it. Compare whole handles.
 * 0 is no handle; 1 to 255 are reserved. Using a handle after its object ended is an error, never undefined.
 */
typedef uint64_t quoit_handle;

/* Opaque. Owned by the library from create to destroy. A destroyed one given to a call is QUOIT_E_CLOSED. */
typedef struct quoit_runtime quoit_runtime;
typedef struct quoit_worker quoit_worker;

/* Types of handle. */
#define QUOIT_HANDLE_WORKER 1
#define QUOIT_HANDLE_LISTENER 2
#define QUOIT_HANDLE_STREAM 3
#define QUOIT_HANDLE_FILE 4
#define QUOIT_HANDLE_DIRECTORY 5
#define QUOIT_HANDLE_TIMER 6
#define QUOIT_HANDLE_POLL 7
#define QUOIT_HANDLE_BUFFER 8
#define QUOIT_HANDLE_DATAGRAM 9
#define QUOIT_HANDLE_CHANNEL 10

#define QUOIT_OK 0

/* A call's argument is null or out of range; quoit_log_read tells which one. */
#define QUOIT_E_ARGUMENT -20001
/* struct_size is smaller than the struct's first version, or larger with a tail that is not zero. */
#define QUOIT_E_STRUCT_SIZE -20002
/* A flag that this call or opcode does not know or does not allow. */
#define QUOIT_E_FLAGS -20003
/* A field of the op has a value that its opcode does not take; the event's aux is QUOIT_FIELD_*. */
#define QUOIT_E_FIELD -20004
/* Unknown opcode. */
#define QUOIT_E_OPCODE -20005
/* Known, but this build, driver or kernel cannot do it. */
#define QUOIT_E_UNSUPPORTED -20006
/* The handle's object has ended, or the buffer's loan has. */
#define QUOIT_E_STALE -20007
/* The handle is of another type than the op needs. */
#define QUOIT_E_KIND -20008
/* The handle belongs to another worker: use quoit_post. */
#define QUOIT_E_WORKER -20009
/* The value was never a handle. */
#define QUOIT_E_HANDLE -20010
/* Called from a thread that does not own the worker. */
#define QUOIT_E_THREAD -20011
/* turn, run or destroy called from inside a batch callback. */
#define QUOIT_E_REENTER -20012
/* The process forked; runtimes stay with the parent. */
#define QUOIT_E_FORKED -20013
/* The runtime or worker is destroyed or shut down. */
#define QUOIT_E_CLOSED -20014
/* More ops than ops_max. */
#define QUOIT_E_TOO_MANY -20015
/* Offset and length do not lie inside the arena region that is writable or lent now. */
#define QUOIT_E_RANGE -20016
/* The object already has an op of this kind in flight. */
#define QUOIT_E_BUSY -20017
/* A bound set in the options is reached. */
#define QUOIT_E_LIMIT -20018
/* The driver or rung that was forced cannot be had here; quoit_probe tells why. */
#define QUOIT_E_DRIVER -20019
/* The object is closing and takes no new ops. */
#define QUOIT_E_CLOSING -20020

/* Fields of quoit_op as named by `aux` of an event whose result is QUOIT_E_FIELD, _FLAGS, _RANGE or a handle's error. */
#define QUOIT_FIELD_OPCODE 1
#define QUOIT_FIELD_FLAGS 2
#define QUOIT_FIELD_TARGET 3
#define QUOIT_FIELD_USER_DATA 4
#define QUOIT_FIELD_ADDR 5
#define QUOIT_FIELD_LEN 6
#define QUOIT_FIELD_ARG 7
#define QUOIT_FIELD_OFFSET 8
#define QUOIT_FIELD_ARG2 9
#define QUOIT_FIELD_TIMEOUT 10

/* What to do about a status (quoit_status_class). */
#define QUOIT_CLASS_OK 0
/* Try again later: nothing is wrong with the request. */
#define QUOIT_CLASS_RETRY 1
/* The peer, the object or the runtime has gone. */
#define QUOIT_CLASS_CLOSED 2
/* The program asked wrongly: a bug to fix. */
#define QUOIT_CLASS_USAGE 3
/* The system refused or failed. */
#define QUOIT_CLASS_SYSTEM 4
/* The op was cancelled or timed out as asked. */
#define QUOIT_CLASS_CANCELLED 5

/* Features (quoit_feature). */
#define QUOIT_FEATURE_URING 1
#define QUOIT_FEATURE_EPOLL 2
#define QUOIT_FEATURE_OFFLOAD 3

/* Version of the loaded library, 0xMMmmpp. Any thread. Since 0.1. */
QUOIT_API uint32_t quoit_version(void);

/* The same as text, e.g. "0.1.0". Static, never freed. Any thread. Since 0.1. */
QUOIT_API const char *quoit_version_text(void);

/* 1 if the library was built with the feature QUOIT_FEATURE_*, 0 if not or unknown. Any thread. Since 0.1. */
QUOIT_API quoit_status quoit_feature(uint32_t feature);

/* 1 if this library takes the opcode QUOIT_OP_*, 0 if not. Any thread. Since 0.1. */
QUOIT_API quoit_status quoit_op_supported(uint32_t opcode);

/*
 * The status's constant as text ("QUOIT_E_STALE", "ECONNRESET", "QUOIT_OK" for every value >= 0), a sentence that
 * says what it means, and a sentence that says how to fix it. Static, never freed, never null: an unknown status
 * gives a text that says so. Any thread. Since 0.1.
 */
QUOIT_API const char *quoit_status_name(quoit_status status);
QUOIT_API const char *quoit_status_message(quoit_status status);
QUOIT_API const char *quoit_status_hint(quoit_status status);

/* QUOIT_CLASS_* of the status. Any thread. Since 0.1. */
QUOIT_API quoit_status quoit_status_class(quoit_status status);

/* QUOIT_HANDLE_* of the handle as written in it (nothing is looked up), or QUOIT_E_HANDLE. Any thread. Since 0.1. */
QUOIT_API quoit_status quoit_handle_kind(quoit_handle handle);

#ifdef __cplusplus
}
#endif

#endif
