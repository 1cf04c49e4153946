// SPDX-License-Identifier: Apache-2.0
#include "client-shim/thin/numbers.h"

#include <cstddef>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "client-shim/thin/forked.h"

namespace farcall::thin {

namespace {

constexpr size_t kMax = 1u << 16;

std::shared_mutex g_mutex;
// Never destroyed: handlers of exit may still use it.
std::vector<void*>& Objects() {
  static auto* objects = new std::vector<void*>;
  return *objects;
}

bool IsTaken(int number) {
  return number > 0 && static_cast<size_t>(number) <= Objects().size();
}

}  // namespace

int TakeNumber(void* object) {
  if (IsForked()) return 0;
  std::unique_lock lock(g_mutex);
  std::vector<void*>& objects = Objects();
  size_t at = 0;
  while (at < objects.size() && objects[at] != nullptr) ++at;
  if (at == kMax) return 0;
  if (at == objects.size()) objects.push_back(nullptr);
  objects[at] = object;
  return static_cast<int>(at) + 1;
}

const void* ObjectOfNumber(int number) {
  if (IsForked()) return nullptr;
  std::shared_lock lock(g_mutex);
  return IsTaken(number) ? Objects()[static_cast<size_t>(number) - 1] : nullptr;
}

void FreeNumber(int number) {
  if (IsForked()) return;
  std::unique_lock lock(g_mutex);
  if (IsTaken(number)) Objects()[static_cast<size_t>(number) - 1] = nullptr;
}

}  // namespace farcall::thin
