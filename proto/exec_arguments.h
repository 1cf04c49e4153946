// SPDX-License-Identifier: Apache-2.0
// Words as execve and posix_spawn take them.
#pragma once

#include <string>
#include <vector>

namespace farcall {

// Points into `words`, which have to outlive it; a null pointer ends it.
inline std::vector<char*> ExecArguments(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

}  // namespace farcall
