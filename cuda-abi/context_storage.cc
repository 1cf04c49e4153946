// SPDX-License-Identifier: Apache-2.0
#include "cuda-abi/context_storage.h"

#include <mutex>
#include <unordered_map>
#include <utility>

namespace farcall::cuda_abi {
namespace {

struct Slot {
  void* value;
  ContextStorageDestructor destroy;
};

struct Storage {
  std::mutex mutex;
  std::unordered_map<ContextHandle, std::unordered_map<void*, Slot>> contexts;
};

// Leaked: cudart's own teardown asks after static destructors have run.
Storage& TheStorage() {
  static Storage* storage = new Storage;
  return *storage;
}

}  // namespace

void PutContextStorage(ContextHandle context, void* key, void* value,
                       ContextStorageDestructor destroy) {
  Storage& storage = TheStorage();
  std::lock_guard lock(storage.mutex);
  storage.contexts[context][key] = {value, destroy};
}

bool DeleteContextStorage(ContextHandle context, void* key) {
  Storage& storage = TheStorage();
  std::lock_guard lock(storage.mutex);
  const auto found = storage.contexts.find(context);
  return found != storage.contexts.end() && found->second.erase(key) != 0;
}

bool GetContextStorage(ContextHandle context, void* key, void** value) {
  Storage& storage = TheStorage();
  std::lock_guard lock(storage.mutex);
  const auto found = storage.contexts.find(context);
  if (found == storage.contexts.end()) return false;
  const auto slot = found->second.find(key);
  if (slot == found->second.end()) return false;
  *value = slot->second.value;
  return true;
}

void DestroyContextStorage(ContextHandle context) {
  Storage& storage = TheStorage();
  std::unordered_map<void*, Slot> slots;
  {
    std::lock_guard lock(storage.mutex);
    const auto found = storage.contexts.find(context);
    if (found == storage.contexts.end()) return;
    slots = std::move(found->second);
    storage.contexts.erase(found);
  }
  // Outside the lock: a destructor may use the storage again.
  for (const auto& [key, slot] : slots)
    if (slot.destroy != nullptr) slot.destroy(context, key, slot.value);
}

}  // namespace farcall::cuda_abi
