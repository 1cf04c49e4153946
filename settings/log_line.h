// SPDX-License-Identifier: Apache-2.0
// What every log line of ours begins with, in C: a library that holds no C++ writes some too.
//
//   2026-11-28T15:51:42.226Z warn farcall-client: the text
//
// The time is UTC. The level is a value of FARCALL_LOG. The component is a program or a library of
// ours: farcall-server, farcall-worker, farcall-client, farcall-libcupti. docs/guide/monitoring.md
// lists them.
#pragma once

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

// Each level shows its own lines and those of the levels before it.
enum FarcallLogLevel {
  kFarcallOff,
  kFarcallError,
  kFarcallWarn,
  kFarcallInfo,
  kFarcallDebug,
  kFarcallTrace,
  kFarcallLogLevels  // their number
};
// The value of FARCALL_LOG.   Before: 0 <= level < kFarcallLogLevels
static inline const char* FarcallLogLevelName(int level) {
  static const char* const kNames[] = {"off", "error", "warn", "info", "debug", "trace"};
  return kNames[level];
}
// Its opposite; -1: no level is called so.
static inline int FarcallLogLevelOf(const char* name) {
  for (int level = 0; level < kFarcallLogLevels; ++level)
    if (strcmp(name, FarcallLogLevelName(level)) == 0) return level;
  return -1;
}

enum { kFarcallLogHeadBytes = 96 };  // room for any head

// Writes time, level, component and ": ", cut to `room` bytes with the final null.
// Returns the bytes written without it.   Thread  any; changes errno
static inline size_t FarcallLogHead(char* into, size_t room, const char* level,
                                    const char* component) {
  struct timespec now;
  struct tm day;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0 || gmtime_r(&now.tv_sec, &day) == NULL) {
    now.tv_sec = 0;
    now.tv_nsec = 0;
    gmtime_r(&now.tv_sec, &day);
  }
  const int bytes = snprintf(
      into, room, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ %s farcall-%s: ", day.tm_year + 1900,
      day.tm_mon + 1, day.tm_mday, day.tm_hour, day.tm_min, day.tm_sec,
      (int)(now.tv_nsec / 1000000), level, component);
  if (bytes < 0 || room == 0) return 0;
  return (size_t)bytes < room ? (size_t)bytes : room - 1;
}
