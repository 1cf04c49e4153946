// SPDX-License-Identifier: Apache-2.0
#include "proto/status.h"

namespace farcall {

std::unique_ptr<Status::Said> Status::MakeSaid(Code code, std::string message) {
  return std::make_unique<Said>(Said{code, std::move(message)});
}

const std::string& Status::NoMessage() {
  static const auto* const none = new std::string;
  return *none;
}

}  // namespace farcall
