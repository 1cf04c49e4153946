// SPDX-License-Identifier: Apache-2.0
// Copies by tensor map (exec/runtime_tensor.cc does them), done at once as all that is
// asynchronous.
#include "cpu-device/exec/tensor_map.h"
#include "cpu-device/jit/emitter.h"

namespace farcall::cpu_device::jit {

using ptx::Space;

namespace {

unsigned RankOf(const ptx::Instruction& instruction) {
  static constexpr const char* kNames[] = {"1d", "2d", "3d", "4d", "5d"};
  for (unsigned i = 0; i < kMaxTensorRank; ++i) {
    if (instruction.Has(kNames[i])) return i + 1;
  }
  return 0;
}

}  // namespace

// cp.async.bulk.tensor: [dst], [map, {x, ...}], [mbarrier]{, mask of blocks}, or [map, {x, ...}],
// [src]; a cache policy may follow. Tile mode alone.
bool Emitter::EmitTensorCopy(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  const ptx::Modifiers& mods = instruction.mods;
  if (instruction.Has("prefetch")) return true;
  const unsigned rank = RankOf(instruction);
  for (const char* other : {"im2col", "im2col_no_offs", "im2col::w", "im2col::w::128",
                            "tile::gather4", "tile::scatter4"}) {
    if (instruction.Has(other)) return Unsupported(instruction, "only tile mode is");
  }
  const bool store = mods.space == Space::kGlobal;
  const size_t map_at = store ? 0 : 1;
  if (rank == 0 || instruction.Part(0) != "cp" || instruction.Part(1) != "async" ||
      ops.size() < (store ? 2u : 3u) || ops[map_at].elements.size() != 1) {
    return Unsupported(instruction);
  }
  const std::vector<Operand> parts = Parts(ops[map_at].elements[0]);
  if (parts.size() != rank) return Unsupported(instruction, "coordinate count");
  Value* coordinates = NewWords(kMaxTensorRank);
  for (unsigned i = 0; i < rank; ++i) SetWord(coordinates, i, ReadInt(parts[i], 32));
  const bool any_block = mods.space == Space::kSharedCluster;
  const uint32_t what = rank | (store ? kTensorStore : 0) | (any_block ? kTensorAnyBlock : 0);
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
