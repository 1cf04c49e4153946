// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/texture/texture.h"

#include <atomic>
#include <deque>
#include <mutex>

namespace farcall::cpu_device::texture {
namespace {

constexpr uint32_t kSlots = 1u << 20;  // as many as CUDA's bindless handles
constexpr size_t kKept = 4096;         // objects that are gone, for kernels that still run

struct Table {
  std::mutex mutex;
  std::deque<uint32_t> free;
  std::deque<std::unique_ptr<Object>> gone;
  uint32_t next = 0;
  std::vector<uint32_t> generations;
  // Not in the object file: most of it is never touched.
  std::unique_ptr<std::atomic<const Object*>[]> objects {
    new std::atomic<const Object*>[ kSlots ]()
  };
  std::unique_ptr<std::atomic<uint64_t>[]> handles { new std::atomic<uint64_t>[ kSlots ]() };
};

Table& TheTable() {
  static auto* table = new Table;
  return *table;
}

// The slot in the low 20 bits, from 1 on; a count above, so that an old handle finds nothing new.
uint64_t HandleOf(uint32_t slot, uint32_t generation) {
  return (uint64_t{generation} << 32) | (slot + 1);
}

}  // namespace

uint32_t Texels::TexelBytes() const {
  switch (texel) {
    case Texel::kU8:
    case Texel::kS8:
      return channels;
    case Texel::kU16:
    case Texel::kS16:
    case Texel::kHalf:
      return 2u * channels;
    default:
      return 4u * channels;
  }
}

bool Texels::HoldsIntegers() const {
  return texel == Texel::kU32 || texel == Texel::kS32;
}

uint64_t Register(std::unique_ptr<Object> object) {
  Table& table = TheTable();
  std::lock_guard lock(table.mutex);
  uint32_t slot = 0;
  if (table.next < kSlots - 1) {
    slot = table.next++;
    table.generations.push_back(0);
  } else if (!table.free.empty()) {
    slot = table.free.front();
    table.free.pop_front();
  } else {
    return 0;
  }
  const uint64_t handle = HandleOf(slot, table.generations[slot]++);
  table.objects[slot].store(object.release(), std::memory_order_relaxed);
  table.handles[slot].store(handle, std::memory_order_release);
  return handle;
}

bool Unregister(uint64_t handle, bool is_surface) {
  Table& table = TheTable();
  std::lock_guard lock(table.mutex);
  const Object* found = Find(handle);
  if (found == nullptr || found->is_surface != is_surface) return false;
  const auto slot = static_cast<uint32_t>(handle & 0xFFFFFFFF) - 1;
  table.handles[slot].store(0, std::memory_order_release);
  table.gone.emplace_back(const_cast<Object*>(found));
  if (table.gone.size() > kKept) table.gone.pop_front();
  table.free.push_back(slot);
  return true;
}

const Object* Find(uint64_t handle) {
  Table& table = TheTable();
  const uint64_t low = handle & 0xFFFFFFFF;
  if (low == 0 || low > kSlots) return nullptr;
  const auto slot = static_cast<uint32_t>(low - 1);
  if (table.handles[slot].load(std::memory_order_acquire) != handle) return nullptr;
  return table.objects[slot].load(std::memory_order_relaxed);
}

uint32_t Ask(const Object& object, Query query, uint32_t level) {
  const Texels& texels = object.texels;
  if (level >= texels.levels.size()) return 0;
  const Level& at = texels.levels[level];
  switch (query) {
    case Query::kWidth:
      return at.width;
    case Query::kHeight:
      return texels.dimensions >= 2 ? at.height : 0;
    case Query::kDepth:
      return texels.dimensions >= 3 ? at.depth : 0;
    case Query::kDataType: {
      // The ISA's numbers: snorm8 0x10D0 and on, in its order of types.
      constexpr uint32_t kFirst = 0x10D0;
      constexpr uint32_t kByTexel[] = {10, 11, 12, 7, 8, 9, 13, 14};
      return kFirst + kByTexel[static_cast<int>(texels.texel)];
    }
    case Query::kOrder: {
      constexpr uint32_t kR = 0x10B0, kRg = 0x10B2, kRgba = 0x10B5;
      return texels.channels == 1 ? kR : texels.channels == 2 ? kRg : kRgba;
    }
    case Query::kNormalized:
      return object.sampler.normalized ? 1 : 0;
    case Query::kLevels:
      return static_cast<uint32_t>(texels.levels.size());
    case Query::kSamples:
      return 1;
    case Query::kLayers:
      return texels.layered ? at.depth / (texels.cubemap ? 6 : 1) : 0;
  }
  return 0;
}

}  // namespace farcall::cpu_device::texture
