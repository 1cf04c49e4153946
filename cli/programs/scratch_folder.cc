// SPDX-License-Identifier: Apache-2.0
#include "cli/programs/scratch_folder.h"

#include <cstdlib>
#include <filesystem>

namespace farcall::cli {

ScratchFolder::ScratchFolder(const std::string& name) {
  std::error_code error;
  // A read-only container often has a writable /dev/shm.
  for (const std::filesystem::path& base :
       {std::filesystem::temp_directory_path(error), std::filesystem::path("/dev/shm")}) {
    if (base.empty()) continue;
    path_ = (base / (name + "-XXXXXX")).string();
    if (mkdtemp(path_.data()) != nullptr) return;
  }
  path_.clear();
}

ScratchFolder::~ScratchFolder() {
  std::error_code error;
  if (!path_.empty()) std::filesystem::remove_all(path_, error);
}

}  // namespace farcall::cli
