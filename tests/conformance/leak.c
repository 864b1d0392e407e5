/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * leak.c: what the library allocates it must have freed when a test ends. The allocator's functions are defined here,
 * in the program, so the shared library's calls come here too; those made from inside it are counted by address.
 * Under sanitizers LeakSanitizer does this instead.
 */
#define _GNU_SOURCE
#include "leak.h"

#include "check.h"
#include "runner.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

void leak_watch(void) {
}

void leak_check(void) {
}

#else

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

#define SLOTS (1u << 20)

struct block {
    uintptr_t address, site;
};

static struct block blocks[SLOTS];
static size_t live;
static uintptr_t code_from, code_to;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t home(uintptr_t address) {
    return (address >> 4) * 0x9E3779B97F4A7C15u >> 44;
}

static bool is_library(uintptr_t site) {
    return site >= code_from && site < code_to;
}

static void note(void *memory, void *caller) {
    uintptr_t site = (uintptr_t)caller;
    if (!memory || !is_library(site))
        return;
    pthread_mutex_lock(&lock);
    size_t at = home((uintptr_t)memory);
    while (blocks[at].address)
        at = (at + 1) % SLOTS;
    blocks[at] = (struct block){(uintptr_t)memory, site};
    if (++live > SLOTS / 2)
        FAIL("the library holds more than %u allocations", SLOTS / 2);
    pthread_mutex_unlock(&lock);
}

/* Takes an entry out and moves those behind it up, so that no search meets a hole. */
static void forget(void *memory) {
    if (!memory || !live)
        return;
    pthread_mutex_lock(&lock);
    size_t at = home((uintptr_t)memory);
    while (blocks[at].address && blocks[at].address != (uintptr_t)memory)
        at = (at + 1) % SLOTS;
    if (blocks[at].address) {
        live--;
        for (size_t next = (at + 1) % SLOTS; blocks[next].address; next = (next + 1) % SLOTS) {
            size_t want = home(blocks[next].address);
            if ((next - want) % SLOTS >= (next - at) % SLOTS) {
                blocks[at] = blocks[next];
                at = next;
            }
        }
        blocks[at].address = 0;
    }
    pthread_mutex_unlock(&lock);
}

#define EXPORT __attribute__((visibility("default"), used))

EXPORT void *malloc(size_t size) {
    void *memory = __libc_malloc(size);
    note(memory, __builtin_return_address(0));
    return memory;
}

EXPORT void *calloc(size_t count, size_t size) {
    void *memory = __libc_calloc(count, size);
    note(memory, __builtin_return_address(0));
    return memory;
}

EXPORT void *realloc(void *old, size_t size) {
    forget(old);
    void *memory = __libc_realloc(old, size);
    note(memory, __builtin_return_address(0));
    return memory;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    void *memory = __libc_memalign(alignment, size);
    note(memory, __builtin_return_address(0));
    return memory;
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t size) {
    void *memory = __libc_memalign(alignment, size);
    if (!memory)
        return ENOMEM;
    note(memory, __builtin_return_address(0));
    *out = memory;
    return 0;
}

EXPORT void free(void *memory) {
    forget(memory);
    __libc_free(memory);
}

static int find_library(struct dl_phdr_info *info, size_t size, void *context) {
    uintptr_t known = *(uintptr_t *)context;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + header->p_vaddr, to = from + header->p_memsz;
        if (header->p_type == PT_LOAD && header->p_flags & PF_X && known >= from && known < to) {
            code_from = from;
            code_to = to;
            return 1;
        }
    }
    return 0;
}

void leak_watch(void) {
    /* Asked of the library itself: an address taken here may be that of a stub of this program. */
    void *self = dlopen("libquoit.so.1", RTLD_NOW | RTLD_NOLOAD);
    CHECK(self != NULL);
    uintptr_t symbol = (uintptr_t)dlsym(self, "quoit_version");
    dlclose(self);
    CHECK(symbol != 0);
    dl_iterate_phdr(find_library, &symbol);
    CHECK(code_to != 0);
}

void leak_check(void) {
    for (size_t i = 0; i < SLOTS && live; i++)
        if (blocks[i].address)
            FAIL("%zu allocations of the library are not freed; one was made at libquoit.so.1+0x%lx", live,
                 (unsigned long)(blocks[i].site - code_from));
}

#endif
