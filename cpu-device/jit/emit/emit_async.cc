// SPDX-License-Identifier: Apache-2.0
// mbarrier, cp.async, bulk copies, clusters. What is asynchronous is done at once
// (exec/runtime_async.cc).
#include "cpu-device/exec/mbarrier.h"
#include "cpu-device/exec/runtime_async.h"
#include "cpu-device/jit/emit/emitter.h"

namespace farcall::cpu_device::jit {

using llvm::BasicBlock;
using ptx::Opcode;
using ptx::Space;

// Waits until `complete` says so, once: loops around a wait are the program's own.
void Emitter::YieldUnless(Value* complete) {
  BasicBlock* wait = BasicBlock::Create(context_, "wait", llvm_function_);
  BasicBlock* go_on = BasicBlock::Create(context_, "waited", llvm_function_);
  b_.CreateCondBr(complete, go_on, wait);
  b_.SetInsertPoint(wait);
  Yield();
  b_.CreateBr(go_on);
  b_.SetInsertPoint(go_on);
}

// complete-tx on the mbarrier that `operand` names.
bool Emitter::EmitBytesHaveCome(const Instruction& instruction, const Operand& operand, Space space,
                                Value* bytes) {
  if (!operand.Is(Operand::Kind::kAddress)) return Unsupported(instruction, "mbarrier operand");
  Value* object = Address(instruction, operand, space, 8);
  if (!object) return false;
  Call("fc_rt_mbarrier_bytes", b_.getVoidTy(),
       {object, b_.CreateNeg(bytes), Int32(instruction.line)});
  return true;
}

// test_wait and try_wait{.parity}: has the phase of a state, or of a parity, ended?
bool Emitter::EmitMbarrierWait(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  if (outlined_) return Unsupported(instruction, "inside a function that is not inlined");
  if (ops.size() < 3) return Unsupported(instruction, "operand count");
  Value* object = Address(instruction, ops[1], SpaceOf(ops[1], instruction.mods.space), 8);
  if (!object) return false;
  Value* phase = instruction.Has("parity")
                     ? b_.CreateAnd(ReadInt(ops[2], 64), Int64(1))
                     : b_.CreateAnd(b_.CreateLShr(ReadInt(ops[2], 64), kMbarrierPhaseBit), 1);
  auto complete = [&] {
    llvm::LoadInst* word = b_.CreateAlignedLoad(b_.getInt64Ty(), object, llvm::Align(8));
    word->setVolatile(true);
    return b_.CreateICmpNE(b_.CreateAnd(b_.CreateLShr(word, kMbarrierPhaseBit), 1), phase);
  };
  YieldUnless(complete());
  Write(ops[0], complete());
  return true;
}

bool Emitter::EmitMbarrierArrive(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  const bool of_copy = instruction.Is(Opcode::kCp);
  const size_t at = of_copy ? 0 : 1;
  if (ops.size() <= at || !ops[at].Is(Operand::Kind::kAddress))
    return Unsupported(instruction, "operand count");
  Value* object = Address(instruction, ops[at], SpaceOf(ops[at], instruction.mods.space), 8);
  if (!object) return false;
  Value *line = Int32(instruction.line), *count = Int32(1);
  uint32_t flags = 0;
  if (of_copy) {
    if (!instruction.Has("noinc")) flags = kMbarrierIncrement;
  } else if (instruction.Has("expect_tx")) {
    if (ops.size() != 3) return Unsupported(instruction, "operand count");
    Call("fc_rt_mbarrier_bytes", b_.getVoidTy(), {object, Resize(ReadInt(ops[2], 32), 64), line});
  } else if (ops.size() > 2) {
    count = ReadInt(ops[2], 32);
  }
  if (instruction.Part(1) == "arrive_drop") flags |= kMbarrierDrop;
  if (instruction.Has("noComplete")) flags |= kMbarrierNoComplete;
  Value* state =
      Call("fc_rt_mbarrier_arrive", b_.getInt64Ty(), {object, count, Int32(flags), line});
  if (!of_copy) Write(ops[0], state);
  return true;
}

bool Emitter::EmitMbarrier(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  std::string_view what = instruction.Part(instruction.Is(Opcode::kCp) ? 3 : 1);
  if (what == "arrive" || what == "arrive_drop") return EmitMbarrierArrive(instruction);
  if (what == "test_wait" || what == "try_wait") return EmitMbarrierWait(instruction);
  if (what == "pending_count") {
    if (ops.size() != 2) return Unsupported(instruction, "operand count");
    Write(ops[0], Resize(b_.CreateAnd(ReadInt(ops[1], 64), kMbarrierMaxCount), 32));
    return true;
  }
  if (ops.empty() || !ops[0].Is(Operand::Kind::kAddress)) return Unsupported(instruction);
  Value* object = Address(instruction, ops[0], SpaceOf(ops[0], instruction.mods.space), 8);
  if (!object) return false;
  if (what == "inval" && ops.size() == 1) {
    b_.CreateAlignedStore(Int64(0), object, llvm::Align(8));
    return true;
  }
  if (ops.size() != 2) return Unsupported(instruction, "operand count");
  Value *count = ReadInt(ops[1], 32), *line = Int32(instruction.line);
  if (what == "init") {
    Call("fc_rt_mbarrier_init", b_.getVoidTy(), {object, count, line});
  } else if (what == "expect_tx" || what == "complete_tx") {
    Value* bytes = Resize(count, 64);
    if (what == "complete_tx") bytes = b_.CreateNeg(bytes);
    Call("fc_rt_mbarrier_bytes", b_.getVoidTy(), {object, bytes, line});
  } else {
    return Unsupported(instruction);
  }
  return true;
}

// cp.async copies at once; its groups and waits have then nothing left to do.
bool Emitter::EmitAsyncCopy(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  if (!instruction.mods.async) return Unsupported(instruction);
  if (instruction.Has("tensor")) return EmitTensorCopy(instruction);
  if (instruction.Has("bulk")) return EmitBulk(instruction);
  if (instruction.Part(2) == "mbarrier") return EmitMbarrier(instruction);
  std::string_view what = instruction.Part(2);
  if (what == "commit_group" || what == "wait_group" || what == "wait_all") return true;
  if (what != "ca" && what != "cg") return Unsupported(instruction);
  if (ops.size() < 3 || !ops[2].Is(Operand::Kind::kInteger)) return Unsupported(instruction);
  auto bytes = static_cast<unsigned>(ops[2].value);
  if (bytes != 4 && bytes != 8 && bytes != 16) return Unsupported(instruction, "size");
  llvm::Type* type = IntOf(bytes * 8);
  Value* to = Address(instruction, ops[0], Space::kShared, bytes);
  if (!to) return false;
  Value* zero = llvm::Constant::getNullValue(type);
  // A fourth operand is the number of source bytes (the rest becomes zero), or a predicate that
  // skips the source.
  Value* kept = nullptr;
  bool skips = false;
  if (ops.size() > 3 && !(ops[3].Is(Operand::Kind::kRegister) &&
                          ptx::BitsOf(scope_->function->registers[ops[3].reg].type) == 64)) {
    bool is_predicate = ops[3].Is(Operand::Kind::kRegister) &&
                        scope_->function->registers[ops[3].reg].type == Type::kPred;
    kept = is_predicate ? b_.CreateSelect(ReadPredicate(ops[3]), Int32(0), Int32(bytes))
                        : ReadInt(ops[3], 32);
    skips = true;
  }
  if (!skips) {
    Value* from = Address(instruction, ops[1], Space::kGlobal, bytes);
    if (!from) return false;
    b_.CreateAlignedStore(b_.CreateAlignedLoad(type, from, llvm::Align(bytes)), to,
                          llvm::Align(bytes));
    return true;
  }
  BasicBlock* copy = BasicBlock::Create(context_, "copy", llvm_function_);
  BasicBlock* done = BasicBlock::Create(context_, "copied", llvm_function_);
  b_.CreateAlignedStore(zero, to, llvm::Align(bytes));
  b_.CreateCondBr(b_.CreateICmpNE(kept, Int32(0)), copy, done);
  b_.SetInsertPoint(copy);
  Value* from = Address(instruction, ops[1], Space::kGlobal, bytes);
  if (!from) return false;
  Value* loaded = b_.CreateAlignedLoad(type, from, llvm::Align(bytes));
  Value* drop = b_.CreateShl(b_.CreateSub(Int32(bytes), kept), 3);
  Value* whole = b_.CreateICmpUGE(kept, Int32(bytes));
  Value* safe = Resize(b_.CreateSelect(whole, Int32(0), drop), bytes * 8);
  Value* mask = b_.CreateLShr(llvm::Constant::getAllOnesValue(type), safe);
  b_.CreateAlignedStore(b_.CreateAnd(loaded, mask), to, llvm::Align(bytes));
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
  return true;
}

// cp.async.bulk: [dst], [src], size{, [mbarrier]{, mask of blocks}}{, cache policy}{, byte mask}.
bool Emitter::EmitBulk(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  const ptx::Modifiers& mods = instruction.mods;
  if (instruction.Has("commit_group") || instruction.Has("wait_group") ||
      instruction.Has("prefetch"))
    return true;
  if (ops.size() < 3 || instruction.Has("cp_mask")) return Unsupported(instruction);
  auto space = [](Space s) -> uint32_t {
    return s == Space::kGlobal          ? kBulkGlobal
           : s == Space::kSharedCluster ? kBulkCluster
                                        : kBulkShared;
  };
  Value *bytes = ReadInt(ops[2], 32), *line = Int32(instruction.line);
  auto range = [&](const Operand& operand, Space s) {
    return Call("fc_rt_bulk_range", b_.getPtrTy(),
                {block_, SymbolAddress(operand), bytes, Int32(space(s)), line});
  };
  Value* from = range(ops[1], mods.space2);
  const bool tells = instruction.Has("mbarrier::complete_tx::bytes");
  if (tells && ops.size() < 4) return Unsupported(instruction, "operand count");
  if (instruction.Has("multicast::cluster")) {
    if (!tells || ops.size() < 5) return Unsupported(instruction, "operand count");
    Call("fc_rt_bulk_multicast", b_.getVoidTy(),
         {block_, SymbolAddress(ops[0]), from, bytes, SymbolAddress(ops[3]),
          Resize(ReadInt(ops[4], 16), 32), line});
    return true;
  }
  Value* to = range(ops[0], mods.space);
  if (mods.atomic != ptx::AtomicOp::kNone) {
    if (!EmitBulkReduction(instruction, to, from, bytes)) return false;
  } else if (instruction.Part(0) == "cp" && instruction.Part(1) == "async") {
    Call("fc_rt_bulk_copy", b_.getVoidTy(), {to, from, bytes});
  } else {
    return Unsupported(instruction);
  }
  return !tells || EmitBytesHaveCome(instruction, ops[3], mods.space, Resize(bytes, 64));
}

// cp.reduce.async.bulk: element by element, as red would.
bool Emitter::EmitBulkReduction(const Instruction& instruction, Value* to, Value* from,
                                Value* bytes) {
  Type type = instruction.type();
  unsigned width = ptx::BitsOf(type) / 8;
  if (width < 2 || width > 8) return Unsupported(instruction, "type");
  BasicBlock* before = b_.GetInsertBlock();
  BasicBlock* loop = BasicBlock::Create(context_, "reduce", llvm_function_);
  BasicBlock* body = BasicBlock::Create(context_, "reduce.element", llvm_function_);
  BasicBlock* done = BasicBlock::Create(context_, "reduced", llvm_function_);
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  llvm::PHINode* at = b_.CreatePHI(b_.getInt32Ty(), 2);
  at->addIncoming(Int32(0), before);
  b_.CreateCondBr(b_.CreateICmpULT(at, bytes), body, done);
  b_.SetInsertPoint(body);
  Value* offset = Resize(at, 64);
  Value* operand = b_.CreateAlignedLoad(
      IntOf(8 * width), b_.CreateGEP(b_.getInt8Ty(), from, offset), llvm::Align(width));
  bool own = instruction.mods.space != Space::kGlobal;
  if (!AtomicLane(instruction, b_.CreateGEP(b_.getInt8Ty(), to, offset), operand, nullptr, own))
    return Unsupported(instruction);
  at->addIncoming(b_.CreateAdd(at, Int32(width)), b_.GetInsertBlock());
  b_.CreateBr(loop);
  b_.SetInsertPoint(done);
  return true;
}

// mapa and getctarank: by .shared::cluster address, or by a generic one.
bool Emitter::EmitClusterAddress(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  const bool generic = instruction.mods.space == Space::kNone;
  if (ops.size() < 2) return Unsupported(instruction, "operand count");
  unsigned bits = ptx::BitsOf(instruction.type());
  Value* address =
      ops[1].Is(Operand::Kind::kRegister) ? ReadInt(ops[1], 64) : SymbolAddress(ops[1]);
  if (instruction.Is(Opcode::kGetctarank)) {
    Write(ops[0], Call("fc_rt_cta_rank", b_.getInt32Ty(), {block_, address, Int32(generic)}));
    return true;
  }
  if (ops.size() < 3) return Unsupported(instruction, "operand count");
  Value* mapped =
      Call("fc_rt_mapa", b_.getInt64Ty(),
           {block_, address, ReadInt(ops[2], 32), Int32(generic), Int32(instruction.line)});
  Write(ops[0], Resize(mapped, bits));
  return true;
}

bool Emitter::EmitClusterBarrier(const Instruction& instruction) {
  if (instruction.mods.barrier == ptx::BarrierOp::kArrive) {
    Call("fc_rt_cluster_arrive", b_.getVoidTy(), {block_, thread_});
    return true;
  }
  if (instruction.mods.barrier != ptx::BarrierOp::kWait) return Unsupported(instruction);
  BasicBlock* check = BasicBlock::Create(context_, "cluster.wait", llvm_function_);
  BasicBlock* wait = BasicBlock::Create(context_, "cluster.yield", llvm_function_);
  BasicBlock* done = BasicBlock::Create(context_, "cluster.done", llvm_function_);
  b_.CreateBr(check);
  b_.SetInsertPoint(check);
  Value* waits = Call("fc_rt_cluster_waits", b_.getInt32Ty(), {block_, thread_});
  b_.CreateCondBr(b_.CreateICmpNE(waits, Int32(0)), wait, done);
  b_.SetInsertPoint(wait);
  PollCancel();
  Yield();
  b_.CreateBr(check);
  b_.SetInsertPoint(done);
  return true;
}

}  // namespace farcall::cpu_device::jit
