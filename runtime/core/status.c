/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "status.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

typedef struct qt_status_text {
    quoit_status status;
    uint32_t class;
    const char *name;
    const char *message;
    const char *hint;
} qt_status_text;

#define OURS(code, class, message, hint)                                                                     \
    { code, QUOIT_CLASS_##class, #code, message, hint }
#define ERRNO(code, class, message, hint)                                                                    \
    { -code, QUOIT_CLASS_##class, #code, message, hint }

static const qt_status_text texts[] = {
    OURS(QUOIT_E_ARGUMENT, USAGE, "An argument of the call is null or out of range.",
         "Read the log (quoit_log_read): it names the argument and its range."),
    OURS(QUOIT_E_STRUCT_SIZE, USAGE,
         "struct_size is too small, or the struct has values that this library does not know.",
         "Set struct_size to sizeof the struct and zero the rest; or use a newer library."),
    OURS(QUOIT_E_FLAGS, USAGE, "A flag is not known or not allowed here.",
         "Compare the flags with the opcode's or call's text in the header; QUIET does not go with BORROW."),
    OURS(QUOIT_E_FIELD, USAGE, "A field of the op has a value that its opcode does not take.",
         "The event's aux is QUOIT_FIELD_*: set that field as the opcode's text says; unused fields are "
         "zero."),
    OURS(QUOIT_E_OPCODE, USAGE, "The opcode is unknown.",
         "Ask quoit_op_supported before using a newer opcode."),
    OURS(QUOIT_E_UNSUPPORTED, SYSTEM, "This build, driver or kernel cannot do it.",
         "Run quoit-doctor to see what is available here."),
    OURS(QUOIT_E_STALE, CLOSED, "The handle's object has ended, or the buffer's loan has.",
         "Forget handles at their last event; KEEP a buffer that is needed past the next turn."),
    OURS(QUOIT_E_KIND, USAGE, "The handle is of another type than the op needs.",
         "Pass a handle of the type in the opcode's text."),
    OURS(QUOIT_E_WORKER, USAGE, "The handle belongs to another worker.",
         "Post the op to that worker with quoit_post."),
    OURS(QUOIT_E_HANDLE, USAGE, "The value was never a handle.", "Pass a handle as an event gave it."),
    OURS(QUOIT_E_THREAD, USAGE, "The calling thread does not own the worker.",
         "Call from the thread of the worker's first turn, or use quoit_post."),
    OURS(QUOIT_E_REENTER, USAGE, "Called from inside a turn or batch callback.",
         "In a callback write ops into the batch, or use quoit_submit."),
    OURS(QUOIT_E_FORKED, USAGE, "The process forked; the runtime stays with the parent.",
         "Create a new runtime in the child."),
    OURS(QUOIT_E_CLOSED, CLOSED, "The runtime or worker is destroyed or shut down.", "Create a new one."),
    OURS(QUOIT_E_TOO_MANY, USAGE, "More ops than the batch's ops_max.",
         "Submit in parts with quoit_submit, or raise ops_max."),
    OURS(QUOIT_E_RANGE, USAGE, "Offset and length do not lie in the region that may be used now.",
         "Write into the current batch's scratch region; send received bytes by their event's offset and "
         "len."),
    OURS(QUOIT_E_BUSY, USAGE, "The object already has such an op in flight.",
         "Wait for its last event, or cancel it."),
    OURS(QUOIT_E_LIMIT, RETRY, "A bound set in the options is reached.",
         "Close something, or raise the bound."),
    OURS(QUOIT_E_DRIVER, SYSTEM, "The driver that was forced cannot be had here.",
         "Run quoit-doctor for the reason; or let QUOIT_DRIVER be auto."),
    OURS(QUOIT_E_CLOSING, CLOSED, "The object or worker is closing and takes no new ops.",
         "Wait for the close's event."),
    ERRNO(EPERM, SYSTEM, "Operation not permitted.",
          "For io_uring: allow io_uring_setup, _enter and _register in the seccomp profile, and look at "
          "kernel.io_uring_disabled."),
    ERRNO(ENOENT, SYSTEM, "There is none of that name.",
          "Check the path; for a cancel, the user_data: no such op is in flight."),
    ERRNO(EINTR, RETRY, "Interrupted by a signal.", "Try again."),
    ERRNO(EIO, SYSTEM, "Input or output error.", "Look at the device and the kernel log."),
    ERRNO(EBADF, USAGE, "Bad file descriptor.", "Pass an open descriptor."),
    ERRNO(EAGAIN, RETRY, "A queue is full, or the resource is busy.", "Try again after the next events."),
    ERRNO(ENOMEM, SYSTEM, "Out of memory, or over a memory limit.",
          "For rings: raise RLIMIT_MEMLOCK (ulimit -l) or lower ring_entries; quoit-doctor says what is used "
          "and needed."),
    ERRNO(EACCES, SYSTEM, "Permission denied.",
          "Check the permissions of the file, or bind a port above 1023."),
    ERRNO(EFAULT, USAGE, "Bad address.", "Pass a pointer to readable or writable memory."),
    ERRNO(EBUSY, RETRY, "Busy.", "Try again."),
    ERRNO(EEXIST, SYSTEM, "It exists already.", "Choose another name."),
    ERRNO(ENOTDIR, SYSTEM, "Not a directory.", "Check the path."),
    ERRNO(EISDIR, SYSTEM, "It is a directory.", "Open it with QUOIT_OPEN_DIRECTORY."),
    ERRNO(EINVAL, USAGE, "Invalid argument.", "Compare the op with its text in the header."),
    ERRNO(ENFILE, SYSTEM, "The system's table of open files is full.", "Raise fs.file-max."),
    ERRNO(EMFILE, SYSTEM, "The process has too many open files.", "Raise RLIMIT_NOFILE (ulimit -n)."),
    ERRNO(EFBIG, SYSTEM, "File too large.", "Check the offset and RLIMIT_FSIZE."),
    ERRNO(ENOSPC, SYSTEM, "No space left, or the given memory is too small.",
          "Free space, or pass a larger buffer."),
    ERRNO(ESPIPE, USAGE, "It has no positions.", "Use offset -1."),
    ERRNO(EROFS, SYSTEM, "Read-only file system.", "Write elsewhere."),
    ERRNO(EPIPE, CLOSED, "The stream cannot be written any more.",
          "Close it: the peer has gone or sending was shut down."),
    ERRNO(ENOSYS, SYSTEM, "The system call does not exist here.",
          "Use a newer kernel, or allow the call in the sandbox."),
    ERRNO(ENOTCONN, CLOSED, "Not connected.", "Close the stream."),
    ERRNO(EADDRINUSE, SYSTEM, "The address is in use.", "Choose another port, or stop who has it."),
    ERRNO(EADDRNOTAVAIL, SYSTEM, "The address is not available here.", "Choose an address of this machine."),
    ERRNO(ENETUNREACH, SYSTEM, "The network is unreachable.", "Check the route."),
    ERRNO(ECONNABORTED, CLOSED, "The connection was aborted.", "Connect again."),
    ERRNO(ECONNRESET, CLOSED, "The peer reset the connection.", "Close the stream."),
    ERRNO(ENOBUFS, RETRY, "A bound on memory is reached: the stream owes too much, or too much is kept.",
          "Wait for sends to end, release buffers, or raise send_limit or kept_max."),
    ERRNO(ETIMEDOUT, CANCELLED, "The deadline passed.", "Give more time, or close the stream."),
    ERRNO(ECONNREFUSED, SYSTEM, "Nobody listens there.", "Check the address, or start the server."),
    ERRNO(EHOSTUNREACH, SYSTEM, "The host is unreachable.", "Check the address and the route."),
    ERRNO(ECANCELED, CANCELLED, "The op was cancelled.",
          "Nothing is wrong: it was asked for, by cancel, close or stop."),
};

static const qt_status_text *find(quoit_status status) {
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].status == status)
            return &texts[i];
    return NULL;
}

static int is_errno(quoit_status status) {
    return status < 0 && status >= -4095 && strerrorname_np(-status) != NULL;
}

const char *qt_status_name(quoit_status status) {
    const qt_status_text *text = find(status);
    if (status >= 0)
        return "QUOIT_OK";
    if (text != NULL)
        return text->name;
    return is_errno(status) ? strerrorname_np(-status) : "QUOIT_E_UNKNOWN";
}

const char *qt_status_message(quoit_status status) {
    const qt_status_text *text = find(status);
    if (status >= 0)
        return "Success.";
    if (text != NULL)
        return text->message;
    return is_errno(status) ? strerrordesc_np(-status) : "A status that this library does not know.";
}

const char *qt_status_hint(quoit_status status) {
    const qt_status_text *text = find(status);
    if (status >= 0)
        return "Nothing to fix.";
    if (text != NULL)
        return text->hint;
    return is_errno(status) ? "See errno(3) and the manual page of the system call."
                            : "Use a library as new as the headers.";
}

uint32_t qt_status_class(quoit_status status) {
    const qt_status_text *text = find(status);
    if (status >= 0)
        return QUOIT_CLASS_OK;
    return text ? text->class : QUOIT_CLASS_SYSTEM;
}
