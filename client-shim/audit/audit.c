// SPDX-License-Identifier: Apache-2.0
// An auditor of the dynamic loader (LD_AUDIT, rtld-audit(7)): a search for a library that lies
// beside this one ends here, whatever RPATH or absolute path the program has for it; with
// FARCALL_THIN=1, for those in thin/ too. Searches for anything else are left as they are. `farcall
// run` sets it.
//
// Runs inside the loader, in a namespace of its own, before the program: no allocation, no output,
// C alone.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client-shim/audit/thin_groups.h"

// What a driver-mode program may take from us. libcuda is here too: some programs open it by its
// path.
static const char* const kDriverNames[] = {"libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1",
                                           "libnccl.so.2"};
enum {
  kDriverCount = sizeof(kDriverNames) / sizeof(kDriverNames[0]),
  kMax = kDriverCount + kThinGroupCount * kThinGroupMost
};

// Names that are ours and where they lie. Stays: the loader keeps the pointers.
static const char* g_names[kMax];
static char g_paths[kMax][PATH_MAX];
static int g_count;
static char g_thin[PATH_MAX];  // the folder, "" in driver mode

static bool Locate(const char* folder, int length, const char* name, char* path) {
  int written = snprintf(path, PATH_MAX, "%.*s/%s", length, folder, name);
  return written > 0 && written < PATH_MAX && access(path, R_OK) == 0;
}

static void Add(const char* folder, int length, const char* name) {
  if (!Locate(folder, length, name, g_paths[g_count])) return;
  g_names[g_count++] = name;
}

static void AddThin(const char* own, int length) {
  const char* folder = g_thin;
  char path[PATH_MAX];
  length = snprintf(g_thin, sizeof(g_thin), "%.*s/thin", length, own);
  if (length < 0 || length >= PATH_MAX) return;
  for (int group = 0; group < kThinGroupCount; ++group) {
    bool whole = true;
    for (int i = 0; i < kThinGroupMost && kThinGroups[group][i] != NULL; ++i)
      whole = whole && Locate(folder, length, kThinGroups[group][i], path);
    for (int i = 0; whole && i < kThinGroupMost && kThinGroups[group][i] != NULL; ++i)
      Add(folder, length, kThinGroups[group][i]);
  }
}

// The tree's own bin/farcall: a server started inside a program's environment wants the real
// libraries, not the client's.
static bool IsOwnProgram(const char* own, int length) {
  static const char kFolder[] = "/lib/farcall";
  const int tail = (int)sizeof(kFolder) - 1;
  if (length < tail || strncmp(own + length - tail, kFolder, (size_t)tail) != 0) return false;
  char wanted[PATH_MAX], program[PATH_MAX];
  const ssize_t read = readlink("/proc/self/exe", program, sizeof(program) - 1);
  if (read <= 0) return false;
  program[read] = '\0';
  const int written = snprintf(wanted, sizeof(wanted), "%.*s/bin/farcall", length - tail, own);
  return written > 0 && written < PATH_MAX && strcmp(program, wanted) == 0;
}

__attribute__((visibility("default"))) unsigned la_version(unsigned version) {
  Dl_info own;
  const char* slash = NULL;
  if (dladdr(&g_paths, &own) != 0 && own.dli_fname != NULL) slash = strrchr(own.dli_fname, '/');
  const int length = slash == NULL ? 0 : (int)(slash - own.dli_fname);
  if (slash != NULL && !IsOwnProgram(own.dli_fname, length)) {
    for (int i = 0; i < kDriverCount; ++i) Add(own.dli_fname, length, kDriverNames[i]);
    const char* thin = getenv("FARCALL_THIN");
    if (thin != NULL && strcmp(thin, "1") == 0) AddThin(own.dli_fname, length);
  }
  return version < LAV_CURRENT ? version : LAV_CURRENT;
}

// A driver of a server's own, opened by its path, is no business of ours.
static bool IsDevice(const char* name, const char* base) {
  static const char kFolder[] = "/farcall/device/";
  return base - name >= (long)sizeof(kFolder) - 1 &&
         strncmp(base - (sizeof(kFolder) - 1), kFolder, sizeof(kFolder) - 1) == 0;
}

static char* Ours(const char* base, size_t length) {
  for (int i = 0; i < g_count; ++i)
    if (strlen(g_names[i]) == length && strncmp(base, g_names[i], length) == 0) return g_paths[i];
  return NULL;
}

// `base` as it stands, without its minor version (libcublas.so.13.1.0 is libcublas.so.13), or the
// library that it is a part of.
static char* Find(const char* base) {
  for (int i = 0; i < kThinPartCount; ++i)
    if (strncmp(base, kThinParts[i].start, strlen(kThinParts[i].start)) == 0 &&
        strstr(base, kThinParts[i].inside) != NULL)
      return Ours(kThinParts[i].whole, strlen(kThinParts[i].whole));
  const char* suffix = strstr(base, ".so");
  size_t length = strlen(base);
  char* path = Ours(base, length);
  while (path == NULL && suffix != NULL && length > (size_t)(suffix - base) + 3) {
    do --length;
    while (base[length] != '.');
    path = Ours(base, length);
  }
  return path;
}

// A library in thin/ whose group is not whole stays where it is, although LD_LIBRARY_PATH leads
// there.
static bool IsLeftAlone(const char* path) {
  const size_t length = strlen(g_thin);
  return length != 0 && strncmp(path, g_thin, length) == 0 && path[length] == '/' &&
         Ours(path + length + 1, strlen(path + length + 1)) == NULL;
}

__attribute__((visibility("default"))) char* la_objsearch(const char* name, uintptr_t* cookie,
                                                          unsigned flag) {
  (void)cookie;
  // No file has that name: null would end the search, where an earlier failure left another errno
  // than ENOENT.
  static char no_file[] = "";
  if (flag != LA_SER_ORIG) return IsLeftAlone(name) ? no_file : (char*)name;
  const char* slash = strrchr(name, '/');
  const char* base = slash == NULL ? name : slash + 1;
  if (IsDevice(name, base)) return (char*)name;
  char* path = Find(base);
  if (path == NULL && slash != NULL) {
    // A developer's name, such as libcublas.so, that leads to the library's.
    char target[PATH_MAX];
    ssize_t length = readlink(name, target, sizeof(target) - 1);
    if (length <= 0) return (char*)name;
    target[length] = '\0';
    slash = strrchr(target, '/');
    path = Find(slash == NULL ? target : slash + 1);
  }
  return path == NULL ? (char*)name : path;
}
