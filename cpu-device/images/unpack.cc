// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/images/unpack.h"

#include <lz4.h>
#include <zstd.h>

#include <climits>

namespace farcall::cpu_device::images {
namespace {

constexpr uint64_t kMaxCodeBytes = 1ull << 30;

}  // namespace

bool Unpack(const cuda_abi::ImageEntry& entry, std::string* code, std::string* error) {
  const auto* data = reinterpret_cast<const char*>(entry.payload.data());
  const uint64_t size = entry.uncompressed_bytes;
  if (size > kMaxCodeBytes) {
    *error =
        "an image of " + std::to_string(size) + " bytes, at most " + std::to_string(kMaxCodeBytes);
    return false;
  }
  code->resize(size);
  bool ok = true;
  if (entry.compression == cuda_abi::Compression::kZstd) {
    const size_t got = ZSTD_decompress(code->data(), size, data, entry.payload.size());
    ok = !ZSTD_isError(got) && got == size;
  } else if (entry.compression == cuda_abi::Compression::kLz4) {
    const int got =
        entry.payload.size() > INT_MAX
            ? -1
            : LZ4_decompress_safe(data, code->data(), static_cast<int>(entry.payload.size()),
                                  static_cast<int>(size));
    ok = got >= 0 && static_cast<uint64_t>(got) == size;
  } else {
    code->assign(data, entry.payload.size());
  }
  if (!ok) {
    *error = "a compressed image for sm_" + std::to_string(entry.arch) + " does not unpack to " +
             std::to_string(size) + " bytes";
    return false;
  }
  if (entry.kind == cuda_abi::EntryKind::kPtx)
    while (!code->empty() && code->back() == '\0') code->pop_back();
  return true;
}

}  // namespace farcall::cpu_device::images
