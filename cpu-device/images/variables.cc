// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/images/variables.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "cpu-device/images/cubin.h"
#include "cpu-device/images/unpack.h"
#include "cpu-device/ptx/module.h"

namespace farcall::cpu_device::images {
namespace {

// Sums without wrapping around: a peer names the sizes.
class Sum {
 public:
  void Add(uint64_t bytes, uint64_t align) {
    const uint64_t rest = std::numeric_limits<uint64_t>::max() - bytes_;
    const uint64_t gap = align > 1 ? (align - bytes_ % align) % align : 0;
    bytes_ = gap > rest || bytes > rest - gap ? std::numeric_limits<uint64_t>::max()
                                              : bytes_ + gap + bytes;
  }
  uint64_t bytes() const { return bytes_; }

 private:
  uint64_t bytes_ = 0;
};

uint64_t OfPtx(std::string_view text) {
  ptx::Module module;
  if (!ptx::Parse(text, &module).ok()) return 0;
  Sum sum;
  for (const auto& variable : module.globals) {
    const bool in_memory =
        variable->space == ptx::Space::kGlobal || variable->space == ptx::Space::kConst;
    if (in_memory && variable->linkage != ptx::Linkage::kExtern)
      sum.Add(variable->size_bytes, variable->align);
  }
  return sum.bytes();
}

uint64_t OfCubin(cuda_abi::Bytes image) {
  Cubin cubin;
  std::string error;
  if (!ReadCubin(image, &cubin, &error)) return 0;
  Sum sum;
  for (const CubinVariable& variable : cubin.variables)
    sum.Add(variable.size_bytes, variable.align_bytes);
  return sum.bytes();
}

uint64_t OfContainer(cuda_abi::Bytes image, uint32_t cc, cuda_abi::CodeTaste taste) {
  std::vector<cuda_abi::ImageEntry> entries;
  std::string error, code;
  if (!cuda_abi::ParseContainer(image, &entries, &error)) return 0;
  const cuda_abi::ImageEntry* chosen = cuda_abi::ChooseEntry(entries, cc, taste);
  if (chosen == nullptr || !Unpack(*chosen, &code, &error)) return 0;
  if (chosen->kind == cuda_abi::EntryKind::kPtx) return OfPtx(code);
  return OfCubin({reinterpret_cast<const uint8_t*>(code.data()), code.size()});
}

}  // namespace

uint64_t VariableBytes(cuda_abi::Bytes image, uint32_t cc, cuda_abi::CodeTaste taste) {
  std::string error;
  const cuda_abi::ImageView view = cuda_abi::ViewImage(image, &error);
  switch (view.form) {
    case cuda_abi::ImageForm::kElf:
      return OfCubin(view.bytes);
    case cuda_abi::ImageForm::kPtx:
      return OfPtx({reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size()});
    case cuda_abi::ImageForm::kContainer:
      return OfContainer(view.bytes, cc, taste);
    default:
      return 0;
  }
}

}  // namespace farcall::cpu_device::images
