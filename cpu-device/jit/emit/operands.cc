// SPDX-License-Identifier: Apache-2.0
// Reading and writing operands, context fields, special registers.
#include <cstring>

#include "cpu-device/exec/function_ids.h"
#include "cpu-device/jit/emit/emitter.h"

namespace farcall::cpu_device::jit {

using ptx::Space;
using ptx::SpecialRegister;

llvm::Type* Emitter::TypeOf(Type type) {
  switch (type) {
    case Type::kF32:
      return b_.getFloatTy();
    case Type::kF64:
      return b_.getDoubleTy();
    case Type::kPred:
      return b_.getInt1Ty();
    default:
      return IntOf(std::max(1u, ptx::BitsOf(type)));
  }
}

llvm::AllocaInst* Emitter::NewAlloca(llvm::Type* type, const llvm::Twine& name, unsigned align) {
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(alloca_block_, alloca_block_->begin());
  llvm::AllocaInst* slot = b_.CreateAlloca(type, nullptr, name);
  if (align) slot->setAlignment(llvm::Align(align));
  return slot;
}

llvm::Value* Emitter::Resize(Value* integer, unsigned bits, bool is_signed) {
  return is_signed ? b_.CreateSExtOrTrunc(integer, IntOf(bits))
                   : b_.CreateZExtOrTrunc(integer, IntOf(bits));
}

llvm::Value* Emitter::AsInt(Value* value) {
  llvm::Type* type = value->getType();
  if (type->isIntegerTy()) return value;
  return b_.CreateBitCast(value, IntOf(BitsOf(type)));
}

llvm::Value* Emitter::Cast(Value* value, llvm::Type* type) {
  return value->getType() == type ? value : b_.CreateBitCast(value, type);
}

llvm::Value* Emitter::ReadRegister(ptx::RegisterId reg) {
  llvm::AllocaInst* slot = scope_->registers[reg];
  return b_.CreateLoad(slot->getAllocatedType(), slot);
}

llvm::Value* Emitter::ReadInt(const Operand& operand, unsigned bits, bool is_signed) {
  switch (operand.kind) {
    case Operand::Kind::kRegister: {
      Value* value = AsInt(ReadRegister(operand.reg));
      if (operand.negated) value = b_.CreateNot(value);
      return Resize(value, bits, is_signed);
    }
    case Operand::Kind::kInteger:
      return llvm::ConstantInt::get(context_,
                                    llvm::APInt(bits, static_cast<uint64_t>(operand.value),
                                                /*isSigned=*/bits > 64));
    case Operand::Kind::kFloat: {
      auto raw = static_cast<uint64_t>(operand.value);
      if (bits == 32 && operand.float_type == Type::kF64) {
        double wide;
        memcpy(&wide, &raw, 8);
        auto narrow = static_cast<float>(wide);
        uint32_t narrow_bits;
        memcpy(&narrow_bits, &narrow, 4);
        return Int32(narrow_bits);
      }
      if (bits == 64 && operand.float_type == Type::kF32) {
        auto raw32 = static_cast<uint32_t>(raw);
        float narrow;
        memcpy(&narrow, &raw32, 4);
        double wide = narrow;
        memcpy(&raw, &wide, 8);
      }
      return ConstInt(bits, raw);
    }
    case Operand::Kind::kSpecialRegister:
      return Resize(ReadSpecial(operand), bits, is_signed);
    case Operand::Kind::kSymbol:
    case Operand::Kind::kAddress:
      return Resize(SymbolAddress(operand), bits);
    case Operand::Kind::kVector: {  // mov.b64 %rd, {%r1, %r2}
      const unsigned part = bits / std::max(static_cast<unsigned>(operand.elements.size()), 1u);
      Value* whole = ConstInt(bits, 0);
      for (size_t i = 0; i < operand.elements.size(); ++i) {
        Value* element = Resize(ReadInt(operand.elements[i], part), bits);
        whole = b_.CreateOr(whole, b_.CreateShl(element, part * i));
      }
      return whole;
    }
    default:
      return llvm::PoisonValue::get(IntOf(bits));
  }
}

llvm::Value* Emitter::Read(const Operand& operand, Type type) {
  if (type == Type::kPred) return ReadPredicate(operand);
  return Cast(ReadInt(operand, std::max(1u, ptx::BitsOf(type)), ptx::IsSigned(type)), TypeOf(type));
}

llvm::Value* Emitter::ReadPredicate(const Operand& operand) {
  if (operand.Is(Operand::Kind::kInteger)) return b_.getInt1(operand.value != 0);
  return ReadInt(operand, 1);
}

void Emitter::Write(const Operand& operand, Value* value, bool is_signed) {
  if (operand.Is(Operand::Kind::kVector)) {  // mov.b64 {%r1, %r2}, %rd
    Value* whole = AsInt(value);
    unsigned bits = whole->getType()->getIntegerBitWidth();
    const unsigned part = bits / std::max(static_cast<unsigned>(operand.elements.size()), 1u);
    for (size_t i = 0; i < operand.elements.size(); ++i)
      Write(operand.elements[i], Resize(b_.CreateLShr(whole, part * i), part));
    return;
  }
  if (!operand.Is(Operand::Kind::kRegister)) return;  // the sink
  llvm::AllocaInst* slot = scope_->registers[operand.reg];
  llvm::Type* type = slot->getAllocatedType();
  if (value->getType() != type) value = Cast(Resize(AsInt(value), BitsOf(type), is_signed), type);
  b_.CreateStore(value, slot);
}

llvm::Value* Emitter::Field(Value* base, size_t offset, llvm::Type* type, bool invariant) {
  llvm::LoadInst* load =
      b_.CreateLoad(type, b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), base, offset));
  if (invariant)
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
  return load;
}

void Emitter::SetField(Value* base, size_t offset, Value* value) {
  b_.CreateStore(value, b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), base, offset));
}

llvm::Value* Emitter::Call(const char* name, llvm::Type* result, llvm::ArrayRef<Value*> arguments,
                           bool pure) {
  std::vector<llvm::Type*> types;
  for (Value* argument : arguments) types.push_back(argument->getType());
  llvm::FunctionCallee callee =
      module_.getOrInsertFunction(name, llvm::FunctionType::get(result, types, false));
  auto* function = llvm::cast<llvm::Function>(callee.getCallee());
  function->setDoesNotThrow();
  if (pure) {
    function->setDoesNotAccessMemory();
    function->setWillReturn();
  }
  llvm::CallInst* call = b_.CreateCall(callee, arguments);
  call->setDoesNotThrow();
  return call;
}

llvm::Value* Emitter::SymbolAddress(const Operand& operand) {
  Value* base = Int64(0);
  if (operand.function) {
    base = Int64(FunctionId(operand.function->index));
  } else if (operand.reg != ptx::kNoRegister) {
    // A 32-bit base wraps in 32 bits.
    Value* reg = AsInt(ReadRegister(operand.reg));
    unsigned bits = reg->getType()->getIntegerBitWidth();
    Value* sum = b_.CreateAdd(reg, ConstInt(bits, static_cast<uint64_t>(operand.value)));
    return Resize(sum, 64);
  } else if (const ptx::Variable* variable = operand.variable) {
    switch (variable->space) {
      case Space::kShared: {
        auto it = layout_.shared_offset.find(variable);
        base = Int64(it == layout_.shared_offset.end() ? 0 : it->second);
        break;
      }
      case Space::kLocal: {
        auto own = scope_->recursive_offset.find(variable);
        if (scope_->recursive_base && own != scope_->recursive_offset.end()) {
          base = b_.CreateAdd(scope_->recursive_base, Int64(own->second));
        } else {
          auto it = layout_.local_offset.find(variable);
          base = Int64(it == layout_.local_offset.end() ? 0 : it->second);
        }
        break;
      }
      case Space::kParam:
      case Space::kParamEntry:
      case Space::kParamFunc: {
        auto it = scope_->param_slots.find(variable);
        if (it != scope_->param_slots.end()) base = b_.CreatePtrToInt(it->second, b_.getInt64Ty());
        break;
      }
      default: {
        Value* table = LaunchField(offsetof(LaunchContext, globals), b_.getPtrTy());
        base = Field(table, 8 * size_t{variable->index}, b_.getInt64Ty(), true);
      }
    }
  }
  return operand.value ? b_.CreateAdd(base, Int64(static_cast<uint64_t>(operand.value))) : base;
}

std::vector<ptx::Operand> Parts(const ptx::Operand& operand) {
  if (operand.Is(ptx::Operand::Kind::kVector)) return operand.elements;
  return {operand};
}

llvm::Value* Emitter::LaneNumber() {
  return b_.CreateAnd(ThreadField(offsetof(ThreadContext, linear), b_.getInt32Ty()), Int32(31));
}

// Long: a flat switch over PTX's special registers.
llvm::Value* Emitter::ReadSpecial(const Operand& operand) {
  auto launch32 = [&](size_t offset) { return LaunchField(offset, b_.getInt32Ty()); };
  auto lane = [&] { return LaneNumber(); };
  auto index = [&](SpecialRegister first) {
    return 4 * (static_cast<size_t>(operand.special) - static_cast<size_t>(first));
  };
  auto clock = [&] { return Intrinsic(llvm::Intrinsic::readcyclecounter, {}, {}); };
  auto high = [&](Value* wide) { return b_.CreateTrunc(b_.CreateLShr(wide, 32), b_.getInt32Ty()); };
  switch (operand.special) {
    case SpecialRegister::kTidX:
    case SpecialRegister::kTidY:
    case SpecialRegister::kTidZ:
      return ThreadField(offsetof(ThreadContext, tid) + index(SpecialRegister::kTidX),
                         b_.getInt32Ty());
    case SpecialRegister::kNtidX:
    case SpecialRegister::kNtidY:
    case SpecialRegister::kNtidZ:
      return launch32(offsetof(LaunchContext, block) + index(SpecialRegister::kNtidX));
    case SpecialRegister::kCtaidX:
    case SpecialRegister::kCtaidY:
    case SpecialRegister::kCtaidZ:
      return BlockField(offsetof(BlockContext, ctaid) + index(SpecialRegister::kCtaidX),
                        b_.getInt32Ty());
    case SpecialRegister::kNctaidX:
    case SpecialRegister::kNctaidY:
    case SpecialRegister::kNctaidZ:
      return launch32(offsetof(LaunchContext, grid) + index(SpecialRegister::kNctaidX));
    case SpecialRegister::kClusteridX:
    case SpecialRegister::kClusteridY:
    case SpecialRegister::kClusteridZ: {
      size_t i = index(SpecialRegister::kClusteridX);
      return b_.CreateUDiv(BlockField(offsetof(BlockContext, ctaid) + i, b_.getInt32Ty()),
                           launch32(offsetof(LaunchContext, cluster) + i));
    }
    case SpecialRegister::kNclusteridX:
    case SpecialRegister::kNclusteridY:
    case SpecialRegister::kNclusteridZ: {
      size_t i = index(SpecialRegister::kNclusteridX);
      return b_.CreateUDiv(launch32(offsetof(LaunchContext, grid) + i),
                           launch32(offsetof(LaunchContext, cluster) + i));
    }
    case SpecialRegister::kClusterCtaidX:
    case SpecialRegister::kClusterCtaidY:
    case SpecialRegister::kClusterCtaidZ:
      return BlockField(
          offsetof(BlockContext, cluster_ctaid) + index(SpecialRegister::kClusterCtaidX),
          b_.getInt32Ty());
    case SpecialRegister::kClusterNctaidX:
    case SpecialRegister::kClusterNctaidY:
    case SpecialRegister::kClusterNctaidZ:
      return launch32(offsetof(LaunchContext, cluster) + index(SpecialRegister::kClusterNctaidX));
    case SpecialRegister::kClusterCtarank:
      return BlockField(offsetof(BlockContext, cluster_rank), b_.getInt32Ty());
    case SpecialRegister::kClusterNctarank:
      return b_.CreateMul(b_.CreateMul(launch32(offsetof(LaunchContext, cluster)),
                                       launch32(offsetof(LaunchContext, cluster) + 4)),
                          launch32(offsetof(LaunchContext, cluster) + 8));
    case SpecialRegister::kIsExplicitCluster:
      return b_.CreateICmpNE(launch32(offsetof(LaunchContext, explicit_cluster)), Int32(0));
    case SpecialRegister::kLaneid:
      return lane();
    case SpecialRegister::kWarpid:
      return b_.CreateLShr(ThreadField(offsetof(ThreadContext, linear), b_.getInt32Ty()), 5);
    case SpecialRegister::kNwarpid:
      return Int32(kMaxThreadsPerBlock / kWarpSize);
    case SpecialRegister::kSmid:
      return BlockField(offsetof(BlockContext, smid), b_.getInt32Ty());
    case SpecialRegister::kNsmid:
      return Int32(kSmCount);
    case SpecialRegister::kGridid:
      return LaunchField(offsetof(LaunchContext, grid_id), b_.getInt64Ty());
    case SpecialRegister::kLanemaskEq:
      return b_.CreateShl(Int32(1), lane());
    case SpecialRegister::kLanemaskLe:
      return b_.CreateNot(b_.CreateShl(Int32(~1u), lane()));
    case SpecialRegister::kLanemaskLt:
      return b_.CreateNot(b_.CreateShl(Int32(~0u), lane()));
    case SpecialRegister::kLanemaskGe:
      return b_.CreateShl(Int32(~0u), lane());
    case SpecialRegister::kLanemaskGt:
      return b_.CreateShl(Int32(~1u), lane());
    case SpecialRegister::kClock64:
      return clock();
    case SpecialRegister::kClock:
      return b_.CreateTrunc(clock(), b_.getInt32Ty());
    case SpecialRegister::kClockHi:
      return high(clock());
    case SpecialRegister::kGlobaltimer:
      return Call("fc_rt_globaltimer", b_.getInt64Ty(), {});
    case SpecialRegister::kGlobaltimerLo:
      return b_.CreateTrunc(Call("fc_rt_globaltimer", b_.getInt64Ty(), {}), b_.getInt32Ty());
    case SpecialRegister::kGlobaltimerHi:
      return high(Call("fc_rt_globaltimer", b_.getInt64Ty(), {}));
    case SpecialRegister::kTotalSmemSize:
    case SpecialRegister::kAggrSmemSize:
      return launch32(offsetof(LaunchContext, total_shared));
    case SpecialRegister::kDynamicSmemSize:
      return launch32(offsetof(LaunchContext, dynamic_shared));
    case SpecialRegister::kReservedSmemOffsetBegin:
    case SpecialRegister::kReservedSmemOffset0:
      return Int32(layout_.reserved_shared_offset);
    case SpecialRegister::kReservedSmemOffset1:
      return Int32(layout_.reserved_shared_offset + kReservedSharedBytes / 2);
    case SpecialRegister::kReservedSmemOffsetEnd:
      return Int32(layout_.reserved_shared_offset + kReservedSharedBytes);
    case SpecialRegister::kReservedSmemOffsetCap:
      return Int32(kReservedSharedBytes);
    case SpecialRegister::kEnvreg:
      if (operand.value == 1 || operand.value == 2)
        return launch32(offsetof(LaunchContext, grid_workspace) + (operand.value == 1 ? 4 : 0));
      return Int32(0);
    default:
      return ConstInt(ptx::BitsOf(ptx::TypeOf(operand.special)), 0);
  }
}

}  // namespace farcall::cpu_device::jit
