// SPDX-License-Identifier: Apache-2.0
// cp.async.bulk.tensor and its reductions in tile mode: a box of a tensor to shared memory, or
// back, element by element; tensormap.replace.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <span>

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

// Where a map may lie.
TensorMap* MapPlace(BlockContext* block, uint64_t address, uint32_t line) {
  if (address % 64 != 0) {
    RaiseFault(ExecStatus::kMisaligned,
               "a tensor map at 0x%llx: want a multiple of 64 (PTX line %u)",
               static_cast<unsigned long long>(address), line);
  }
  for (uint64_t at = 0; at < sizeof(TensorMap); at += 8) CheckAccess(block, address + at, 8, line);
  return reinterpret_cast<TensorMap*>(address);
}

void WantMark(const TensorMap* map, uint32_t line) {
  if (map->mark == kTensorMapMark) return;
  RaiseFault(ExecStatus::kTrap, "no tensor map at %p (PTX line %u)", static_cast<const void*>(map),
             line);
}

const TensorMap& MapAt(BlockContext* block, uint64_t address, uint32_t rank, uint32_t line) {
  const TensorMap* map = MapPlace(block, address, line);
  WantMark(map, line);
  if (map->rank != rank || map->is_im2col != 0 || map->element_bytes == 0 || map->interleave != 0 ||
      map->swizzle > kLastPlainSwizzle) {
    RaiseFault(
        ExecStatus::kTrap,
        "a tensor map of rank %u, im2col %u, type %u, interleave %u, swizzle %u: want one of "
        "rank %u in tile mode of whole bytes, interleave 0, swizzle 0 to 3 (PTX line %u)",
        map->rank, map->is_im2col, map->type, map->interleave, map->swizzle, rank, line);
  }
  for (uint32_t i = 0; i < rank; ++i) {  // a kernel may have made it
    if (map->dims[i] != 0 && map->box[i] != 0 && map->steps[i] != 0) continue;
    RaiseFault(ExecStatus::kTrap,
               "a tensor map without a size, box or step of dimension %u (PTX line %u)", i, line);
  }
  return *map;
}

// The bytes of an element of PTX's types, and CUtensorMapDataType's number of it.
struct ElementKind {
  uint8_t bytes, type;
};
// In PTX's order: u8 u16 u32 s32 u64 s64 f16 f32 f32.ftz f64 bf16 tf32 tf32.ftz.
constexpr ElementKind kElementKinds[] = {{1, 0}, {2, 1},  {4, 2}, {4, 3}, {8, 4},  {8, 5}, {2, 6},
                                         {4, 7}, {4, 10}, {8, 8}, {2, 9}, {4, 11}, {4, 12}};

// A kernel may make a map of zeros, field by field: of rank 1, bytes, nothing else said.
void AdoptZeros(TensorMap* map) {
  const auto bytes = std::as_bytes(std::span(map, 1));
  if (std::any_of(bytes.begin(), bytes.end(), [](std::byte one) { return one != std::byte{}; }))
    return;
  *map = TensorMap();
  map->rank = 1;
  map->element_bytes = kElementKinds[0].bytes;
}

// What is wrong, or null. A map that does not fit in the end is refused by the copy that uses it.
const char* ReplaceField(TensorMap* map, TensorField field, uint32_t at, uint64_t value) {
  const bool by_element = field == TensorField::kBox || field == TensorField::kDim ||
                          field == TensorField::kStep || field == TensorField::kStride;
  if (by_element && at >= kMaxTensorRank - (field == TensorField::kStride ? 1 : 0))
    return "a tensor has at most 5 dimensions, and a stride less";
  switch (field) {
    case TensorField::kAddress:
      map->address = value;
      return value % 16 == 0 ? nullptr : "want a multiple of 16";
    case TensorField::kRank:
      if (value >= kMaxTensorRank) return "want a rank of 1 to 5, less one";
      map->rank = static_cast<uint8_t>(value + 1);
      return nullptr;
    case TensorField::kBox:
      if (value == 0 || value > 256) return "want 1 to 256";
      map->box[at] = static_cast<uint16_t>(value);
      return nullptr;
    case TensorField::kDim:
      if (value == 0) return "want 1 or more";
      map->dims[at] = value;
      return nullptr;
    case TensorField::kStride:
      if (value % 16 != 0 || value >= uint64_t{1} << 40) return "want a multiple of 16 below 2^40";
      map->strides[at] = value;
      return nullptr;
    case TensorField::kStep:
      if (value == 0 || value > 8) return "want 1 to 8";
      map->steps[at] = static_cast<uint8_t>(value);
      return nullptr;
    case TensorField::kType:
      if (value >= std::size(kElementKinds)) return "want 0 to 12";
      map->element_bytes = kElementKinds[value].bytes;
      map->type = kElementKinds[value].type;
      return nullptr;
    case TensorField::kInterleave:
      if (value > 2) return "want 0 to 2";
      map->interleave = static_cast<uint8_t>(value);
      return nullptr;
    case TensorField::kSwizzle:
      if (value > 3) return "want 0 to 3";
      map->swizzle = static_cast<uint8_t>(value);
      return nullptr;
    case TensorField::kFill:
      if (value > 1) return "want 0 or 1";
      map->fill = value == 0 ? TensorFill::kZero : TensorFill::kNan;
      return nullptr;
  }
  return "no such field";
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
             uint8_t* shared, uint64_t base, uint32_t what, uint32_t line) {
  const bool store = (what & kTensorStore) != 0;
  const auto reduce = static_cast<TensorReduce>(what >> kTensorReduceShift);
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
    if (reduce == TensorReduce::kNone)
      memcpy(store ? there : here, store ? here : there, element);
    else if (const char* error = ReduceTensorElement(map.type, reduce, there, here))
      RaiseFault(ExecStatus::kTrap, "%s; this one is %u (PTX line %u)", error, map.type, line);
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
  CopyBox(block, map, box, coordinates, at, shared & kOffsetMask, what, line);
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

// tensormap.replace: `map` lies in global or, as a host address, in shared memory.
void fc_rt_tensormap_replace(BlockContext* block, uint64_t address, uint32_t field, uint32_t at,
                             uint64_t value, uint32_t line) {
  TensorMap* map = MapPlace(block, address, line);
  AdoptZeros(map);
  WantMark(map, line);
  const char* error = ReplaceField(map, static_cast<TensorField>(field), at, value);
  if (error != nullptr) {
    RaiseFault(ExecStatus::kTrap, "tensormap.replace of element %u by %llu: %s (PTX line %u)", at,
               static_cast<unsigned long long>(value), error, line);
  }
}

}  // extern "C"

const RuntimeSymbol kSymbols[] = {
    {"fc_rt_tensor_copy", reinterpret_cast<void*>(fc_rt_tensor_copy)},
    {"fc_rt_tensor_multicast", reinterpret_cast<void*>(fc_rt_tensor_multicast)},
    {"fc_rt_tensormap_replace", reinterpret_cast<void*>(fc_rt_tensormap_replace)},
};

}  // namespace

const RuntimeSymbol* TensorSymbols(unsigned* count) {
  *count = sizeof(kSymbols) / sizeof(kSymbols[0]);
  return kSymbols;
}

}  // namespace farcall::cpu_device
