// SPDX-License-Identifier: Apache-2.0
// Dialling and the client's side of the handshake.
#pragma once

#include <memory>
#include <string>

#include "client-shim/core/session/config.h"
#include "proto/handshake/handshake.h"
#include "transport/channel.h"
#include "transport/link.h"

namespace farcall::client {

struct Connected {
  std::unique_ptr<Channel> channel;
  Welcome welcome;
  SessionKey key;        // for lanes and to resume
  std::string endpoint;  // the server's own: of pool://, the host that was given
  std::string path;      // where lanes and resumed logs go: `endpoint`, or its shared memory
  TransportKind kind = TransportKind::kTcp;  // what they become once they are welcomed
};

// A new session. Behind pool:// the pool is asked first, and waits until it has a device to give.
//   Errors  kUnavailable / kTimeout (nothing there), kRefused (the server's words), kUnsupported
//   (other wire major, no UCX or RDMA), kMalformed
//   `target`  of config.targets
Result<Connected> OpenSession(const Config& config, const Target& target, Hello hello);
// Resumes or joins a session with its key.
Result<Link::Reconnected> Rejoin(const std::string& endpoint, TransportKind kind,
                                 const SessionId& session, const SessionKey& key, LinkRole role,
                                 uint32_t lane, uint64_t received_seq, uint64_t received_chunks);
// What this process says about itself: program, user, whitelisted environment.
void DescribeProcess(Hello* hello);

// The newest CUDA version this shim's entries know.
inline constexpr uint32_t kShimDriverVersion = 13000;

}  // namespace farcall::client
