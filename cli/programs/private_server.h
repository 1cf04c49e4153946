// SPDX-License-Identifier: Apache-2.0
// A server of one `farcall run`: loopback, its own port, gone with the process that started it.
#pragma once

#include <sys/types.h>

#include <string>

#include "proto/status.h"

namespace farcall::cli {

// 128 random bits, as text.
std::string FreshToken();

class PrivateServer {
 public:
  PrivateServer() = default;
  PrivateServer(const PrivateServer&) = delete;
  PrivateServer& operator=(const PrivateServer&) = delete;
  ~PrivateServer() { Stop(); }

  // Waits for its ready line.   Errors  kUnavailable (it did not start; its own words are on
  // stderr)
  //   report  where it writes at its end what it has served; empty: nowhere
  Status Start(const std::string& device, const std::string& mem, const std::string& report = "");
  void Stop();
  const std::string& url() const { return url_; }
  const std::string& token() const { return token_; }
  // Of its device: "cuda", "cpu", "cpu-skip" or "dry"; "" before Start.
  const std::string& kind() const { return kind_; }
  // The name of its first device.
  const std::string& device() const { return device_; }

 private:
  pid_t pid_ = -1;
  std::string url_, token_, kind_, device_;
};

}  // namespace farcall::cli
