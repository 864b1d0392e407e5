/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <quoit/pool.h>

#include <dlfcn.h>
#include <errno.h>

quoit_status quoit_symbol(const char *path, const char *symbol, uint64_t *address) {
    if (symbol == NULL || address == NULL)
        return QUOIT_E_ARGUMENT;
    *address = 0;
    /* Never closed: an address that was given out must stay good. */
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, symbol) : NULL;
    if (found == NULL)
        return -ENOENT;
    *address = (uint64_t)(uintptr_t)found;
    return 0;
}
