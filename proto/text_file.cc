// SPDX-License-Identifier: Apache-2.0
#include "proto/text_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace farcall {

Result<std::string> ReadTextFile(const std::string& path, size_t max_bytes) {
  FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) {
    const bool is_absent = errno == ENOENT || errno == ENOTDIR;
    return Status(is_absent ? Code::kUnavailable : Code::kInvalid, std::strerror(errno));
  }
  std::string text;
  char buffer[4096];
  size_t got = 0;
  while (text.size() <= max_bytes && (got = std::fread(buffer, 1, sizeof(buffer), file)) != 0)
    text.append(buffer, got);
  const std::string failure = std::ferror(file) != 0 ? std::strerror(errno) : "";
  std::fclose(file);
  if (!failure.empty()) return Status(Code::kInvalid, failure);
  if (text.size() > max_bytes)
    return Status(Code::kInvalid, "it has more than " + std::to_string(max_bytes) + " bytes");
  return text;
}

}  // namespace farcall
