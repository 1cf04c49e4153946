// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/code/image_source.h"

#include <set>
#include <vector>

#include "cpu-device/driver/code/link_text.h"
#include "cpu-device/images/host_object.h"
#include "cpu-device/images/unpack.h"
#include "cuda-abi/image.h"

namespace farcall::cpu_device {
namespace {

std::string Describe(const std::vector<cuda_abi::ImageEntry>& entries) {
  std::set<std::string> found;
  for (const auto& entry : entries) {
    found.insert((entry.kind == cuda_abi::EntryKind::kPtx ? "PTX " : "machine code ") +
                 std::to_string(entry.arch));
  }
  std::string text;
  for (const std::string& one : found) text += (text.empty() ? "" : ", ") + one;
  return text.empty() ? "nothing" : text;
}

// Adds the container's PTX for `cc`, if it has any.
bool AddPtx(cuda_abi::Bytes container, uint32_t cc, std::vector<std::string>* units,
            std::string* error) {
  std::vector<cuda_abi::ImageEntry> entries;
  if (!cuda_abi::ParseContainer(container, &entries, error)) return false;
  const cuda_abi::ImageEntry* chosen =
      cuda_abi::ChooseEntry(entries, cc, cuda_abi::CodeTaste::kPtxOnly);
  if (chosen == nullptr) return true;
  units->emplace_back();
  return images::Unpack(*chosen, &units->back(), error);
}

// The PTX of a program of several translation units (-rdc=true): each has a container of its own
// beside the wrapper's, which holds what nvlink made of their machine code. False: none has any.
bool LinkUnits(const void* wrapper, uint32_t cc, std::string* code, std::string* error) {
  std::vector<std::string> units;
  for (const cuda_abi::ImageView& view : cuda_abi::ViewTrustedWrapper(wrapper))
    if (!AddPtx(view.bytes, cc, &units, error)) return false;
  if (units.empty()) return false;
  *code = LinkText(units);
  return true;
}

}  // namespace

CUresult ExtractImage(const void* image, uint32_t cc, cuda_abi::CodeTaste taste, std::string* code,
                      std::string* error) {
  const bool takes_machine_code = taste != cuda_abi::CodeTaste::kPtxOnly;
  const cuda_abi::ImageView view = cuda_abi::ViewTrustedImage(image);
  switch (view.form) {
    case cuda_abi::ImageForm::kElf:
      if (!takes_machine_code) {
        *error =
            "a cubin: this device executes PTX only (build with -gencode "
            "arch=compute_80,code=compute_80 or -arch=compute_80)";
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
      }
      if (view.bytes.empty()) {
        *error = "an ELF file with a broken header";
        return CUDA_ERROR_INVALID_IMAGE;
      }
      [[fallthrough]];
    case cuda_abi::ImageForm::kPtx:
      code->assign(reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size());
      return CUDA_SUCCESS;
    case cuda_abi::ImageForm::kContainer:
      break;
    case cuda_abi::ImageForm::kTileIr:
      *error = "CUDA Tile IR, which is not supported by the CPU device";
      return CUDA_ERROR_INVALID_IMAGE;
    default:
      *error = "no fatbin, ELF file or PTX text";
      return CUDA_ERROR_INVALID_IMAGE;
  }
  std::vector<cuda_abi::ImageEntry> entries;
  if (!cuda_abi::ParseContainer(view.bytes, &entries, error)) return CUDA_ERROR_INVALID_IMAGE;
  const cuda_abi::ImageEntry* chosen = cuda_abi::ChooseEntry(entries, cc, taste);
  if (chosen == nullptr && LinkUnits(image, cc, code, error)) return CUDA_SUCCESS;
  if (chosen == nullptr) {
    const std::string capability = std::to_string(cc / 10) + "." + std::to_string(cc % 10);
    *error = takes_machine_code
                 ? "nothing for compute capability " + capability + ", only " + Describe(entries)
                 : "no PTX for compute capability " + capability + " or below, only " +
                       Describe(entries) + "; this device executes PTX only";
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  return images::Unpack(*chosen, code, error) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

bool ExtractHostCode(cuda_abi::Bytes file, uint32_t cc, std::vector<std::string>* units,
                     std::string* error) {
  std::vector<cuda_abi::Bytes> containers;
  if (!images::ContainersOfHostCode(file, &containers, error)) return false;
  for (const cuda_abi::Bytes container : containers)
    if (!AddPtx(container, cc, units, error)) return false;
  if (units->empty())
    *error = "a host object or library without PTX for this device, which executes PTX only";
  return !units->empty();
}

}  // namespace farcall::cpu_device
