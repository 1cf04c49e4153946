// SPDX-License-Identifier: Apache-2.0
// Preloaded by `farcall run` where the host has no NVIDIA device nodes: to whoever asks whether
// /dev/nvidia0 or /dev/nvidiactl exists (JAX does, before it loads CUDA) they do. Nobody can open
// them. All other questions go to the kernel as they are.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { kMajor = 195, kControlMinor = 255 };  // the numbers NVIDIA's driver has

// The minor number of the node that `path` names; -1: another file.
static int NodeMinor(const char* path) {
  if (path == NULL || strncmp(path, "/dev/nvidia", 11) != 0) return -1;
  if (strcmp(path + 11, "0") == 0) return 0;
  return strcmp(path + 11, "ctl") == 0 ? kControlMinor : -1;
}

static int FillNode(int minor, struct stat* out) {
  memset(out, 0, sizeof(*out));
  out->st_mode = S_IFCHR | 0666;
  out->st_nlink = 1;
  out->st_rdev = makedev(kMajor, (unsigned)minor);
  return 0;
}

static int StatAt(int folder, const char* path, struct stat* out, int flags) {
  int minor = NodeMinor(path);
  if (minor >= 0 && out != NULL) return FillNode(minor, out);
  return (int)syscall(SYS_newfstatat, folder, path, out, flags);
}

static int AccessAt(int folder, const char* path, int mode) {
  if (NodeMinor(path) >= 0) return 0;
  return (int)syscall(SYS_faccessat, folder, path, mode);
}

EXPORT int stat(const char* restrict path, struct stat* restrict out) {
  return StatAt(AT_FDCWD, path, out, 0);
}
EXPORT int lstat(const char* restrict path, struct stat* restrict out) {
  return StatAt(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}
EXPORT int fstatat(int folder, const char* restrict path, struct stat* restrict out, int flags) {
  return StatAt(folder, path, out, flags);
}
EXPORT int access(const char* path, int mode) {
  return AccessAt(AT_FDCWD, path, mode);
}

// The same under the names of large files and of older C libraries; on 64 bits the record is one.
struct stat64;
EXPORT int stat64(const char* restrict path, struct stat64* restrict out) {
  return StatAt(AT_FDCWD, path, (struct stat*)out, 0);
}
EXPORT int lstat64(const char* restrict path, struct stat64* restrict out) {
  return StatAt(AT_FDCWD, path, (struct stat*)out, AT_SYMLINK_NOFOLLOW);
}
EXPORT int fstatat64(int folder, const char* restrict path, struct stat64* restrict out,
                     int flags) {
  return StatAt(folder, path, (struct stat*)out, flags);
}
EXPORT int __xstat(int version, const char* path, struct stat* out) {
  (void)version;
  return StatAt(AT_FDCWD, path, out, 0);
}
EXPORT int __xstat64(int version, const char* path, struct stat64* out) {
  return __xstat(version, path, (struct stat*)out);
}
EXPORT int __lxstat(int version, const char* path, struct stat* out) {
  (void)version;
  return StatAt(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}
EXPORT int __lxstat64(int version, const char* path, struct stat64* out) {
  return __lxstat(version, path, (struct stat*)out);
}
