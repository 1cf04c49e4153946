// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/image_source.h"

#include <lz4.h>
#include <zstd.h>

#include <climits>
#include <set>
#include <vector>

#include "cuda-abi/image.h"

namespace farcall::cpu_device {
namespace {

constexpr uint64_t kMaxCodeBytes = 1ull << 30;

bool Unpack(const cuda_abi::ImageEntry& entry, std::string* text, std::string* error) {
  const auto* data = reinterpret_cast<const char*>(entry.payload.data());
  const uint64_t size = entry.uncompressed_bytes;
  if (size > kMaxCodeBytes) {
    *error =
        "an image of " + std::to_string(size) + " bytes, at most " + std::to_string(kMaxCodeBytes);
    return false;
  }
  text->resize(size);
  bool ok = true;
  if (entry.compression == cuda_abi::Compression::kZstd) {
    const size_t got = ZSTD_decompress(text->data(), size, data, entry.payload.size());
    ok = !ZSTD_isError(got) && got == size;
  } else if (entry.compression == cuda_abi::Compression::kLz4) {
    const int got =
        entry.payload.size() > INT_MAX
            ? -1
            : LZ4_decompress_safe(data, text->data(), static_cast<int>(entry.payload.size()),
                                  static_cast<int>(size));
    ok = got >= 0 && static_cast<uint64_t>(got) == size;
  } else {
    text->assign(data, entry.payload.size());
  }
  if (!ok) {
    *error = "a compressed image for sm_" + std::to_string(entry.arch) + " does not unpack to " +
             std::to_string(size) + " bytes";
    return false;
  }
  if (entry.kind == cuda_abi::EntryKind::kPtx) {
    while (!text->empty() && text->back() == '\0') text->pop_back();
  }
  return true;
}

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
    default:
      *error = "no fatbin, ELF file or PTX text";
      return CUDA_ERROR_INVALID_IMAGE;
  }
  std::vector<cuda_abi::ImageEntry> entries;
  if (!cuda_abi::ParseContainer(view.bytes, &entries, error)) return CUDA_ERROR_INVALID_IMAGE;
  const cuda_abi::ImageEntry* chosen = cuda_abi::ChooseEntry(entries, cc, taste);
  if (chosen == nullptr) {
    const std::string capability = std::to_string(cc / 10) + "." + std::to_string(cc % 10);
    *error = takes_machine_code
                 ? "nothing for compute capability " + capability + ", only " + Describe(entries)
                 : "no PTX for compute capability " + capability + " or below, only " +
                       Describe(entries) + "; this device executes PTX only";
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  return Unpack(*chosen, code, error) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

}  // namespace farcall::cpu_device
