// SPDX-License-Identifier: Apache-2.0
// The same server in a child process over tcp: host memory that both sides have at one address
// (mapped, managed) needs two of them. Both are instrumented.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>

#include "tests/end_to_end/inproc/test_server.h"

namespace farcall::inproc_test {

class ApartServer final : public TestServer {
 public:
  //   Thread  the process's only one: it forks
  static Result<std::unique_ptr<ApartServer>> Start(const std::string& device_path);
  ~ApartServer() override;

  std::string url() const override { return url_; }
  void Cut() override;
  int resumes() override;
  Status Join() override;

 private:
  ApartServer() = default;
  int Ask(char command);

  std::string url_;
  pid_t child_ = -1;
  std::mutex mutex_;  // of the socket: one question at a time
  int socket_ = -1;
};

}  // namespace farcall::inproc_test
