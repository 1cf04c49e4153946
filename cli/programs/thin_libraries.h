// SPDX-License-Identifier: Apache-2.0
// Thin mode's libraries: those that lie in lib/farcall/thin and those that stay the program's own.
#pragma once

#include <string>
#include <vector>

namespace farcall::cli {

struct ThinLibraries {
  std::vector<std::string> ours;   // SONAMEs that a program gets from us
  std::vector<std::string> alone;  // here, but part of a group that is not whole
  std::vector<std::string> absent;
};

// lib/farcall/thin; "" if it is not there.
std::string ThinLibraryFolder();
ThinLibraries FindThinLibraries(const std::string& folder);
// The library of ours that `name` is a part of (libcudnn_ops.so.9 of libcudnn.so.9), else `name`.
std::string WholeOf(const std::string& name);
// "libcublas.so.13 libcublasLt.so.13", for a line of text.
std::string Joined(const std::vector<std::string>& names);

}  // namespace farcall::cli
