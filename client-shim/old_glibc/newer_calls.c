// SPDX-License-Identifier: Apache-2.0
// The calls newer than glibc 2.28 that our code, libstdc++.a and libgcc_eh.a make, in terms of
// older ones.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#pragma GCC visibility push(hidden)

// 2.32. Never true here: the shim has threads of its own.
char __libc_single_threaded = 0;

// 2.33, functions until then inlined by the header. The kernel's structure is libc's on x86-64.
int fstat(int fd, struct stat* out) {
  return (int)syscall(SYS_fstat, fd, out);
}
int stat(const char* path, struct stat* out) {
  return (int)syscall(SYS_newfstatat, AT_FDCWD, path, out, 0);
}
int lstat(const char* path, struct stat* out) {
  return (int)syscall(SYS_newfstatat, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}
int fstatat(int fd, const char* path, struct stat* out, int flags) {
  return (int)syscall(SYS_newfstatat, fd, path, out, flags);
}
int fstat64(int fd, struct stat64* out) {
  return fstat(fd, (struct stat*)out);
}
int stat64(const char* path, struct stat64* out) {
  return stat(path, (struct stat*)out);
}
int lstat64(const char* path, struct stat64* out) {
  return lstat(path, (struct stat*)out);
}

// 2.36; libstdc++'s random_device.
uint32_t arc4random(void) {
  uint32_t value;
  if (getentropy(&value, sizeof value) != 0) abort();
  return value;
}

// 2.38: what its headers call strtol and its kin, unless they are asked for by their plain names.
#pragma GCC visibility push(default)  // libc's; clang takes the other for what is declared, too
long PlainStrtol(const char* text, char** end, int base) __asm__("strtol");
unsigned long PlainStrtoul(const char* text, char** end, int base) __asm__("strtoul");
long long PlainStrtoll(const char* text, char** end, int base) __asm__("strtoll");
unsigned long long PlainStrtoull(const char* text, char** end, int base) __asm__("strtoull");
int PlainVsscanf(const char* text, const char* format,
                 va_list arguments) __asm__("__isoc99_vsscanf");
int PlainVfscanf(FILE* file, const char* format, va_list arguments) __asm__("__isoc99_vfscanf");
#pragma GCC visibility pop

long __isoc23_strtol(const char* text, char** end, int base) {
  return PlainStrtol(text, end, base);
}
unsigned long __isoc23_strtoul(const char* text, char** end, int base) {
  return PlainStrtoul(text, end, base);
}
long long __isoc23_strtoll(const char* text, char** end, int base) {
  return PlainStrtoll(text, end, base);
}
unsigned long long __isoc23_strtoull(const char* text, char** end, int base) {
  return PlainStrtoull(text, end, base);
}
intmax_t __isoc23_strtoimax(const char* text, char** end, int base) {
  return PlainStrtoll(text, end, base);
}
uintmax_t __isoc23_strtoumax(const char* text, char** end, int base) {
  return PlainStrtoull(text, end, base);
}
int __isoc23_vsscanf(const char* text, const char* format, va_list arguments) {
  return PlainVsscanf(text, format, arguments);
}
int __isoc23_vfscanf(FILE* file, const char* format, va_list arguments) {
  return PlainVfscanf(file, format, arguments);
}
int __isoc23_sscanf(const char* text, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int found = PlainVsscanf(text, format, arguments);
  va_end(arguments);
  return found;
}

int __isoc23_fscanf(FILE* file, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int found = PlainVfscanf(file, format, arguments);
  va_end(arguments);
  return found;
}

// 2.30. The real one where there is one; else the deadline is carried over to the condition's own
// clock, in steps of a second at most, since that clock may be set meanwhile. A caller takes an
// early return for a spurious wake.
int farcall_WaitOnRealTime(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
typedef int (*ClockWait)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
enum { kSecond = 1000000000 };

static int64_t NanosecondsUntil(clockid_t clock, const struct timespec* deadline) {
  struct timespec now;
  clock_gettime(clock, &now);
  const int64_t seconds = deadline->tv_sec - now.tv_sec;
  const int64_t clamped = seconds > 2 ? 2 : seconds < -2 ? -2 : seconds;  // no caller asks further
  return clamped * kSecond + (deadline->tv_nsec - now.tv_nsec);
}

int farcall_WaitOnRealTime(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* deadline) {
  if (clock == CLOCK_REALTIME) return pthread_cond_timedwait(condition, mutex, deadline);
  int64_t left = NanosecondsUntil(clock, deadline);
  left = left < 0 ? 0 : left > kSecond ? kSecond : left;
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += left % kSecond;
  until.tv_sec += left / kSecond + until.tv_nsec / kSecond;
  until.tv_nsec %= kSecond;
  const int result = pthread_cond_timedwait(condition, mutex, &until);
  return result == ETIMEDOUT && NanosecondsUntil(clock, deadline) > 0 ? 0 : result;
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* deadline) {
  static _Atomic(ClockWait) wait;
  ClockWait chosen = wait;
  if (chosen == NULL) {
    for (const char** version = (const char*[]){"GLIBC_2.34", "GLIBC_2.30", NULL};
         *version != NULL && chosen == NULL; ++version)
      chosen = (ClockWait)dlvsym(RTLD_DEFAULT, "pthread_cond_clockwait", *version);
    chosen = chosen == NULL ? farcall_WaitOnRealTime : chosen;
    wait = chosen;
  }
  return chosen(condition, mutex, clock, deadline);
}
