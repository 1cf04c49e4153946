// SPDX-License-Identifier: Apache-2.0
// Copies by tensor map (exec/runtime_tensor.cc does them), done at once as all that is
// asynchronous.
#include "cpu-device/exec/runtime_async.h"
#include "cpu-device/exec/tensor_map.h"
#include "cpu-device/jit/emit/emitter.h"

namespace farcall::cpu_device::jit {

using ptx::Space;

namespace {

unsigned RankOf(const ptx::Instruction& instruction) {
  static constexpr const char* kNames[] = {"1d", "2d", "3d", "4d", "5d"};
  for (unsigned i = 0; i < kMaxTensorRank; ++i)
    if (instruction.Has(kNames[i])) return i + 1;
  return 0;
}

TensorReduce ReductionOf(ptx::AtomicOp operation) {
  switch (operation) {
    case ptx::AtomicOp::kAdd:
      return TensorReduce::kAdd;
    case ptx::AtomicOp::kMin:
      return TensorReduce::kMin;
    case ptx::AtomicOp::kMax:
      return TensorReduce::kMax;
    case ptx::AtomicOp::kInc:
      return TensorReduce::kInc;
    case ptx::AtomicOp::kDec:
      return TensorReduce::kDec;
    case ptx::AtomicOp::kAnd:
      return TensorReduce::kAnd;
    case ptx::AtomicOp::kOr:
      return TensorReduce::kOr;
    case ptx::AtomicOp::kXor:
      return TensorReduce::kXor;
    default:
      return TensorReduce::kNone;
  }
}

struct NamedField {
  const char* name;
  TensorField field;
  bool by_element;
};
constexpr NamedField kFields[] = {{"global_address", TensorField::kAddress, false},
                                  {"rank", TensorField::kRank, false},
                                  {"box_dim", TensorField::kBox, true},
                                  {"global_dim", TensorField::kDim, true},
                                  {"global_stride", TensorField::kStride, true},
                                  {"element_stride", TensorField::kStep, true},
                                  {"elemtype", TensorField::kType, false},
                                  {"interleave_layout", TensorField::kInterleave, false},
                                  {"swizzle_mode", TensorField::kSwizzle, false},
                                  {"fill_mode", TensorField::kFill, false}};

}  // namespace

// tensormap.replace.tile.FIELD{.global, .shared::cta}.b1024.TYPE [map], {element,} value;
// tensormap.cp_fenceproxy...: [global], [shared], 128.
bool Emitter::EmitTensorMap(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  if (instruction.Part(1) == "cp_fenceproxy") {
    if (ops.size() != 3) return Unsupported(instruction, "operand count");
    Value *bytes = ReadInt(ops[2], 32), *line = Int32(instruction.line);
    auto range = [&](const Operand& operand, uint32_t space) {
      return Call("fc_rt_bulk_range", b_.getPtrTy(),
                  {block_, SymbolAddress(operand), bytes, Int32(space), line});
    };
    Value* to = range(ops[0], kBulkGlobal);
    Call("fc_rt_bulk_copy", b_.getVoidTy(), {to, range(ops[1], kBulkShared), bytes});
    return true;
  }
  if (instruction.Part(1) != "replace" || instruction.Part(2) != "tile")
    return Unsupported(instruction);
  for (const NamedField& known : kFields) {
    if (instruction.Part(3) != known.name) continue;
    if (ops.size() != (known.by_element ? 3u : 2u))
      return Unsupported(instruction, "operand count");
    const unsigned bits = instruction.Has("b64") ? 64 : 32;
    Value* map = SymbolAddress(ops[0]);
    if (instruction.Has("shared::cta") || instruction.Has("shared")) {
      map = b_.CreateAdd(
          map, b_.CreatePtrToInt(BlockField(offsetof(BlockContext, shared), b_.getPtrTy()),
                                 b_.getInt64Ty()));
    }
    Call("fc_rt_tensormap_replace", b_.getVoidTy(),
         {block_, map, Int32(static_cast<uint32_t>(known.field)),
          known.by_element ? ReadInt(ops[1], 32) : Int32(0), Resize(ReadInt(ops.back(), bits), 64),
          Int32(instruction.line)});
    return true;
  }
  return Unsupported(instruction);
}

// cp.async.bulk.tensor: [dst], [map, {x, ...}], [mbarrier]{, mask of blocks}, or [map, {x, ...}],
// [src]; a cache policy may follow. Tile mode alone.
bool Emitter::EmitTensorCopy(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  const ptx::Modifiers& mods = instruction.mods;
  if (instruction.Has("prefetch")) return true;
  const unsigned rank = RankOf(instruction);
  for (const char* other : {"im2col", "im2col_no_offs", "im2col::w", "im2col::w::128",
                            "tile::gather4", "tile::scatter4"})
    if (instruction.Has(other)) return Unsupported(instruction, "only tile mode is");
  const bool store = mods.space == Space::kGlobal;
  const size_t map_at = store ? 0 : 1;
  const TensorReduce reduce = ReductionOf(mods.atomic);
  const bool reduces = instruction.Part(1) == "reduce";
  if (rank == 0 || instruction.Part(0) != "cp" ||
      (reduces ? !store || reduce == TensorReduce::kNone : instruction.Part(1) != "async") ||
      ops.size() < (store ? 2u : 3u) || ops[map_at].elements.size() != 1)
    return Unsupported(instruction);
  const std::vector<Operand> parts = Parts(ops[map_at].elements[0]);
  if (parts.size() != rank) return Unsupported(instruction, "coordinate count");
  Value* coordinates = NewWords(kMaxTensorRank);
  for (unsigned i = 0; i < rank; ++i) SetWord(coordinates, i, ReadInt(parts[i], 32));
  const bool any_block = mods.space == Space::kSharedCluster;
  const uint32_t what = rank | (store ? uint32_t{kTensorStore} : 0) |
                        (any_block ? uint32_t{kTensorAnyBlock} : 0) |
                        static_cast<uint32_t>(reduce) << kTensorReduceShift;
  Value *map = SymbolAddress(ops[map_at]), *line = Int32(instruction.line);
  Value* shared = SymbolAddress(ops[store ? 1 : 0]);
  if (instruction.Has("multicast::cluster")) {
    if (store || ops.size() < 4) return Unsupported(instruction, "operand count");
    Call("fc_rt_tensor_multicast", b_.getVoidTy(),
         {block_, map, coordinates, shared, Int32(what), SymbolAddress(ops[2]),
          Resize(ReadInt(ops[3], 16), 32), line});
    return true;
  }
  Value* bytes = Call("fc_rt_tensor_copy", b_.getInt32Ty(),
                      {block_, map, coordinates, shared, Int32(what), line});
  return store || EmitBytesHaveCome(instruction, ops[2], mods.space, Resize(bytes, 64));
}

}  // namespace farcall::cpu_device::jit
