// SPDX-License-Identifier: Apache-2.0
// farcall-control's side of the supervisor's control socket: one question at a time.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "generated/proto/control.pb.h"
#include "proto/status.h"
#include "server/control/control_plane.h"

namespace farcall::control_plane {

namespace pb = farcall::control::v1;

//   Thread  any
class SupervisorClient {
 public:
  explicit SupervisorClient(int control) : control_(control) {}

  //   Errors  kTimeout, kDisconnected (the server is ending), kInternal
  Result<pb::ServerStatus> Status();
  //   Errors  as Status, and kInvalid, kRefused, kUnavailable (no such vGPU)
  farcall::Status SetQuota(const std::string& vgpu, const server::QuotaChange& change);
  // Returns once its memory has left.   Errors  as SetQuota
  farcall::Status Park(const std::string& vgpu);

 private:
  static constexpr int kPatienceMs = 5000;
  // `bytes`: of the memory file that came with the answer.
  template <typename Question>
  Result<typename Question::Reply> Ask(Question question, std::vector<std::byte>* bytes,
                                       int patience_ms = kPatienceMs);

  const int control_;
  std::mutex mutex_;
  uint64_t asked_ = 0;
};

}  // namespace farcall::control_plane
