// SPDX-License-Identifier: Apache-2.0
// cp.async.bulk.tensor in tile mode: a box of a tensor to shared memory, or back, element by
// element.
#include <bit>
#include <cstring>

#include "cpu-device/exec/cluster.h"
#include "cpu-device/exec/fault.h"
#include "cpu-device/exec/mbarrier.h"
#include "cpu-device/exec/tensor_map.h"

namespace farcall::cpu_device {
namespace {

// Of a shared::cluster address.
constexpr uint32_t kRankShift = 24;
constexpr uint64_t kOffsetMask = (1u << kRankShift) - 1;
constexpr uint64_t kLineBytes = 128;

// CU_TENSOR_MAP_SWIZZLE_*: none, 32, 64, 128 bytes, then atoms of other sizes.
constexpr uint32_t kLastPlainSwizzle = 3;

// The 16-byte pieces of a line of 128 bytes change places: in the address within shared memory, the
// bits that number them are xored with as many of the line's number.
uint64_t Swizzled(uint64_t address, uint32_t swizzle) {
  const uint64_t mask = (1u << swizzle) - 1;  // 1, 3, 7: pieces in 32, 64, 128 bytes
  return address ^ ((address >> 7 & mask) << 4);
}

// What a value outside the tensor reads as.
void Fill(const TensorMap& map, uint8_t* at) {
  memset(at, 0, map.element_bytes);
  if (map.fill != TensorFill::kNan) return;
  // The type's quiet NaN, all bits of its payload set: a half, a bfloat16, a float or a double.
  memset(at, 0xff, map.element_bytes);
  at[map.element_bytes - 1] = 0x7f;
}

const TensorMap& MapAt(BlockContext* block, uint64_t address, uint32_t rank, uint32_t line) {
  if (address % 64 != 0) {
    RaiseFault(ExecStatus::kMisaligned,
               "a tensor map at 0x%llx: want a multiple of 64 (PTX line %u)",
               static_cast<unsigned long long>(address), line);
  }
  for (uint64_t at = 0; at < sizeof(TensorMap); at += 8) CheckAccess(block, address + at, 8, line);
  const auto* map = reinterpret_cast<const TensorMap*>(address);
  if (map->mark != kTensorMapMark) {
    RaiseFault(ExecStatus::kTrap, "no tensor map at 0x%llx (PTX line %u)",
               static_cast<unsigned long long>(address), line);
  }
  if (map->rank != rank || map->is_im2col != 0 || map->element_bytes == 0 || map->interleave != 0 ||
      map->swizzle > kLastPlainSwizzle) {
    RaiseFault(
        ExecStatus::kTrap,
        "a tensor map of rank %u, im2col %u, type %u, interleave %u, swizzle %u: want one of "
        "rank %u in tile mode of whole bytes, interleave 0, swizzle 0 to 3 (PTX line %u)",
        map->rank, map->is_im2col, map->type, map->interleave, map->swizzle, rank, line);
  }
  return *map;
}

struct Box {
  uint32_t counts[kMaxTensorRank] = {1, 1, 1, 1, 1};  // elements in each dimension, after the steps
  uint64_t elements = 1;
};

Box BoxOf(const TensorMap& map) {
  Box box;
  for (uint32_t i = 0; i < map.rank; ++i) {
    // The innermost dimension is never stepped through without interleaving.
    const uint32_t step = i == 0 ? 1 : map.steps[i];
    box.counts[i] = (map.box[i] + step - 1) / step;
    box.elements *= box.counts[i];
  }
  return box;
}

// `shared` is where shared address `base` lies, and the box from there on.
void CopyBox(BlockContext* block, const TensorMap& map, const Box& box, const int32_t* coordinates,
             uint8_t* shared, uint64_t base, bool store, uint32_t line) {
  const uint64_t element = map.element_bytes;
  for (uint64_t n = 0; n < box.elements; ++n) {
    uint64_t rest = n, offset = 0;
    bool inside = true;
    for (uint32_t i = 0; i < map.rank; ++i) {
      const uint64_t index = rest % box.counts[i] * (i == 0 ? 1 : map.steps[i]);
      rest /= box.counts[i];
      const int64_t at = int64_t{coordinates[i]} + static_cast<int64_t>(index);
      inside = inside && at >= 0 && static_cast<uint64_t>(at) < map.dims[i];
      offset += static_cast<uint64_t>(at) * (i == 0 ? element : map.strides[i - 1]);
    }
    uint8_t* here = shared + (Swizzled(base + n * element, map.swizzle) - base);
    if (!inside) {
      if (!store) Fill(map, here);
      continue;
    }
    auto* there = reinterpret_cast<uint8_t*>(map.address + offset);
    CheckAccess(block, map.address + offset, static_cast<uint32_t>(element), line);
    memcpy(store ? there : here, store ? here : there, element);
  }
}

// Shared memory of a box, to the end of its last line: swizzled pieces stay in theirs.
uint8_t* SharedOf(BlockContext* block, uint64_t address, uint64_t bytes, bool any_block,
                  uint32_t line) {
  if (address % kLineBytes != 0) {
    RaiseFault(ExecStatus::kMisaligned,
               "a tensor copy at shared address 0x%llx: want a multiple of 128 (PTX line %u)",
               static_cast<unsigned long long>(address), line);
  }
  const bool is_foreign = !any_block && address >> kRankShift != 0;
  uint8_t* pointer = is_foreign ? nullptr : ClusterPointer(block, address, bytes);
  if (pointer == nullptr) {
    RaiseFault(
        ExecStatus::kIllegalAddress,
        "a tensor copy of %llu bytes at shared address 0x%llx, a block has %llu (PTX line %u)",
        static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(address),
        static_cast<unsigned long long>(block->shared_bytes), line);
  }
  return pointer;
}

extern "C" {

// Returns the bytes that an mbarrier is told of: those of the whole box, filled ones with them.
uint32_t fc_rt_tensor_copy(BlockContext* block, uint64_t map_address, const int32_t* coordinates,
                           uint64_t shared, uint32_t what, uint32_t line) {
  const TensorMap& map = MapAt(block, map_address, what & kTensorRankMask, line);
  const Box box = BoxOf(map);
  const uint64_t bytes = box.elements * map.element_bytes;
  const uint64_t held = map.swizzle == 0 ? bytes : (bytes + kLineBytes - 1) & ~(kLineBytes - 1);
  uint8_t* at = SharedOf(block, shared, held, (what & kTensorAnyBlock) != 0, line);
  CopyBox(block, map, box, coordinates, at, shared & kOffsetMask, (what & kTensorStore) != 0, line);
  return static_cast<uint32_t>(bytes);
}

// The same offset in each block of `ranks`, and its mbarrier there.
void fc_rt_tensor_multicast(BlockContext* block, uint64_t map, const int32_t* coordinates,
                            uint64_t shared, uint32_t what, uint64_t object, uint32_t ranks,
                            uint32_t line) {
  for (; ranks != 0; ranks &= ranks - 1) {
    const uint64_t high = (static_cast<uint64_t>(std::countr_zero(ranks)) + 1) << kRankShift;
    const uint32_t bytes = fc_rt_tensor_copy(block, map, coordinates, high | (shared & kOffsetMask),
                                             what | kTensorAnyBlock, line);
    const uint64_t there = high | (object & kOffsetMask);
    auto* barrier = reinterpret_cast<uint64_t*>(ClusterPointer(block, there, 8));
    const char* error = barrier == nullptr || there % 8 != 0
                            ? "an mbarrier outside of a block's shared memory"
                            : AddMbarrierBytes(barrier, -int64_t{bytes});
    if (error != nullptr) RaiseFault(ExecStatus::kTrap, "%s (PTX line %u)", error, line);
  }
}

}  // extern "C"

const RuntimeSymbol kSymbols[] = {
    {"fc_rt_tensor_copy", reinterpret_cast<void*>(fc_rt_tensor_copy)},
    {"fc_rt_tensor_multicast", reinterpret_cast<void*>(fc_rt_tensor_multicast)},
};

}  // namespace

const RuntimeSymbol* TensorSymbols(unsigned* count) {
  *count = sizeof(kSymbols) / sizeof(kSymbols[0]);
  return kSymbols;
}

}  // namespace farcall::cpu_device
