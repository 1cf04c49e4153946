// SPDX-License-Identifier: Apache-2.0
// A worker's side of its vGPU's network budget: what may cross its connections now. The bytes are
// the supervisor's to lend (net_scheduler.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "quota/compute_quota.h"
#include "server/control/net.h"
#include "transport/channel.h"

namespace farcall::server {

//   Thread  any
class NetPacer {
 public:
  // `ask`: the supervisor for bytes.
  NetPacer(std::function<void(const control::WantNetBytes&)> ask, std::function<quota::Ns()> now);
  ~NetPacer();
  NetPacer(const NetPacer&) = delete;
  NetPacer& operator=(const NetPacer&) = delete;

  // The supervisor's messages.
  void OnMessage(const control::NetLimit& message);
  void OnMessage(const control::NetBytes& message);
  // How many bytes may pass now; 0: wait for descriptor(). The log may be a little in debt, so that
  // answers and heartbeats do not stand behind bulk bytes.
  size_t MayPass(bool is_log);
  void Passed(size_t bytes, bool is_in);
  // Readable while bytes may pass.
  int descriptor() const { return ready_; }

  // As it is now; nothing: no byte has passed since the last time.
  //   Thread  one, with AwaitNews
  std::optional<control::NetUse> Use();
  // True: no byte has passed since Use(), and news_descriptor() is readable once one does.
  bool AwaitNews();
  int news_descriptor() const { return news_; }

  // A connection whose bytes are counted and paced; `pacer` outlives it.
  static std::unique_ptr<Channel> Pace(std::unique_ptr<Channel> channel, NetPacer& pacer,
                                       bool is_log);

 private:
  void Ask();
  void UpdateReady();
  void SetReady(bool ready);

  const std::function<void(const control::WantNetBytes&)> ask_;
  const std::function<quota::Ns()> now_;
  const int ready_, news_;
  std::atomic<bool> limited_{false};
  std::atomic<uint64_t> bytes_in_{0}, bytes_out_{0};
  std::atomic<bool> news_wanted_{false};
  std::mutex mutex_;  // all below
  int64_t left_bytes_ = 0;
  bool asked_ = false;
  bool is_ready_ = true;
  quota::Ns blocked_since_ = 0;  // 0: nothing waits
  quota::Ns waited_ns_ = 0;
  uint64_t reported_bytes_ = 0;
};

}  // namespace farcall::server
