// SPDX-License-Identifier: Apache-2.0
// Compiled kernels on disk. A file is trusted only as far as its own hash and key hold.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "cpu-device/exec/context.h"

namespace farcall::cpu_device {

using CacheKey = std::array<uint8_t, 32>;

// Key of one kernel: hash of its module's text, its name, this CPU and the code generator's
// version.
CacheKey HashText(std::string_view text);
CacheKey KernelKey(const CacheKey& text_hash, std::string_view kernel);

struct CachedKernel {
  CodeForm form = CodeForm::kLoop;
  std::string object;
  std::string notice;  // for the log, when the kernel is first taken; "": nothing to say
};

struct CacheFolder {
  std::string path;  // "": none
  // Whoever may write there is trusted as this user is: files of others are read, and they may read
  // ours.
  bool shared = false;
};

// False: not there, or not intact (then it is removed).
bool ReadCachedKernel(const CacheFolder& folder, const CacheKey& key, CachedKernel* kernel);
// Writes beside and renames. Failures are silent: a cache is allowed to be full or read-only.
void WriteCachedKernel(const CacheFolder& folder, const CacheKey& key, const CachedKernel& kernel);

}  // namespace farcall::cpu_device
