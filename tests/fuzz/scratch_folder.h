// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace farcall::fuzz {

// A folder of this process, removed at its end. On a file system in memory, where there is one:
// what is tested syncs its files.
inline const std::string& ScratchFolder() {
  static const std::string* folder = [] {
    const bool has_memory = std::filesystem::is_directory("/dev/shm");
    std::string name = std::string(has_memory ? "/dev/shm" : "/tmp") + "/farcall-fuzz-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) {
      std::fprintf(stderr, "no folder for files: %s\n", name.c_str());
      std::abort();
    }
    auto* made = new std::string(name);
    std::atexit([] { std::filesystem::remove_all(ScratchFolder()); });
    return made;
  }();
  return *folder;
}

}  // namespace farcall::fuzz
