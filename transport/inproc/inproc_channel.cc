// SPDX-License-Identifier: Apache-2.0
#include "transport/inproc/inproc_channel.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "transport/poll.h"
#include "transport/sync.h"

namespace farcall {
namespace {

constexpr size_t kPipeBytes = 1u << 20;

// A descriptor that polls readable while Set: lets a waiter watch a pipe and a wake_fd at once.
class Flag {
 public:
  Flag() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Flag() { close(fd_); }
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;
  void Set(bool on) {
    if (on == on_) return;
    on_ = on;
    if (on) {
      eventfd_write(fd_, 1);
    } else {
      eventfd_t count;
      eventfd_read(fd_, &count);
    }
  }
  int fd() const { return fd_; }

 private:
  const int fd_;
  bool on_ = false;
};

// One direction.
class Pipe {
 public:
  Pipe() : ring_(kPipeBytes) { writable_.Set(true); }

  Result<size_t> Write(std::span<const std::span<const std::byte>> parts) {
    std::lock_guard lock(mutex_);
    if (closed_) return Status(Code::kDisconnected, "inproc: connection closed");
    size_t total = 0;
    for (std::span<const std::byte> part : parts) {
      while (!part.empty() && used_ < kPipeBytes) {
        size_t at = (start_ + used_) % kPipeBytes;
        size_t bytes = std::min({part.size(), kPipeBytes - used_, kPipeBytes - at});
        std::memcpy(ring_.data() + at, part.data(), bytes);
        part = part.subspan(bytes);
        used_ += bytes;
        total += bytes;
      }
    }
    UpdateFlags();
    return total;
  }

  Result<size_t> Read(std::span<std::byte> into) {
    std::lock_guard lock(mutex_);
    size_t total = 0;
    while (!into.empty() && used_ != 0) {
      size_t bytes = std::min({into.size(), used_, kPipeBytes - start_});
      std::memcpy(into.data(), ring_.data() + start_, bytes);
      into = into.subspan(bytes);
      start_ = (start_ + bytes) % kPipeBytes;
      used_ -= bytes;
      total += bytes;
    }
    UpdateFlags();
    if (total == 0 && closed_) return Status(Code::kDisconnected, "inproc: connection closed");
    return total;
  }

  void Close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    UpdateFlags();
  }
  int readable_fd() const { return readable_.fd(); }
  int writable_fd() const { return writable_.fd(); }

 private:
  void UpdateFlags() {
    readable_.Set(used_ != 0 || closed_);
    writable_.Set(used_ != kPipeBytes || closed_);
  }

  std::mutex mutex_;
  std::vector<std::byte> ring_;
  size_t start_ = 0;
  size_t used_ = 0;
  bool closed_ = false;
  Flag readable_;
  Flag writable_;
};

class InprocChannel final : public Channel {
 public:
  InprocChannel(std::shared_ptr<Pipe> in, std::shared_ptr<Pipe> out, std::string peer)
      : in_(std::move(in)), out_(std::move(out)), peer_(std::move(peer)) {}
  ~InprocChannel() override { Close(); }

  Result<size_t> TrySend(std::span<const std::span<const std::byte>> parts) override {
    return out_->Write(parts);
  }
  Result<size_t> TryReceive(std::span<std::byte> into) override { return in_->Read(into); }
  bool WaitReadable(Clock::time_point deadline, int wake_fd) override {
    std::array<pollfd, 2> fds = {{{in_->readable_fd(), POLLIN, 0}, {wake_fd, POLLIN, 0}}};
    PollUntil({fds.data(), wake_fd < 0 ? 1u : 2u}, deadline);
    return fds[0].revents != 0;
  }
  bool WaitWritable(Clock::time_point deadline) override {
    pollfd fd{out_->writable_fd(), POLLIN, 0};
    return PollUntil({&fd, 1}, deadline);
  }
  void Close() override {
    in_->Close();
    out_->Close();
  }
  void Abandon() override {}  // a forked child's copy reaches nobody
  int Descriptor() const override { return -1; }
  int PollDescriptor() const override { return in_->readable_fd(); }
  std::string PeerName() const override { return peer_; }

 private:
  const std::shared_ptr<Pipe> in_;
  const std::shared_ptr<Pipe> out_;
  const std::string peer_;
};

// Connections dialled and not yet accepted.
struct Backlog {
  std::mutex mutex;
  CondVar changed;
  std::deque<std::unique_ptr<Channel>> waiting;
  bool closed = false;
  Flag acceptable;

  void UpdateFlag() { acceptable.Set(closed || !waiting.empty()); }
};

struct Names {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Backlog>> listening;
};

Names& AllNames() {
  static Names* names = new Names;  // never destroyed: used by threads that outlive exit handlers
  return *names;
}

class InprocListener final : public Listener {
 public:
  InprocListener(std::string name, std::shared_ptr<Backlog> backlog)
      : name_(std::move(name)), backlog_(std::move(backlog)) {}
  ~InprocListener() override { Close(); }

  Result<std::unique_ptr<Channel>> Accept(Clock::time_point deadline) override {
    std::unique_lock lock(backlog_->mutex);
    while (backlog_->waiting.empty()) {
      if (backlog_->closed) return Status(Code::kDisconnected, Url() + ": no longer listening");
      if (Clock::now() >= deadline) return Status(Code::kTimeout, Url() + ": nobody connected");
      backlog_->changed.wait_until(lock, deadline);
    }
    std::unique_ptr<Channel> channel = std::move(backlog_->waiting.front());
    backlog_->waiting.pop_front();
    backlog_->UpdateFlag();
    return channel;
  }
  void Close() override {
    {
      std::lock_guard lock(AllNames().mutex);
      auto at = AllNames().listening.find(name_);
      if (at != AllNames().listening.end() && at->second == backlog_)
        AllNames().listening.erase(at);
    }
    std::lock_guard lock(backlog_->mutex);
    backlog_->closed = true;
    backlog_->waiting.clear();
    backlog_->UpdateFlag();
    backlog_->changed.notify_all();
  }
  int PollDescriptor() const override { return backlog_->acceptable.fd(); }
  std::string Url() const override { return "inproc://" + name_; }

 private:
  const std::string name_;
  const std::shared_ptr<Backlog> backlog_;
};

}  // namespace

Result<std::unique_ptr<Channel>> DialInproc(const Url& url, Clock::time_point) {
  std::shared_ptr<Backlog> backlog;
  {
    std::lock_guard lock(AllNames().mutex);
    auto at = AllNames().listening.find(url.rest);
    if (at != AllNames().listening.end()) backlog = at->second;
  }
  auto up = std::make_shared<Pipe>();
  auto down = std::make_shared<Pipe>();
  if (backlog != nullptr) {
    std::lock_guard lock(backlog->mutex);
    if (!backlog->closed) {
      backlog->waiting.push_back(std::make_unique<InprocChannel>(up, down, "inproc client"));
      backlog->UpdateFlag();
      backlog->changed.notify_all();
      return std::unique_ptr<Channel>(std::make_unique<InprocChannel>(down, up, url.text));
    }
  }
  return Status(Code::kUnavailable,
                "endpoint \"" + url.text + "\": nothing in this process listens there");
}

Result<std::unique_ptr<Listener>> ListenInproc(const Url& url) {
  std::lock_guard lock(AllNames().mutex);
  std::shared_ptr<Backlog>& slot = AllNames().listening[url.rest];
  if (slot != nullptr) {
    return Status(Code::kUnavailable,
                  "endpoint \"" + url.text + "\": already listening in this process");
  }
  slot = std::make_shared<Backlog>();
  return std::unique_ptr<Listener>(std::make_unique<InprocListener>(url.rest, slot));
}

}  // namespace farcall
