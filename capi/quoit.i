/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * quoit.i: quoit for the languages that SWIG serves (Lua, Perl, Ruby, Tcl, Java, Python). They drive a worker by
 * quoit_turn: write ops with quoit_batch_op, turn, read events with quoit_batch_event, or take all of them as one
 * string of bytes. Batch callbacks stay in C. Build: swig -LANGUAGE -Icapi/include capi/quoit.i
 *
 *  - 64-bit numbers are signed: handles have bit 63 zero, and no target then needs a big integer.
 *  - Received bytes and arrays in structs are strings of bytes (byte[] and, for the arena, ByteBuffer in Java).
 *    A string is a copy; a ByteBuffer is the arena itself, and its bytes stay as long as the event's loan.
 *  - What C returns through pointers comes as further results (in Java: through arrays of one element).
 */
%module quoit

%{
#include <quoit/quoit.h>

#include <string.h>
%}

/* Attributes are not for SWIG to read. */
#define QUOIT_API

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef long long uint64_t;

%include <typemaps.i>
%include <carrays.i>

#ifdef SWIGRUBY
/* Classes begin with a capital letter there: QuoitEvent. */
%rename("%(camelcase)s", %$isclass) "";
#endif

/* ---- bytes, in and out ---- */

%{
/* Bytes of the library's memory, on their way to a string of the language. */
typedef struct quoit_bytes {
    const void *data;
    size_t size;
} quoit_bytes;
%}

#if defined(SWIGPYTHON)
%typemap(out) quoit_bytes "$result = PyBytes_FromStringAndSize((const char *)$1.data, (Py_ssize_t)$1.size);"
%typemap(out) uint8_t[ANY], uint64_t[ANY] "$result = PyBytes_FromStringAndSize((const char *)$1, sizeof *$1 * $1_dim0);"
%typemap(in) (const void *data, uint32_t size) (Py_buffer view) {
    if (PyObject_GetBuffer($input, &view, PyBUF_SIMPLE) != 0)
        SWIG_fail;
    $1 = view.buf;
    $2 = (uint32_t)view.len;
}
%typemap(freearg) (const void *data, uint32_t size) "if ($1) PyBuffer_Release(&view$argnum);"
#elif defined(SWIGLUA)
%typemap(out) quoit_bytes "lua_pushlstring(L, (const char *)$1.data, $1.size); SWIG_arg++;"
%typemap(out) uint8_t[ANY], uint64_t[ANY] "lua_pushlstring(L, (const char *)$1, sizeof *$1 * $1_dim0); SWIG_arg++;"
%typemap(in, checkfn="lua_isstring") (const void *data, uint32_t size) (size_t length)
    "$1 = (void *)lua_tolstring(L, $input, &length); $2 = (uint32_t)length;"
#elif defined(SWIGRUBY)
%typemap(out) quoit_bytes "$result = rb_str_new((const char *)$1.data, (long)$1.size);"
%typemap(out) uint8_t[ANY], uint64_t[ANY] "$result = rb_str_new((const char *)$1, (long)(sizeof *$1 * $1_dim0));"
%typemap(in) (const void *data, uint32_t size)
    "StringValue($input); $1 = RSTRING_PTR($input); $2 = (uint32_t)RSTRING_LEN($input);"
#elif defined(SWIGPERL)
%typemap(out) quoit_bytes "$result = newSVpvn_flags((const char *)$1.data, $1.size, SVs_TEMP); argvi++;"
%typemap(out) uint8_t[ANY], uint64_t[ANY]
    "$result = newSVpvn_flags((const char *)$1, sizeof *$1 * $1_dim0, SVs_TEMP); argvi++;"
%typemap(in) (const void *data, uint32_t size) (STRLEN length)
    "$1 = (void *)SvPVbyte($input, length); $2 = (uint32_t)length;"
#elif defined(SWIGTCL)
%typemap(out) quoit_bytes
    "Tcl_SetObjResult(interp, Tcl_NewByteArrayObj((const unsigned char *)$1.data, (int)$1.size));"
%typemap(out) uint8_t[ANY], uint64_t[ANY]
    "Tcl_SetObjResult(interp, Tcl_NewByteArrayObj((const unsigned char *)$1, (int)(sizeof *$1 * $1_dim0)));"
%typemap(in) (const void *data, uint32_t size) (int length)
    "$1 = Tcl_GetByteArrayFromObj($input, &length); $2 = (uint32_t)length;"
#elif defined(SWIGJAVA)
%typemap(jni) quoit_bytes "jobject"
%typemap(jtype) quoit_bytes "java.nio.ByteBuffer"
%typemap(jstype) quoit_bytes "java.nio.ByteBuffer"
%typemap(javaout) quoit_bytes { return $jnicall; }
%typemap(out) quoit_bytes "$result = (*jenv)->NewDirectByteBuffer(jenv, (void *)$1.data, (jlong)$1.size);"
%typemap(jni) uint8_t[ANY], uint64_t[ANY] "jbyteArray"
%typemap(jtype) uint8_t[ANY], uint64_t[ANY] "byte[]"
%typemap(jstype) uint8_t[ANY], uint64_t[ANY] "byte[]"
%typemap(javaout) uint8_t[ANY], uint64_t[ANY] { return $jnicall; }
%typemap(out) uint8_t[ANY], uint64_t[ANY] {
    $result = (*jenv)->NewByteArray(jenv, (jsize)(sizeof *$1 * $1_dim0));
    if ($result)
        (*jenv)->SetByteArrayRegion(jenv, $result, 0, (jsize)(sizeof *$1 * $1_dim0), (const jbyte *)$1);
}
%typemap(jni) (const void *data, uint32_t size) "jbyteArray"
%typemap(jtype) (const void *data, uint32_t size) "byte[]"
%typemap(jstype) (const void *data, uint32_t size) "byte[]"
%typemap(javain) (const void *data, uint32_t size) "$javainput"
%typemap(in) (const void *data, uint32_t size) {
    if (!$input) {
        SWIG_JavaThrowException(jenv, SWIG_JavaNullPointerException, "no bytes");
        return $null;
    }
    $1 = (*jenv)->GetByteArrayElements(jenv, $input, NULL);
    $2 = (uint32_t)(*jenv)->GetArrayLength(jenv, $input);
}
%typemap(freearg) (const void *data, uint32_t size)
    "if ($1) (*jenv)->ReleaseByteArrayElements(jenv, $input, (jbyte *)$1, JNI_ABORT);"
#else
#error "quoit.i has no way to pass bytes to this language yet"
#endif

/* Arrays in structs are filled by the library (quoit_addr_parse, quoit_stats_read). */
%immutable quoit_addr::bytes;
%immutable quoit_stats::tick_ns_hist;
%immutable quoit_probe_entry::name;
%immutable quoit_probe_entry::reason;
%immutable quoit_probe_entry::fix;

%apply int *OUTPUT { quoit_status *status };
%apply unsigned int *OUTPUT { uint32_t *level };
%apply long long *OUTPUT { uint64_t *address };
%apply long long *OUTPUT { int64_t *out };
%apply int *OUTPUT { int32_t *first };

/* ---- the headers ---- */

/* Callbacks are C's; what fills a caller's memory or returns through a double pointer has a helper below. */
%ignore quoit_run;
%ignore quoit_worker_start;
%ignore quoit_batch_fn;
%ignore quoit_runtime_create;
%ignore quoit_worker_create;
%ignore quoit_runtime_driver_reason;
%ignore quoit_addr_parse;
%ignore quoit_addr_text;
%ignore quoit_stats_text;
%ignore quoit_log_read;

%include <quoit/base.h>
%include <quoit/buffer.h>
%include <quoit/event.h>
%include <quoit/file.h>
%include <quoit/log.h>
%include <quoit/net.h>
%include <quoit/op.h>
%include <quoit/pool.h>
%include <quoit/probe.h>
%include <quoit/runtime.h>
%include <quoit/stats.h>
%include <quoit/timer.h>

/* Room for quoit_probe's entries: new_quoit_probe_list(n), quoit_probe_list_getitem(list, i). */
%array_functions(quoit_probe_entry, quoit_probe_list)

/* ---- helpers ---- */

%inline %{
/* Creates a runtime, null on failure; the status comes as a second result. */
quoit_runtime *quoit_runtime_open(const quoit_runtime_options *options, quoit_status *status) {
    quoit_runtime *runtime = NULL;
    *status = quoit_runtime_create(options, &runtime);
    return runtime;
}

/* Creates a worker, null on failure; the status comes as a second result. */
quoit_worker *quoit_worker_open(quoit_runtime *runtime, const quoit_worker_options *options, quoit_status *status) {
    quoit_worker *worker = NULL;
    *status = quoit_worker_create(runtime, options, &worker);
    return worker;
}

/* The worker's op number i, cleared; null if there is no such. */
quoit_op *quoit_batch_op(quoit_batch *batch, uint32_t i) {
    if (i >= batch->ops_max)
        return NULL;
    return (quoit_op *)memset((char *)(uintptr_t)batch->ops + (size_t)i * batch->stride, 0, sizeof(quoit_op));
}

/* Event number i of this batch; null if there is no such. Readable until the next turn. */
const quoit_event *quoit_batch_event(quoit_batch *batch, uint32_t i) {
    if (i >= batch->nevents)
        return NULL;
    return (const quoit_event *)((const char *)(uintptr_t)batch->events + (size_t)i * batch->stride);
}

/* All events of this batch, 64 bytes each. */
quoit_bytes quoit_batch_events(quoit_batch *batch) {
    quoit_bytes bytes = {(const void *)(uintptr_t)batch->events, (size_t)batch->nevents * batch->stride};
    return bytes;
}

/* An event's bytes; empty if they do not lie in the receive arena. */
quoit_bytes quoit_batch_received(quoit_batch *batch, uint64_t offset, uint32_t len) {
    quoit_bytes bytes = {(const void *)(uintptr_t)batch->recv_base, 0};
    if (offset > batch->recv_size || len > batch->recv_size - offset)
        return bytes;
    bytes.data = (const char *)bytes.data + offset;
    bytes.size = len;
    return bytes;
}

/*
 * Copies bytes into the scratch region at `at` (from its start) and returns their offset in the send arena, for an
 * op's addr with ARENA_SEND; or -1 if they do not fit.
 */
int64_t quoit_batch_scratch(quoit_batch *batch, uint32_t at, const void *data, uint32_t size) {
    if (at > batch->scratch_len || size > batch->scratch_len - at)
        return -1;
    memcpy((char *)(uintptr_t)batch->send_base + batch->scratch_off + at, data, size);
    return (int64_t)(batch->scratch_off + at);
}

/* Reads an address as quoit_addr_parse does. */
quoit_status quoit_addr_from(const char *text, quoit_addr *out) {
    return quoit_addr_parse(text, text ? (uint32_t)strlen(text) : 0, out);
}

/* Where an op's addr may point: the address of a struct that stays until the turn is over. */
uint64_t quoit_address_of(const void *pointer) {
    return (uint64_t)(uintptr_t)pointer;
}
%}

%{
/* Texts on their way to a string of the language; each thread has its own. */
static _Thread_local char quoit_text[65536];

static const char *quoit_text_or_empty(quoit_status length) {
    return length < 0 ? "" : quoit_text;
}
%}

%inline %{
/* The address as text, "" if it is none. */
const char *quoit_addr_string(const quoit_addr *addr) {
    return quoit_text_or_empty(quoit_addr_text(addr, quoit_text, sizeof quoit_text));
}

/* Why this driver was chosen. */
const char *quoit_runtime_reason(quoit_runtime *runtime) {
    return quoit_text_or_empty(quoit_runtime_driver_reason(runtime, quoit_text, sizeof quoit_text));
}

/* The worker's counters as OpenMetrics text. */
const char *quoit_stats_string(quoit_handle worker) {
    return quoit_text_or_empty(quoit_stats_text(worker, quoit_text, sizeof quoit_text));
}

/* The oldest log line, "" if there is none; its level comes as a second result. */
const char *quoit_log_line(quoit_runtime *runtime, uint32_t *level) {
    quoit_status length = quoit_log_read(runtime, quoit_text, sizeof quoit_text, level);
    return length > 0 ? quoit_text : "";
}
%}
