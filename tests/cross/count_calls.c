/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Counts crossings from outside the library: preloaded, it stands before the calls of the hot path and before the batch callback, and
 * keeps their number, 8 bytes, in the file that QUOIT_COUNT_FILE names. The file is mapped, not written at the end: a program may end without
 * running destructors, as Go's do.
 */
#define _GNU_SOURCE
#include <quoit/quoit.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_ullong unmapped;
static atomic_ullong *crossings = &unmapped;

/* The library may have been opened privately, by an extension module: then it is not what comes next in the order of symbols. */
static void *next(const char *name) {
    void *library = dlopen("libquoit.so.1", RTLD_NOLOAD | RTLD_LAZY);
    void *found = library ? dlsym(library, name) : NULL;
    if (found == NULL)
        abort();
    return found;
}

quoit_status quoit_turn(quoit_worker *worker, uint32_t nops, int64_t timeout_ns) {
    static quoit_status (*real)(quoit_worker *, uint32_t, int64_t);
    if (real == NULL)
        real = (quoit_status(*)(quoit_worker *, uint32_t, int64_t))next("quoit_turn");
    atomic_fetch_add(crossings, 1);
    return real(worker, nops, timeout_ns);
}

quoit_status quoit_turn_nb(quoit_worker *worker, uint32_t nops) {
    static quoit_status (*real)(quoit_worker *, uint32_t);
    if (real == NULL)
        real = (quoit_status(*)(quoit_worker *, uint32_t))next("quoit_turn_nb");
    atomic_fetch_add(crossings, 1);
    return real(worker, nops);
}

quoit_status quoit_submit(quoit_worker *worker, uint32_t nops) {
    static quoit_status (*real)(quoit_worker *, uint32_t);
    if (real == NULL)
        real = (quoit_status(*)(quoit_worker *, uint32_t))next("quoit_submit");
    atomic_fetch_add(crossings, 1);
    return real(worker, nops);
}

struct callback {
    quoit_batch_fn on_batch;
    void *ctx;
};

static quoit_status counted(void *ctx, quoit_worker *worker, quoit_batch *batch) {
    const struct callback *callback = ctx;
    atomic_fetch_add(crossings, 1);
    return callback->on_batch(callback->ctx, worker, batch);
}

quoit_status quoit_run(quoit_worker *worker, quoit_batch_fn on_batch, void *ctx) {
    static quoit_status (*real)(quoit_worker *, quoit_batch_fn, void *);
    struct callback callback = {on_batch, ctx};
    if (real == NULL)
        real = (quoit_status(*)(quoit_worker *, quoit_batch_fn, void *))next("quoit_run");
    return real(worker, counted, &callback);
}

__attribute__((constructor)) static void map(void) {
    const char *name = getenv("QUOIT_COUNT_FILE");
    int fd = name ? open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    if (ftruncate(fd, sizeof *crossings) == 0) {
        void *memory = mmap(NULL, sizeof *crossings, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (memory != MAP_FAILED)
            crossings = memory;
    }
    close(fd);
}
