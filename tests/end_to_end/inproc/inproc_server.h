// SPDX-License-Identifier: Apache-2.0
// A real server of handshakes and a real session on the CPU device, in the test's own process over
// inproc channels, so that one sanitizer sees client and server together; or in a child of it
// (apart_server.h).
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "listener/handshake_server.h"
#include "server/device/device_library.h"
#include "server/memory/memory_broker.h"
#include "server/session/session_loop.h"
#include "tests/end_to_end/inproc/test_server.h"

namespace farcall::inproc_test {

// Charges without a quota: the device's own memory is the limit.
class OpenBroker final : public server::MemoryBroker {
 public:
  explicit OpenBroker(uint64_t total_bytes) : total_bytes_(total_bytes) {}
  Status Charge(int device, uint64_t bytes) override;
  void Refund(int device, uint64_t bytes) override;
  quota::Usage Query(int device) override;

 private:
  const uint64_t total_bytes_;
  std::atomic<uint64_t> charged_{0};
};

// Serves one session at `url()`; a second client is refused.
class InprocServer final : public TestServer {
 public:
  static constexpr const char* kInprocUrl = "inproc://end-to-end";
  // Loads the device library into this process and listens.
  static Result<std::unique_ptr<InprocServer>> Start(const std::string& device_path,
                                                     const std::string& url);

  std::string url() const override { return url_; }
  void Cut() override;
  int resumes() override;
  Status Join() override;

 private:
  InprocServer() = default;
  void Admit(std::unique_ptr<Channel> channel, const ReceivedHello& heard);
  void Open(std::unique_ptr<Channel> channel, const Hello& hello, const AnswerKey& answer);
  void Attach(std::unique_ptr<Channel> channel, const Hello& hello, const AnswerKey& answer);

  std::string url_;
  server::DriverApi api_;
  server::DeviceReport report_;
  std::unique_ptr<OpenBroker> broker_;

  std::mutex mutex_;
  Welcome welcome_;
  SessionKey key_;
  std::unique_ptr<server::SessionLoop> session_;
  std::vector<std::weak_ptr<Channel>> connections_;
  int resumes_ = 0;

  std::thread issue_;
  Status ended_;
  std::unique_ptr<HandshakeServer> handshakes_;  // last: its threads use all of the above
};

}  // namespace farcall::inproc_test
