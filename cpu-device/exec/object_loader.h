// SPDX-License-Identifier: Apache-2.0
// Maps one relocatable x86-64 ELF object of ours into executable memory. Cached kernels load
// without LLVM.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace farcall::cpu_device {

class LoadedObject {
 public:
  // Places the object's sections, resolves externals through FindRuntimeSymbol, makes it
  // executable.
  //   Errors  nullptr, *error says what: not such an object, unknown symbol, unknown relocation
  static std::unique_ptr<LoadedObject> Load(std::string_view object, std::string* error);
  ~LoadedObject();
  // Address of an exported function; nullptr if there is none.
  void* entry() const { return entry_; }

 private:
  LoadedObject() = default;
  friend class ObjectMapper;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
  void* entry_ = nullptr;
};

// The name every compiled kernel's object exports.
inline constexpr std::string_view kKernelSymbol = "farcall_kernel";

}  // namespace farcall::cpu_device
