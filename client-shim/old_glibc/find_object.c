// SPDX-License-Identifier: Apache-2.0
// _dl_find_object (glibc 2.35), by which libgcc_eh.a finds an unwind table, over dl_iterate_phdr.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#ifdef DLFO_EH_SEGMENT_TYPE
struct Search {
  uintptr_t address;
  struct dl_find_object* result;
};

static int Visit(struct dl_phdr_info* object, size_t bytes __attribute__((unused)), void* data) {
  struct Search* search = data;
  int holds = 0;
  uintptr_t start = UINTPTR_MAX, end = 0, table = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* segment = &object->dlpi_phdr[i];
    const uintptr_t from = object->dlpi_addr + segment->p_vaddr;
    const uintptr_t to = from + segment->p_memsz;
    if (segment->p_type == PT_LOAD) {
      holds |= search->address >= from && search->address < to;
      start = from < start ? from : start;
      end = to > end ? to : end;
    } else if (segment->p_type == DLFO_EH_SEGMENT_TYPE) {
      table = from;
    }
  }
  if (!holds || table == 0) return 0;
  memset(search->result, 0, sizeof *search->result);
  search->result->dlfo_map_start = (void*)start;
  search->result->dlfo_map_end = (void*)end;
  search->result->dlfo_eh_frame = (void*)table;
  return 1;
}

__attribute__((visibility("hidden"))) int _dl_find_object(void* address,
                                                          struct dl_find_object* result) {
  struct Search search = {(uintptr_t)address, result};
  return dl_iterate_phdr(Visit, &search) != 0 ? 0 : -1;
}
#else
typedef int farcall_no_find_object;  // An older libgcc asks dl_iterate_phdr itself.
#endif
