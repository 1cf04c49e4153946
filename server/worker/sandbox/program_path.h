// SPDX-License-Identifier: Apache-2.0
// Programs of our own tree.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <string>

namespace farcall::server {

// `below` ("/libexec/farcall/...") in the tree whose bin/ (or libexec/farcall/) this program runs
// from.
inline std::string ProgramBeside(const std::string& below) {
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  std::string found(path, length > 0 ? static_cast<size_t>(length) : 0);
  auto up = [&] { found.resize(std::min(found.size(), found.rfind('/'))); };
  up();
  bool is_helper =
      found.size() >= 16 && found.compare(found.size() - 16, 16, "/libexec/farcall") == 0;
  up();
  if (is_helper) up();
  return found + below;
}

}  // namespace farcall::server
