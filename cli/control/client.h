// SPDX-License-Identifier: Apache-2.0
// Finds a server's control socket and opens a channel to it.
#pragma once

#include <memory>
#include <string>

#include "generated/proto/control.grpc.pb.h"
#include "proto/status.h"

namespace farcall::cli {

namespace pb = farcall::control::v1;

// Where the user said the server is. Both empty: the only one that runs here.
struct ControlTarget {
  std::string path;      // --control
  std::string endpoint;  // --endpoint
};

// Writes the endpoint out, and takes the one of the settings if neither is given: the rule of
// cli/find_server.h.
//   Errors  kInvalid
Status Resolve(ControlTarget* target);

// The socket's path.
//   Errors  kUnavailable (no server here), kInvalid (several: which one?)
Result<std::string> FindControl(const ControlTarget& target);

std::unique_ptr<pb::Control::Stub> Dial(const std::string& path);

// One line for people.
std::string Explain(const grpc::Status& status, const std::string& path);

}  // namespace farcall::cli
