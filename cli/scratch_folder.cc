// SPDX-License-Identifier: Apache-2.0
#include "cli/scratch_folder.h"

#include <cstdlib>
#include <filesystem>

namespace farcall::cli {

ScratchFolder::ScratchFolder(const std::string& name) {
  std::error_code error;
  path_ = (std::filesystem::temp_directory_path(error) / (name + "-XXXXXX")).string();
  if (mkdtemp(path_.data()) == nullptr) path_.clear();
}

ScratchFolder::~ScratchFolder() {
  std::error_code error;
  if (!path_.empty()) std::filesystem::remove_all(path_, error);
}

}  // namespace farcall::cli
