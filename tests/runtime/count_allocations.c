// Preloaded into a process: counts how often code of one shared library allocates memory. A library that has the C++
// runtime inside calls the C library's functions itself.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uintptr_t from, to;
static atomic_long count, most;

static int find(struct dl_phdr_info* info, size_t size, void* name) {
  (void)size;
  if (!strstr(info->dlpi_name, name)) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &info->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
    from = info->dlpi_addr + part->p_vaddr;
    to = from + part->p_memsz;
  }
  return 1;
}

// Begins to count the allocations of the loaded library whose path holds `name`; 0 if there is none.
int watch(char* name) { return dl_iterate_phdr(find, name); }

long allocations(void) { return count; }

// Bytes of the largest block that aligned_alloc was asked for, which is what scratch memory comes from.
long largest(void) { return most; }

#define COUNTED(type, name, parameters, arguments)                                           \
  type name parameters {                                                                     \
    static type(*next) parameters;                                                           \
    if (!next) next = (type(*) parameters)dlsym(RTLD_NEXT, #name);                           \
    const uintptr_t caller = (uintptr_t)__builtin_return_address(0);                         \
    if (caller >= from && caller < to) ++count;                                              \
    return next arguments;                                                                   \
  }

COUNTED(void*, malloc, (size_t bytes), (bytes))
COUNTED(void*, realloc, (void* old, size_t bytes), (old, bytes))
void* aligned_alloc(size_t alignment, size_t bytes) {
  static void* (*next)(size_t, size_t);
  if (!next) next = (void* (*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
  const uintptr_t caller = (uintptr_t)__builtin_return_address(0);
  if (caller >= from && caller < to) {
    ++count;
    if ((long)bytes > most) most = (long)bytes;
  }
  return next(alignment, bytes);
}
COUNTED(int, posix_memalign, (void** place, size_t alignment, size_t bytes), (place, alignment, bytes))

// dlsym itself calls calloc the first time, so this one goes to the C library by its inner name.
extern void* __libc_calloc(size_t number, size_t bytes);
void* calloc(size_t number, size_t bytes) {
  const uintptr_t caller = (uintptr_t)__builtin_return_address(0);
  if (caller >= from && caller < to) ++count;
  return __libc_calloc(number, bytes);
}
