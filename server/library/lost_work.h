// SPDX-License-Identifier: Apache-2.0
// Which of a library's codes say that what it was asked for was in order and was not computed.
#pragma once

#include <string_view>

#include "proto/library/library_call.h"

namespace farcall::server {

// False for mistakes of the caller's, and for lacks (memory, a combination that is not supported);
// and of what only sets a handle's options, where cuSOLVER calls a mistake an internal error.
constexpr bool IsLostWork(LibraryId library, std::string_view function, int status) {
  if (function.find("Set") != std::string_view::npos) return false;
  switch (library) {
    case LibraryId::kCublas:
    case LibraryId::kCublasLt:
      return status == 11 || status == 13 || status == 14;  // mapping, execution, internal
    case LibraryId::kCusolver:
    case LibraryId::kCusparse:
      return status >= 5 && status <= 7;  // mapping, execution, internal
    case LibraryId::kCufft:
      return status == 5 || status == 6;  // internal, execution
    case LibraryId::kCurand:
      return status == 201 || status == 999;  // launch, internal
    case LibraryId::kCudnn:
      return status / 1000 == 4 || status / 1000 == 5;  // internal, execution, each with its kinds
    default:
      return false;
  }
}

}  // namespace farcall::server
