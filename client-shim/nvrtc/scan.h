// SPDX-License-Identifier: Apache-2.0
// Where a source names files: `#include` and `__has_include` outside comments and strings. No
// preprocessor: both sides of an #if count, a name by macro is not seen.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace farcall::nvrtc_client {

struct NamedFile {
  size_t at;      // of the delimiter before the name
  size_t length;  // of the name
  bool quoted;
};

std::vector<NamedFile> ScanIncludes(std::string_view text);

}  // namespace farcall::nvrtc_client
