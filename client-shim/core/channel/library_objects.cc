// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/channel/library_objects.h"

#include <deque>
#include <mutex>
#include <unordered_map>

#include "client-shim/core/report/log.h"

namespace farcall::client {

namespace {

std::atomic<uint64_t> g_late{0};
std::atomic<uint64_t> g_serial{0};

struct Late {
  uint16_t function;
  int status;
};
std::mutex g_late_mutex;
constexpr size_t kMaxLate = 4096;  // objects; a program that never looks must not grow us

std::unordered_map<uint64_t, Late>& Lates() {
  static auto* lates = new std::unordered_map<uint64_t, Late>;
  return *lates;
}

// Slots lie in blocks that double, so that an address is recognised by a handful of comparisons
// without looking at what it points to.
constexpr size_t kFirstBlock = 1024;
constexpr size_t kBlocks = 12;
constexpr size_t kReuseLate = 256;  // freed slots before one is used again

struct Block {
  std::atomic<LibraryObject*> slots{nullptr};
  size_t count = 0;
};
Block g_blocks[kBlocks];
std::mutex g_objects_mutex;
size_t g_used_in_last = 0;
int g_last = -1;

std::deque<LibraryObject*>& FreeSlots() {
  static auto* slots = new std::deque<LibraryObject*>;
  return *slots;
}

LibraryObject* TakeSlotLocked() {
  if (FreeSlots().size() > kReuseLate) {
    LibraryObject* slot = FreeSlots().front();
    FreeSlots().pop_front();
    return slot;
  }
  if (g_last < 0 || g_used_in_last == g_blocks[g_last].count) {
    if (g_last + 1 == static_cast<int>(kBlocks)) return nullptr;
    size_t count = kFirstBlock << (g_last + 1);
    auto* slots = new LibraryObject[count]();
    ++g_last;
    g_blocks[g_last].count = count;
    g_blocks[g_last].slots.store(slots, std::memory_order_release);
    g_used_in_last = 0;
  }
  return &g_blocks[g_last].slots.load(std::memory_order_relaxed)[g_used_in_last++];
}

}  // namespace

LibraryObject* NewLibraryObject(uint8_t library, uint8_t kind, void* state) {
  std::lock_guard lock(g_objects_mutex);
  LibraryObject* slot = TakeSlotLocked();
  if (slot == nullptr) return nullptr;
  slot->state = state;
  slot->id.store(MakeLibraryObject(static_cast<LibraryId>(library), kind, ++g_serial),
                 std::memory_order_release);
  return slot;
}

LibraryObject* FindLibraryObject(const void* handle) {
  auto address = reinterpret_cast<uintptr_t>(handle);
  for (Block& block : g_blocks) {
    LibraryObject* slots = block.slots.load(std::memory_order_acquire);
    if (slots == nullptr) return nullptr;
    auto first = reinterpret_cast<uintptr_t>(slots);
    if (address < first || address - first >= block.count * sizeof(LibraryObject)) continue;
    if ((address - first) % sizeof(LibraryObject) != 0) return nullptr;
    LibraryObject* found = &slots[(address - first) / sizeof(LibraryObject)];
    return found->id.load(std::memory_order_acquire) == 0 ? nullptr : found;
  }
  return nullptr;
}

void EndLibraryObject(LibraryObject* object) {
  uint64_t id = object->id.exchange(0);
  {
    std::lock_guard lock(g_late_mutex);
    Lates().erase(id);
  }
  std::lock_guard lock(g_objects_mutex);
  FreeSlots().push_back(object);
}

bool TakeLibraryFailure(uint64_t object, uint16_t* function, int* status) {
  std::lock_guard lock(g_late_mutex);
  auto found = Lates().find(object);
  if (found == Lates().end()) return false;
  *function = found->second.function;
  *status = found->second.status;
  Lates().erase(found);
  return true;
}

void NoteLibraryFailure(uint64_t object, uint16_t library, uint16_t function, int status) {
  Log(LogLevel::kWarn, "function %u of library %u failed on the server with %d", function, library,
      status);
  std::lock_guard lock(g_late_mutex);
  if (Lates().size() < kMaxLate) Lates().emplace(object, Late{function, status});
  g_late.fetch_add(1, std::memory_order_release);
}

const std::atomic<uint64_t>& LibraryFailures() {
  return g_late;
}

}  // namespace farcall::client
