// SPDX-License-Identifier: Apache-2.0
// Values that live from one region to another: what all threads have in common in a variable of the
// block, what each has of its own in an array, what is cheap computed anew.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <array>
#include <optional>

#include "cpu-device/jit/regions/region_plan.h"

namespace farcall::cpu_device::jit {

class RegionValues {
 public:
  RegionValues(llvm::Function& kernel, RegionPlan& plan, Divergence& divergence,
               llvm::MDNode* unordered, uint32_t threads);
  void Separate();
  // x, y, z and the number in the block of the thread that a region's code runs for.
  llvm::AllocaInst* counter(unsigned i) const { return counters_[i]; }
  // Of a variable that all threads write alike: two, as a thread must not see the next turn's.
  struct Turn {
    llvm::AllocaInst *now, *next;
    int region;  // at whose begin next becomes now
  };
  const std::vector<Turn>& turns() const { return turns_; }
  // Where the threads' values are that a mark takes or gives; null if all share one.
  llvm::Value* ArrayOf(llvm::IRBuilder<>& b, const llvm::CallInst* mark, unsigned operand) const;
  llvm::Value* ResultsOf(llvm::IRBuilder<>& b, const llvm::CallInst* mark) const;
  llvm::Type* ElementOf(const llvm::CallInst* mark, unsigned operand) const;
  // The same, of thread i at frame() + offset + i * step.
  struct Place {
    uint64_t offset, step;
  };
  std::optional<Place> PlaceOf(const llvm::CallInst* mark, unsigned operand) const;
  uint64_t ResultOffset(const llvm::CallInst* mark) const { return slots_.lookup(mark).offset; }
  llvm::Value* frame() const { return frame_; }
  uint64_t frame_bytes() const { return frame_bytes_; }
  bool IsShared(const llvm::Value* pointer) const { return shared_.contains(pointer); }
  // By thread, whether it has ended; null where none ends before the others.
  llvm::Value* left() const { return left_; }

 private:
  struct Slot {
    llvm::AllocaInst* shared = nullptr;  // or
    uint64_t offset = 0;                 // in the frame, and from thread to thread
    uint64_t step = 0;
    llvm::Type* type = nullptr;  // in memory
  };
  void SeparatePhi(llvm::PHINode* phi, int region);
  void SeparateUses(llvm::Instruction* value);
  void SeparateAllocas();
  void AddLeft();
  void ResolveCounters();
  llvm::Value* In(int region, llvm::BasicBlock* block, llvm::Value* value);
  void SeparateOperand(llvm::CallInst* mark, llvm::Use* use);
  Slot SlotOf(llvm::Value* value);
  bool IsCheap(const llvm::Value* value, unsigned* budget) const;
  Slot NewSlot(llvm::Type* type, bool varies);
  llvm::AllocaInst* NewShared(llvm::Type* type);
  uint64_t NewArray(uint64_t bytes);
  void Store(llvm::IRBuilder<>& b, int region, const Slot& slot, llvm::Value* value);
  llvm::Value* Load(llvm::IRBuilder<>& b, int region, const Slot& slot, llvm::Type* type);
  llvm::Value* Element(llvm::IRBuilder<>& b, int region, uint64_t offset, uint64_t bytes);
  llvm::Value* Counter(int region, unsigned i);

  llvm::Function& kernel_;
  RegionPlan& plan_;
  Divergence& divergence_;
  llvm::MDNode* unordered_;
  const uint64_t threads_;
  llvm::AllocaInst* counters_[4];
  llvm::CallInst* frame_ = nullptr;
  llvm::Value* left_ = nullptr;
  uint64_t frame_bytes_ = 0;
  std::vector<Turn> turns_;
  llvm::DenseSet<const llvm::Value*> shared_;
  std::vector<llvm::Instruction*> anchors_;  // by region: what is loaded for it comes before
  std::vector<std::array<llvm::Value*, 4>> own_counters_;
  llvm::DenseMap<const llvm::Value*, Slot> slots_;
  struct Area {
    uint64_t offset = 0, bytes = 0;
  };
  llvm::DenseMap<const llvm::Value*, Area> areas_;  // of pointers to what was the thread's stack
  llvm::DenseMap<std::pair<const llvm::CallInst*, unsigned>, Slot> operands_;  // of marks
  llvm::DenseMap<const llvm::Value*, llvm::Value*>
      origins_;  // what one in another region stands for
  llvm::DenseMap<std::pair<const llvm::BasicBlock*, const llvm::Value*>, llvm::Value*> known_;
};

}  // namespace farcall::cpu_device::jit
