// SPDX-License-Identifier: Apache-2.0
// An auditor of the dynamic loader (LD_AUDIT, rtld-audit(7)): a search for a library that lies beside this one ends here, whatever RPATH
// or absolute path the program has for it. Searches for anything else are left as they are. `farcall run` sets it.
//
// Runs inside the loader, in a namespace of its own, before the program: no allocation, no output, C alone.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// What a driver-mode program may take from us. libcuda is here too: some programs open it by its path.
static const char* const kNames[] = {"libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1", "libnccl.so.2"};
enum { kCount = sizeof(kNames) / sizeof(kNames[0]) };
// "" where the folder has no such file. Stays: the loader keeps the pointer.
static char g_paths[kCount][PATH_MAX];

__attribute__((visibility("default"))) unsigned la_version(unsigned version) {
  Dl_info own;
  const char* slash = NULL;
  if (dladdr(&g_paths, &own) != 0 && own.dli_fname != NULL) slash = strrchr(own.dli_fname, '/');
  for (int i = 0; slash != NULL && i < kCount; ++i) {
    int length = snprintf(g_paths[i], PATH_MAX, "%.*s/%s", (int)(slash - own.dli_fname), own.dli_fname, kNames[i]);
    if (length < 0 || length >= PATH_MAX || access(g_paths[i], R_OK) != 0) g_paths[i][0] = '\0';
  }
  return version < LAV_CURRENT ? version : LAV_CURRENT;
}

// A driver of a server's own, opened by its path, is no business of ours.
static bool IsDevice(const char* name, const char* base) {
  static const char kFolder[] = "/farcall/device/";
  return base - name >= (long)sizeof(kFolder) - 1 && strncmp(base - (sizeof(kFolder) - 1), kFolder, sizeof(kFolder) - 1) == 0;
}

__attribute__((visibility("default"))) char* la_objsearch(const char* name, uintptr_t* cookie, unsigned flag) {
  (void)cookie;
  if (flag != LA_SER_ORIG) return (char*)name;
  const char* slash = strrchr(name, '/');
  const char* base = slash == NULL ? name : slash + 1;
  for (int i = 0; i < kCount; ++i) {
    if (g_paths[i][0] != '\0' && strcmp(base, kNames[i]) == 0 && !IsDevice(name, base)) return g_paths[i];
  }
  return (char*)name;
}
