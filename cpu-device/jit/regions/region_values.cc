// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/regions/region_values.h"

#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/MathExtras.h>

#include "cpu-device/exec/context.h"
#include "cpu-device/jit/regions/marks.h"

namespace farcall::cpu_device::jit {

using llvm::BasicBlock;
using llvm::Instruction;
using llvm::Value;

namespace {

// Past this many operations a value is not worth computing again.
constexpr unsigned kCheapOperations = 16;
constexpr uint64_t kCacheLine = 64;

int MarkedCounter(const Value* value) {
  const llvm::StringRef name = MarkOf(*value);
  if (name.empty()) return -1;
  for (int i = 0; i < 3; ++i)
    if (name == kMarkTid[i]) return i;
  return name == kMarkLinear ? 3 : -1;
}

}  // namespace

RegionValues::RegionValues(llvm::Function& kernel, RegionPlan& plan, Divergence& divergence,
                           llvm::MDNode* unordered, uint32_t threads)
    : kernel_(kernel),
      plan_(plan),
      divergence_(divergence),
      unordered_(unordered),
      threads_(llvm::alignTo(threads, kWarpSize)) {
  llvm::IRBuilder<> b(kernel.getEntryBlock().getTerminator());
  for (llvm::AllocaInst*& counter : counters_) counter = NewShared(b.getInt32Ty());
  const llvm::FunctionCallee allocate = kernel.getParent()->getOrInsertFunction(
      "fc_rt_alloc_frame",
      llvm::FunctionType::get(b.getPtrTy(), {b.getPtrTy(), b.getInt64Ty()}, false));
  frame_ = b.CreateCall(allocate, {kernel.getArg(0), b.getInt64(0)}, "frame");
  frame_->setDoesNotThrow();
  frame_->addRetAttr(llvm::Attribute::NoAlias);
  const llvm::Function* leave = kernel.getParent()->getFunction(kMarkLeave);
  if (leave && !leave->use_empty()) AddLeft();
}

void RegionValues::AddLeft() {
  const uint64_t offset = NewArray(1);
  llvm::IRBuilder<> b(kernel_.getEntryBlock().getTerminator());
  left_ = b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), frame_, offset, "left");
  b.CreateMemSet(left_, b.getInt8(0), threads_, llvm::MaybeAlign());
}

void RegionValues::Separate() {
  std::vector<Region>& regions = plan_.regions();
  for (const Region& region : regions) {
    llvm::IRBuilder<> b(region.entry->getFirstNonPHI());
    std::array<Value*, 4> own;
    for (unsigned i = 0; i < 4; ++i) own[i] = b.CreateLoad(b.getInt32Ty(), counters_[i]);
    // Nothing more than a place.
    Instruction* anchor = b.CreateLoad(b.getInt32Ty(), counters_[0]);
    own_counters_.push_back(own);
    anchors_.push_back(anchor);
  }
  for (BasicBlock& block : kernel_) {
    for (Instruction& instruction : block) {
      if (!IsWarpMark(instruction) && !IsMatrixMark(instruction)) continue;
      slots_[&instruction] = NewSlot(instruction.getType(), true);
    }
  }
  SeparateAllocas();
  for (size_t i = 0; i < regions.size(); ++i)
    while (auto* phi = llvm::dyn_cast<llvm::PHINode>(&regions[i].entry->front()))
      SeparatePhi(phi, static_cast<int>(i));
  std::vector<Instruction*> values;
  for (const Region& region : regions) {
    for (BasicBlock* block : region.blocks)
      for (Instruction& instruction : *block) values.push_back(&instruction);
  }
  for (BasicBlock& block : kernel_) {
    if (!IsMeeting(block.front())) continue;
    for (Instruction& instruction : block) values.push_back(&instruction);
  }
  for (Instruction* value : values) SeparateUses(value);
  ResolveCounters();
  frame_->setArgOperand(1, llvm::ConstantInt::get(frame_->getArgOperand(1)->getType(),
                                                  llvm::alignTo(frame_bytes_, kCacheLine)));
}

llvm::AllocaInst* RegionValues::NewShared(llvm::Type* type) {
  BasicBlock& first = kernel_.getEntryBlock();
  auto* slot = new llvm::AllocaInst(type, 0, "", first.begin());
  shared_.insert(slot);
  return slot;
}

uint64_t RegionValues::NewArray(uint64_t bytes) {
  const uint64_t offset = frame_bytes_;
  // One line more: arrays side by side would else fall on the same sets of the cache.
  frame_bytes_ += llvm::alignTo(bytes * threads_, kCacheLine) + kCacheLine;
  return offset;
}

RegionValues::Slot RegionValues::NewSlot(llvm::Type* type, bool varies) {
  Slot slot;
  slot.type = type;
  if (!varies) {
    slot.shared = NewShared(type);
    return slot;
  }
  if (type->isIntegerTy(1)) slot.type = llvm::Type::getInt8Ty(kernel_.getContext());
  slot.step = kernel_.getDataLayout().getTypeAllocSize(slot.type);
  slot.offset = NewArray(slot.step);
  return slot;
}

Value* RegionValues::Counter(int region, unsigned i) {
  return own_counters_[static_cast<size_t>(region)][i];
}

Value* RegionValues::Element(llvm::IRBuilder<>& b, int region, uint64_t offset, uint64_t bytes) {
  Value* number = b.CreateZExt(Counter(region, 3), b.getInt64Ty(), "", /*IsNonNeg=*/true);
  Value* base = b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), frame_, offset);
  return b.CreateInBoundsGEP(b.getInt8Ty(), base,
                             b.CreateMul(number, b.getInt64(bytes), "", true, true));
}

void RegionValues::Store(llvm::IRBuilder<>& b, int region, const Slot& slot, Value* value) {
  if (slot.shared) {
    b.CreateStore(value, slot.shared);
    return;
  }
  if (value->getType() != slot.type) value = b.CreateZExt(value, slot.type);
  llvm::StoreInst* store = b.CreateStore(value, Element(b, region, slot.offset, slot.step));
  store->setMetadata(llvm::LLVMContext::MD_access_group, unordered_);
}

Value* RegionValues::Load(llvm::IRBuilder<>& b, int region, const Slot& slot, llvm::Type* type) {
  if (slot.shared) return b.CreateLoad(type, slot.shared);
  llvm::LoadInst* load = b.CreateLoad(slot.type, Element(b, region, slot.offset, slot.step));
  load->setMetadata(llvm::LLVMContext::MD_access_group, unordered_);
  divergence_.NoteVarying(load);
  return slot.type == type ? load : b.CreateTrunc(load, type);
}

void RegionValues::ResolveCounters() {
  for (unsigned i = 0; i < 4; ++i) {
    llvm::Function* mark = kernel_.getParent()->getFunction(i < 3 ? kMarkTid[i] : kMarkLinear);
    if (!mark) continue;
    for (llvm::User* user : llvm::make_early_inc_range(mark->users())) {
      auto* call = llvm::cast<Instruction>(user);
      call->replaceAllUsesWith(Counter(plan_.RegionOf(call->getParent()), i));
      call->eraseFromParent();
    }
  }
}

// What SROA left: memory whose address is passed on. Each thread gets its own.
void RegionValues::SeparateAllocas() {
  std::vector<llvm::AllocaInst*> allocas;
  for (Instruction& instruction : kernel_.getEntryBlock()) {
    auto* memory = llvm::dyn_cast<llvm::AllocaInst>(&instruction);
    if (memory && !IsShared(memory)) allocas.push_back(memory);
  }
  for (llvm::AllocaInst* memory : allocas) {
    const uint64_t bytes = llvm::alignTo(
        kernel_.getDataLayout().getTypeAllocSize(memory->getAllocatedType()), kCacheLine);
    const uint64_t offset = NewArray(bytes);
    llvm::DenseMap<int, Value*> own;
    for (llvm::Use& use : llvm::make_early_inc_range(memory->uses())) {
      auto* user = llvm::cast<Instruction>(use.getUser());
      if (user->isLifetimeStartOrEnd()) {
        divergence_.Forget(user);
        user->eraseFromParent();
        continue;
      }
      BasicBlock* at = user->getParent();
      if (auto* phi = llvm::dyn_cast<llvm::PHINode>(user)) at = phi->getIncomingBlock(use);
      const int region = plan_.RegionOf(at);
      Value*& element = own[region];
      if (!element) {
        llvm::IRBuilder<> b(anchors_[static_cast<size_t>(region)]);
        element = Element(b, region, offset, bytes);
        areas_[element] = {offset, bytes};
        divergence_.NoteVarying(element);
      }
      use.set(element);
    }
    divergence_.Forget(memory);
    memory->eraseFromParent();
  }
}

// Ahead of a region, by memory: each way in says what it brings.
void RegionValues::SeparatePhi(llvm::PHINode* phi, int region) {
  Slot slot = NewSlot(phi->getType(), divergence_.Varies(phi));
  llvm::IRBuilder<> b(anchors_[static_cast<size_t>(region)]);
  Value* value = Load(b, region, slot, phi->getType());
  if (slot.shared) {
    Turn turn = {slot.shared, NewShared(phi->getType()), region};
    turns_.push_back(turn);
    slot.shared = turn.next;
  }
  for (unsigned i = 0; i < phi->getNumIncomingValues(); ++i) {
    BasicBlock* from = phi->getIncomingBlock(i);
    b.SetInsertPoint(from->getTerminator());
    Store(b, plan_.RegionOf(from), slot, phi->getIncomingValue(i));
  }
  if (!slot.shared) {
    divergence_.NoteVarying(value);
    // Written when the region is next entered, when nobody wants this turn's any more.
    slots_[value] = slot;
  }
  phi->replaceAllUsesWith(value);
  divergence_.Forget(phi);
  phi->eraseFromParent();
}

// Whether it is made of what all threads share and of the thread's number, in few steps.
bool RegionValues::IsCheap(const Value* value, unsigned* budget) const {
  const auto* instruction = llvm::dyn_cast<Instruction>(value);
  if (!instruction || MarkedCounter(value) >= 0) return true;
  if (!divergence_.Varies(value)) return !divergence_.OfTurn(value);
  if (areas_.count(value)) return true;
  if (instruction->mayReadOrWriteMemory() || llvm::isa<llvm::CallInst>(instruction) ||
      llvm::isa<llvm::PHINode>(instruction) || llvm::isa<llvm::AllocaInst>(instruction))
    return false;
  if (*budget == 0) return false;
  --*budget;
  return llvm::all_of(instruction->operands(),
                      [&](const llvm::Use& operand) { return IsCheap(operand.get(), budget); });
}

// `value`, which another region has computed, at the begin of `block`: of a region's entry or of a
// common block.
Value* RegionValues::In(int region, BasicBlock* block, Value* value) {
  auto* instruction = llvm::dyn_cast<Instruction>(value);
  if (!instruction || instruction == frame_) return value;
  if (region >= 0 && plan_.RegionOf(instruction->getParent()) == region) return value;
  if (instruction->getParent() == &kernel_.getEntryBlock()) return value;
  if (Value* origin = origins_.lookup(value)) return In(region, block, origin);
  if (Value* known = known_.lookup({block, value})) return known;
  Instruction* at = region >= 0 ? anchors_[static_cast<size_t>(region)] : &block->front();
  unsigned budget = kCheapOperations;
  Value* made = nullptr;
  if (const Area area = areas_.lookup(value); area.bytes != 0) {
    llvm::IRBuilder<> b(at);
    made = Element(b, region, area.offset, area.bytes);
    areas_[made] = area;
  } else if (region >= 0 && divergence_.Varies(value) && IsCheap(value, &budget)) {
    Instruction* copy = instruction->clone();
    for (llvm::Use& operand : copy->operands()) operand.set(In(region, block, operand.get()));
    copy->insertBefore(at);
    made = copy;
  } else {
    const Slot slot = SlotOf(value);
    llvm::IRBuilder<> b(at);
    made = Load(b, region, slot, value->getType());
  }
  if (divergence_.Varies(value)) divergence_.NoteVarying(made);
  origins_[made] = value;
  known_[{block, value}] = made;
  return made;
}

// The memory of a value, which stands there from where it is computed.
RegionValues::Slot RegionValues::SlotOf(Value* value) {
  auto [found, fresh] = slots_.try_emplace(value);
  if (!fresh) return found->second;
  auto* instruction = llvm::cast<Instruction>(value);
  if (const llvm::CallInst* mark = MatrixMarkOf(*value)) {
    Slot word = slots_.lookup(mark);
    word.offset += 4 * llvm::cast<llvm::ExtractValueInst>(value)->getIndices()[0];
    word.type = value->getType();
    return slots_[value] = word;
  }
  const Slot slot = NewSlot(value->getType(), divergence_.Varies(value));
  slots_[value] = slot;
  auto next = std::next(instruction->getIterator());
  if (llvm::isa<llvm::PHINode>(instruction)) next = instruction->getParent()->getFirstInsertionPt();
  llvm::IRBuilder<> b(instruction->getParent(), next);
  Store(b, plan_.RegionOf(instruction->getParent()), slot, instruction);
  return slot;
}

// A mark reads the threads' values from memory, of a warp operation as narrow as they were before
// they were widened.
void RegionValues::SeparateOperand(llvm::CallInst* mark, llvm::Use* use) {
  Value* value = use->get();
  auto* wide = llvm::dyn_cast<llvm::ZExtInst>(value);
  if (wide && !IsMatrixMark(*mark)) value = wide->getOperand(0);
  operands_[{mark, use->getOperandNo()}] = SlotOf(value);
  use->set(llvm::Constant::getNullValue(use->get()->getType()));
}

Value* RegionValues::ArrayOf(llvm::IRBuilder<>& b, const llvm::CallInst* mark,
                             unsigned operand) const {
  auto found = operands_.find({mark, operand});
  if (found == operands_.end()) return nullptr;
  return b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), frame_, found->second.offset);
}

Value* RegionValues::ResultsOf(llvm::IRBuilder<>& b, const llvm::CallInst* mark) const {
  return b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), frame_, slots_.lookup(mark).offset);
}

llvm::Type* RegionValues::ElementOf(const llvm::CallInst* mark, unsigned operand) const {
  return operands_.lookup({mark, operand}).type;
}

std::optional<RegionValues::Place> RegionValues::PlaceOf(const llvm::CallInst* mark,
                                                         unsigned operand) const {
  auto found = operands_.find({mark, operand});
  if (found == operands_.end()) return std::nullopt;
  return Place{found->second.offset, found->second.step};
}

void RegionValues::SeparateUses(Instruction* value) {
  const int own = plan_.RegionOf(value->getParent());
  for (llvm::Use& use : llvm::make_early_inc_range(value->uses())) {
    auto* user = llvm::cast<Instruction>(use.getUser());
    BasicBlock* at = user->getParent();
    if (auto* phi = llvm::dyn_cast<llvm::PHINode>(user)) at = phi->getIncomingBlock(use);
    const int region = plan_.RegionOf(at);
    if (IsMeeting(*user) && divergence_.Varies(value)) {
      SeparateOperand(llvm::cast<llvm::CallInst>(user), &use);
      continue;
    }
    if (region == own && region >= 0) continue;
    // The store of a mark's result into its slot, for one.
    if (at == value->getParent()) continue;
    BasicBlock* begin = region >= 0 ? plan_.regions()[static_cast<size_t>(region)].entry : at;
    use.set(In(region, begin, value));
  }
}

}  // namespace farcall::cpu_device::jit
