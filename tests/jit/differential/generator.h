// SPDX-License-Identifier: Apache-2.0
// Random PTX kernels whose every result the ISA fixes: no races, no order of atomics that shows, no
// undefined operands. A thread starts with a record of random registers and ends by storing them.
#pragma once

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/jit/differential/forms.h"

namespace farcall::cpu_device::differential {

// A thread's registers in memory, and what lies behind them.
inline constexpr uint32_t kWideRegisters = 10, kWordRegisters = 16, kHalfRegisters = 12,
                          kPredicates = 8;
inline constexpr uint32_t kWordsAt = kWideRegisters * 8, kHalvesAt = kWordsAt + kWordRegisters * 4,
                          kPredicatesAt = kHalvesAt + kHalfRegisters * 2;
inline constexpr uint32_t kPrivateAt = 176, kPrivateBytes = 128;  // memory of the thread alone
inline constexpr uint32_t kRecordBytes = kPrivateAt + kPrivateBytes;
inline constexpr uint32_t kCounters = 32;   // 8 bytes each, of all threads of the grid or the block
inline constexpr uint32_t kSlotBytes = 32;  // of shared memory, a thread

struct GeneratedKernel {
  std::string ptx;  // k(.u64 records out, .u64 records in, .u64 counters, .u64 blocks' counters)
  uint32_t grid = 1, block = 32;
  size_t statements = 0;             // at the outermost level
  std::vector<std::string> opcodes;  // every one of them, with its modifiers and types
};

// The forms in random order; each is dealt once before any is dealt again.
class Deck {
 public:
  explicit Deck(uint64_t seed);
  const Form& Deal();

 private:
  std::mt19937_64 random_;
  std::vector<size_t> order_;
  size_t next_ = 0;
};

class Generator {
 public:
  // `forms`: what this kernel's plain instructions are dealt from. A kernel of the same seed and
  // forms with fewer statements is a prefix of this one.
  Generator(uint64_t seed, std::vector<const Form*> forms);
  GeneratedKernel Make(size_t max_statements);

 private:
  struct Choice {
    int weight;
    void (Generator::*emit)(int depth);
  };
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  bool Chance(int percent) { return Below(100) < static_cast<uint64_t>(percent); }
  template <typename T>
  const T& Pick(const std::vector<T>& from) {
    return from[Below(from.size())];
  }
  void Line(const std::string& text);
  // An instruction: its mnemonic counts as covered.
  void Op(const std::string& mnemonic, const std::string& operands, const std::string& guard = "");
  std::string Register(char width);
  std::string Constant(char kind);
  std::string Operand(const std::string& token, const std::string& mnemonic);
  std::string Label();
  std::string Predicate();

  void Statement(int depth);
  void Statements(int depth, int count);
  void EmitForm(const Form& form);
  void OneNan(char format, const std::string& reg);
  void OneNanOfPair(char format, const std::string& reg);
  void EmitChoice(int depth, const std::vector<Choice>& choices);

  // any control flow
  void Plain(int depth);
  void Branch(int depth);
  void Loop(int depth);
  void Switch(int depth);
  void OwnMemory(int depth);
  void OwnAtomic(int depth);
  void SharedCounter(int depth);
  void CallFunction(int depth);
  void CarryChain(int depth);
  void Special(int depth);
  void StridedLoop(int depth);
  // all threads of the block together
  void Exchange(int depth);
  void Barrier(int depth);
  void Warp(int depth);
  void MaskedWarp(int depth);
  void UniformLoop(int depth);
  // all that are left of the block together
  void Leave(int depth);

  std::string OwnAddress(const std::string& base, uint32_t area_bytes, uint32_t bytes);
  std::string Functions();
  std::string Function(int index);
  std::string Prolog() const;
  std::string Epilog() const;

  std::mt19937_64 random_;
  std::vector<const Form*> forms_;
  size_t next_form_ = 0;
  std::string body_;
  std::vector<std::string> opcodes_;
  int labels_ = 0;
  bool uniform_ = true;  // every thread of the block is here
  bool in_function_ = false;
  // Threads meet all together alone: what the JIT makes loops of, where others are coroutines.
  bool together_ = false;
};

// Random bits of the sort that finds mistakes: limits, signs, NaNs, subnormals, small numbers.
uint64_t InterestingBits(std::mt19937_64& random);

}  // namespace farcall::cpu_device::differential
