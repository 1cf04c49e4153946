// SPDX-License-Identifier: Apache-2.0
// Look-ups in a module and the lazy parse of its bodies.
#include "cpu-device/ptx/module.h"

#include "cpu-device/ptx/body_parser.h"
#include "cpu-device/ptx/modifiers.h"

namespace farcall::cpu_device::ptx {
namespace {

// clear() would keep the memory.
template <typename T>
void Release(std::vector<T>& v) {
  std::vector<T>().swap(v);
}

}  // namespace

std::string_view Instruction::Part(unsigned i) const {
  return MnemonicPart(mnemonic, i);
}

bool Instruction::Has(std::string_view modifier) const {
  size_t dot = mnemonic.find('.');
  while (dot != std::string_view::npos) {
    size_t next = mnemonic.find('.', dot + 1);
    if (mnemonic.substr(dot + 1, next - dot - 1) == modifier) return true;
    dot = next;
  }
  return false;
}

const Variable* Module::FindGlobal(std::string_view name) const {
  auto it = global_by_name.find(name);
  return it == global_by_name.end() ? nullptr : it->second;
}

const Function* Module::FindFunction(std::string_view name) const {
  // Bounded: a hostile module may alias in a circle.
  for (size_t hop = 0; hop <= aliases.size(); ++hop) {
    auto it = function_by_name.find(name);
    auto alias = aliases.find(name);
    bool defined = it != function_by_name.end() && it->second->has_body;
    if (defined || alias == aliases.end())
      return it == function_by_name.end() ? nullptr : it->second;
    name = alias->second;
  }
  return nullptr;
}

Function* Module::FindFunction(std::string_view name) {
  return const_cast<Function*>(static_cast<const Module*>(this)->FindFunction(name));
}

ParseResult Module::EnsureBody(Function& function) const {
  if (function.body_parsed || !function.has_body) return {};
  ParseResult result = BodyParser(*this, function).Run();
  if (!result.ok()) {
    DropBody(function);
    return result;
  }
  function.body_parsed = true;
  return {};
}

void Module::DropBody(Function& function) const {
  function.body_parsed = false;
  Release(function.registers);
  Release(function.locals);
  Release(function.body);
  Release(function.labels);
  Release(function.branch_targets);
  Release(function.call_targets);
  Release(function.prototypes);
  Release(function.locations);
}

ParseResult Module::EnsureAll() {
  for (auto& function : functions) {
    ParseResult result = EnsureBody(*function);
    if (!result.ok()) return result;
  }
  return {};
}

}  // namespace farcall::cpu_device::ptx
