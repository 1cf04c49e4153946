// SPDX-License-Identifier: Apache-2.0
// A folder of one command's own, gone with it.
#pragma once

#include <string>

namespace farcall::cli {

class ScratchFolder {
 public:
  // Below the folder for temporary files; `name` tells whose it is.
  explicit ScratchFolder(const std::string& name);
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();

  // "" if none could be made.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace farcall::cli
