// SPDX-License-Identifier: Apache-2.0
#include "toolkit/nvrtc.h"

#include <dlfcn.h>

#include <filesystem>

namespace farcall {

bool AskForPtx(std::string* option) {
  for (const char* arch : {"--gpu-architecture=sm_", "-arch=sm_", "--gpu-architecture sm_"}) {
    if (option->starts_with(arch)) {
      const size_t at = option->find("sm_");
      option->replace(at, 3, "compute_");
      return true;
    }
  }
  if (option->starts_with("sm_")) {  // after a lone -arch
    option->replace(0, 3, "compute_");
    return true;
  }
  return false;
}

void LoadBuiltins(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().filename().string().starts_with("libnvrtc-builtins.so."))
      dlopen(entry.path().c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace farcall
