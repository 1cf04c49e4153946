// SPDX-License-Identifier: Apache-2.0
// What the dynamic loader says of its searches under LD_DEBUG=libs,files: which file answered a
// name, and why.
#pragma once

#include <istream>
#include <string>
#include <vector>

namespace farcall::cli {

struct LibraryLookup {
  std::string name;       // as asked: a SONAME or a path
  std::string wanted_by;  // the object that needs it or called dlopen
  bool by_dlopen = false;
  std::string file;  // "" = not found
  // Where the search ended: LD_LIBRARY_PATH, "RPATH from file X", "RUNPATH from file X",
  // "ld.so.cache", "system search path", "its own path", "the auditor" (LD_AUDIT's answer).
  std::string reason;
};

// The log of one process. Lines it does not know are passed over. A library asked for again while
// it is loaded is not searched for, so it is not listed twice.
std::vector<LibraryLookup> ParseLoaderLog(std::istream& log);

}  // namespace farcall::cli
