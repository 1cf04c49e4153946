// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/processes/worker_output.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "proto/printable.h"

namespace farcall::server {

namespace {

constexpr size_t kReadBytes = 64 << 10;  // of one pipe, before the others' turn
constexpr size_t kLastReads = 32;        // of a pipe that somebody may go on filling
constexpr int kLeftOutPauseMs = 100;     // until lines that were left out are told of
constexpr uint64_t kWakeId = 0;
constexpr int kNiceness = 10;  // workers that write all the time take no time from sessions

void Watch(int epoll, int fd, uint64_t id) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

}  // namespace

WorkerOutput::WorkerOutput(Write write)
    : write_(std::move(write)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      all_(kAllPerSecond, kAllAtOnce, std::chrono::steady_clock::now()) {
  Watch(epoll_, wake_, kWakeId);
  thread_ = std::thread([this] { Run(); });
}

WorkerOutput::~WorkerOutput() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  Wake();
  thread_.join();
  close(wake_);
  close(epoll_);
}

Result<WorkerOutput::Pipe> WorkerOutput::Open(std::string who) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Status(Code::kUnavailable,
                  std::string("a pipe for a worker's standard error: ") + strerror(errno));
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  Source source;
  source.pipe = ends[0];
  source.who = std::move(who);
  Pipe pipe{0, ends[1]};
  {
    std::lock_guard lock(mutex_);
    pipe.id = ++made_;
    new_.emplace_back(pipe.id, std::move(source));
  }
  Wake();
  return pipe;
}

void WorkerOutput::Rename(uint64_t id, std::string who) {
  {
    std::lock_guard lock(mutex_);
    renamed_.emplace_back(id, std::move(who));
  }
  Wake();
}

void WorkerOutput::End(uint64_t id) {
  if (id == 0) return;
  {
    std::lock_guard lock(mutex_);
    ended_.push_back(id);
  }
  Wake();
}

void WorkerOutput::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_, &one, sizeof(one));
}

void WorkerOutput::Run() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNiceness);
  std::array<epoll_event, 64> events;
  for (bool stopping = false; !stopping;) {
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                                 HasLeftOut() ? kLeftOutPauseMs : -1);
    now_ = std::chrono::steady_clock::now();
    uint64_t woken = 0;
    (void)!read(wake_, &woken, sizeof(woken));
    std::vector<uint64_t> ended;
    std::vector<std::pair<uint64_t, std::string>> renamed;
    {
      std::lock_guard lock(mutex_);
      for (auto& [id, source] : std::exchange(new_, {})) {
        Watch(epoll_, source.pipe, id);
        sources_.emplace(id, std::move(source));
      }
      renamed = std::exchange(renamed_, {});
      ended = std::exchange(ended_, {});
      stopping = stopping_;
    }
    for (auto& [id, who] : renamed) {
      if (auto source = sources_.find(id); source != sources_.end()) {
        (void)Read(source->second);  // what was written before
        source->second.who = std::move(who);
      }
    }
    for (int i = 0; i < count; ++i) {
      const uint64_t id = events[static_cast<size_t>(i)].data.u64;
      auto source = sources_.find(id);
      if (source != sources_.end() && !Read(source->second)) Finish(id);
    }
    for (uint64_t id : ended) Finish(id);
    // Of a flood that has ended nothing more may come.
    for (auto& [id, source] : sources_)
      if (source.left_out != 0 && source.rate.Take(now_) && all_.Take(now_)) WriteLeftOut(source);
  }
  while (!sources_.empty()) Finish(sources_.begin()->first);
}

bool WorkerOutput::HasLeftOut() const {
  return std::any_of(sources_.begin(), sources_.end(),
                     [](const auto& source) { return source.second.left_out != 0; });
}

bool WorkerOutput::Read(Source& source) {
  std::array<char, kReadBytes> bytes;
  const ssize_t got = read(source.pipe, bytes.data(), bytes.size());
  if (got > 0) Take(source, {bytes.data(), static_cast<size_t>(got)});
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

void WorkerOutput::Take(Source& source, std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    const size_t room = kMaxLineBytes - source.line.size();
    source.line += part.substr(0, room);
    source.is_cut = source.is_cut || part.size() > room;
    if (end == bytes.npos) return;
    EndLine(source);
    bytes.remove_prefix(end + 1);
  }
}

void WorkerOutput::EndLine(Source& source) {
  std::string line = std::exchange(source.line, {});
  const bool is_cut = std::exchange(source.is_cut, false);
  // Its own rate first: what that refuses takes nothing of the others'.
  if (!source.rate.Take(now_) || !all_.Take(now_)) {
    ++source.left_out;
    return;
  }
  WriteLeftOut(source);
  write_(source.who, Printable(line, kMaxLineBytes) + (is_cut ? "..." : ""));
}

void WorkerOutput::WriteLeftOut(Source& source) {
  if (const uint64_t lines = std::exchange(source.left_out, 0); lines != 0) {
    std::string text = "(";
    text.append(std::to_string(lines)).append(" lines of its standard error are left out)");
    write_(source.who, text);
  }
}

void WorkerOutput::Finish(uint64_t id) {
  auto found = sources_.find(id);
  if (found == sources_.end()) return;
  Source& source = found->second;
  for (size_t i = 0; i < kLastReads; ++i) {
    std::array<char, kReadBytes> bytes;
    const ssize_t got = read(source.pipe, bytes.data(), bytes.size());
    if (got <= 0) break;
    Take(source, {bytes.data(), static_cast<size_t>(got)});
  }
  if (!source.line.empty()) EndLine(source);
  WriteLeftOut(source);
  close(source.pipe);  // a pipe's end: this does not wait
  sources_.erase(found);
}

}  // namespace farcall::server
