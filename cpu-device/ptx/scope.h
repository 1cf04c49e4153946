// SPDX-License-Identifier: Apache-2.0
// Names visible inside a function body: nested scopes over the function's parameters.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "cpu-device/ptx/module.h"

namespace farcall::cpu_device::ptx {

// `%r<17>`: registers first .. first + count - 1, each `width` ids wide (vector registers).
struct RegisterRange {
  RegisterId first = 0;
  uint32_t count = 0;
  uint8_t width = 1;
};

struct LocalSymbol {
  const Variable* variable = nullptr;
  RegisterId reg = kNoRegister;
  uint8_t width = 1;  // of a vector register
};

// A reference to a label not yet seen.
struct LabelFixup {
  std::string_view name;
  uint32_t instruction = 0;  // operand of a branch, or ...
  uint32_t operand = 0;
  uint32_t table = kNoIndex;  // ... entry `operand` of this branch table
  uint32_t line = 0;
};

struct BodyScope {
  std::unordered_map<std::string_view, LocalSymbol> symbols;
  std::unordered_map<std::string_view, RegisterRange> ranges;
  std::unordered_map<std::string_view, uint32_t> labels;       // instruction index
  std::unordered_map<std::string_view, uint32_t> tables;       // .branchtargets
  std::unordered_map<std::string_view, uint32_t> call_tables;  // .calltargets
  std::unordered_map<std::string_view, uint32_t> prototypes;
  std::vector<LabelFixup> fixups;
};

class ScopeStack {
 public:
  ScopeStack() { Push(); }
  void Push() { scopes_.emplace_back(); }
  BodyScope Pop() {
    BodyScope top = std::move(scopes_.back());
    scopes_.pop_back();
    return top;
  }
  BodyScope& top() { return scopes_.back(); }
  size_t depth() const { return scopes_.size(); }

  // Innermost declaration of `name`, be it a plain name or a member of a range ("%r12").
  bool Find(std::string_view name, LocalSymbol* out) const;
  // Innermost entry of one of the index tables.
  bool Find(std::unordered_map<std::string_view, uint32_t> BodyScope::*table, std::string_view name,
            uint32_t* out) const;

 private:
  std::vector<BodyScope> scopes_;
};

}  // namespace farcall::cpu_device::ptx
