// SPDX-License-Identifier: Apache-2.0
// Two links over any transport, with a supervisor between them that shakes hands and attaches, and
// connections that can be cut after a number of bytes or swallow everything.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "transport/channel.h"
#include "transport/link.h"

namespace farcall::test {

inline Clock::time_point In(int ms) {
  return Clock::now() + std::chrono::milliseconds(ms);
}
inline constexpr int kLong = 20000;  // ms; reached only by a failing test

// What happens to the connections of one dialler.
struct Faults {
  std::atomic<int64_t> cut_after_bytes =
      -1;  // of all connections together, then once closes the one in use; -1 never
  std::atomic<bool> black_hole =
      false;  // connections take and give nothing, for good, without an error
  std::atomic<bool> refuse_dial = false;
  std::atomic<uint32_t> lanes_meet = 0;  // no lane is dialled before so many are about to be
  std::atomic<uint32_t> lanes_about = 0;
  std::atomic<int> cuts = 0;
};

std::unique_ptr<Channel> WithFaults(std::unique_ptr<Channel> inner, std::shared_ptr<Faults> faults);

// Checks that frames arrive once and in order (each holds its number), and lands transfers.
class Recorder final : public LinkObserver {
 public:
  Status OnFrame(const FrameView& frame) override;
  std::span<std::byte> ChunkDestination(const ChunkHeader& header) override;
  void OnChunk(const ChunkHeader& header) override;
  void OnDetached(const Status& why) override;
  void OnReattached() override;
  void OnClosed(const Status& why) override;

  void Expect(uint64_t transfer, size_t bytes);
  std::vector<std::byte>& Landed(uint64_t transfer);
  // What each frame is given to after the check, also while it pumps.
  void OnEachFrame(std::function<Status(const FrameView&)> then);
  // Waits for the condition to hold of this recorder; false after kLong.
  bool Until(const std::function<bool()>& condition);

  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<uint64_t> frames = 0, wrong_frames = 0, chunks = 0, chunk_bytes = 0;
  std::atomic<int> detached = 0, reattached = 0, closed = 0;
  Status detach_reason, close_reason;

 private:
  std::map<uint64_t, std::vector<std::byte>> transfers_;
  std::function<Status(const FrameView&)> on_frame_;
};

// One end: a link, its recorder and a thread that pumps it until it closes.
class End {
 public:
  End(const LinkOptions& options, Link::Reconnect reconnect);
  ~End();
  // By a thread that takes what comes; AwaitAnswer makes it one that waits for an answer.
  void StartPump();
  void AwaitAnswer();
  // Sends one frame with one record that holds the next number and `extra_bytes` more.
  Status Send(size_t extra_bytes = 0);

  Recorder recorder;
  std::unique_ptr<Link> link;
  uint64_t sent = 0;

 private:
  const int wake_;  // -1: always awaits an answer
  std::atomic<bool> awaits_answer_ = false;
  std::thread pump_;
};

// A client and a server end, connected through `url` by real handshakes.
class Pair {
 public:
  explicit Pair(const std::string& url, LinkOptions client = {}, LinkOptions server = {});
  ~Pair();
  bool ok() const { return ok_; }

  std::shared_ptr<Faults> faults = std::make_shared<Faults>();
  std::unique_ptr<End> client, server;

 private:
  Result<Link::Reconnected> Connect(LinkRole role, uint32_t lane, uint64_t seq, uint64_t chunks);
  void Supervise();

  std::unique_ptr<Listener> listener_;
  std::thread supervisor_;
  bool ok_ = false;
};

std::vector<std::byte> Pattern(size_t bytes, uint32_t seed);

// The URLs to run a suite over; ::1 only where the machine has it.
std::vector<std::string> TransportUrls();
std::string UrlTestName(const std::string& url);
// `url`, with a name of its own if it is inproc.
std::string FreshUrl(const std::string& url);

}  // namespace farcall::test
