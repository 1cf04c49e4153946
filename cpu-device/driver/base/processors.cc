// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/base/processors.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "cpu-device/driver/base/log.h"

namespace farcall::cpu_device {
namespace {

cpu_set_t SetOf(const std::vector<int>& processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int processor : processors) CPU_SET(processor, &set);
  return set;
}

int Move(const cpu_set_t& set) {
  return sched_setaffinity(0, sizeof set, &set) == 0 ? 0 : errno;  // 0: a sandbox may know no other
}

// The kernel drops those that it has not, or that a cpuset withholds, and refuses only none at all.
bool MayRunOn(int processor) {
  cpu_set_t before;
  if (pthread_getaffinity_np(pthread_self(), sizeof before, &before) != 0) return false;
  const bool moved = Move(SetOf({processor})) == 0;
  Move(before);
  return moved;
}

bool Number(const char** text, int* value) {
  if (**text < '0' || **text > '9') return false;
  char* end = nullptr;
  const unsigned long number = strtoul(*text, &end, 10);
  *text = end;
  *value = static_cast<int>(number);
  return number < CPU_SETSIZE;
}

}  // namespace

bool ParseProcessors(const std::string& text, std::vector<int>* processors) {
  cpu_set_t seen;
  CPU_ZERO(&seen);
  processors->clear();
  for (const char* at = text.c_str();; ++at) {
    int first = 0, last = 0;
    if (!Number(&at, &first)) return false;
    last = first;
    if (*at == '-' && (!Number(&++at, &last) || last < first)) return false;
    for (int processor = first; processor <= last; ++processor) {
      if (CPU_ISSET(processor, &seen) || !MayRunOn(processor)) return false;
      CPU_SET(processor, &seen);
      processors->push_back(processor);
    }
    if (*at == '\0') return true;
    if (*at != ',') return false;
  }
}

void RunOn(const std::vector<int>& processors) {
  if (processors.empty()) return;
  if (const int error = Move(SetOf(processors)); error != 0) {
    Log(LogLevel::kWarn, "a device thread cannot run on the profile's processors: %s",
        strerror(error));
  }
}

}  // namespace farcall::cpu_device
