// SPDX-License-Identifier: Apache-2.0
// Connections come and go here. There is one way to recover: whichever connection of a link breaks,
// all of them are closed, the log is resumed first and the lanes follow.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "transport/link/link_core.h"

namespace farcall {
namespace {

constexpr auto kOpenLanesLimit = std::chrono::seconds(10);

}  // namespace

void LinkCore::AttachLog(std::unique_ptr<Channel> channel, uint64_t peer_received_seq,
                         uint64_t peer_received_chunks) {
  {
    std::lock_guard lock(mutex_);
    // Two redials may overtake each other on the way here: the older one is of no use, and no
    // reason to end the session.
    if (peer_received_seq < acked_seq_ || peer_received_chunks < chunk_acked_)
      return channel->Close();
  }
  Break(generation_, {Code::kDisconnected, "link: replaced by a new connection"});
  // Nobody writes to the old connections any more once all writers' turns are ours.
  std::unique_lock log_turn(log_writer_);
  std::vector<Lock> lane_turns;
  for (const auto& lane : lanes_) lane_turns.emplace_back(lane->writer);
  {
    std::lock_guard lock(mutex_);
    if (phase_ >= Phase::kClosing) return channel->Close();
    if (peer_received_seq > offered_seq_ || peer_received_chunks > chunk_offered_) {
      channel->Close();
      return RequestCloseLocked(
          {Code::kMalformed, "link: resume at frame " + std::to_string(peer_received_seq) +
                                 ", chunk " + std::to_string(peer_received_chunks) + "; only " +
                                 std::to_string(offered_seq_) + " frames and " +
                                 std::to_string(chunk_offered_) + " chunks were sent"},
          /*tell_peer=*/false);
    }
    acks_seen_ = acked_seq_ = std::max(acked_seq_, peer_received_seq);
    chunk_acks_seen_ = chunk_acked_ = std::max(chunk_acked_, peer_received_chunks);
    cursor_seq_ = acked_seq_ + 1;
    cursor_bytes_ = 0;
    chunk_cursor_ = chunk_acked_ + 1;
    for (const auto& lane : lanes_) lane->writing_seq = 0;
    control_sent_bytes_ = sizeof(control_);
    control_wanted_ = true;  // tells the peer that this side has taken the connection
    ReleaseTail();
    ReleaseChunks();
    log_ = std::move(channel);
    log_->ReadAhead();
    log_is_holding_ = false;
    sums_frames_ = options_.checksum && !log_->ChecksBytes();
    carries_descriptors_ = log_->CarriesDescriptors();
    log_fd_ = log_->Descriptor();
    ++generation_;
    last_heard_ = attached_since_ = Clock::now();
    last_sent_ = Clock::now();
    stirred_ = true;
    is_idle_ = false;
    attached_progress_ = Progress();
    if (phase_ == Phase::kDetached) ++reconnects_;
    phase_ = Phase::kAttached;
    lane_cv_.notify_all();
    PokeService();
    WakePump();
  }
  lane_turns.clear();
  log_turn.unlock();
  RunDone();
  if (DrainLog() == Drained::kBlocked) RequestBacklog();
}

void LinkCore::AttachLane(uint32_t index, std::unique_ptr<Channel> channel, uint64_t generation) {
  if (index >= lanes_.size()) return channel->Close();
  Lane& lane = *lanes_[index];
  std::lock_guard turn(lane.writer);
  std::lock_guard lock(mutex_);
  // A lane belongs to the log's connection that it was dialled for. One that comes after a break
  // would outlive it: the next log starts all chunks again, in the middle of what this lane
  // carries.
  bool late = phase_ == Phase::kDetached || (generation != 0 && generation != generation_);
  if (phase_ >= Phase::kClosing || late) return channel->Close();
  if (lane.channel != nullptr) lane.channel->Close();
  lane.channel = std::move(channel);
  lane.channel->ReadAhead();
  lane.is_holding = false;
  lane.fd = lane.channel->Descriptor();
  lane.generation = ++lane_generation_;
  lane.epoch = epoch_;
  lane.sent_bytes = 0;  // a chunk half written to a replaced connection starts again
  bool running = lane.reader_thread.started() ||
                 lane.reader_thread.Start("farcall-lane-r", &LinkCore::ReadLane, this, index);
  running =
      running && (lane.writer_thread.started() ||
                  lane.writer_thread.Start("farcall-lane-w", &LinkCore::WriteLane, this, index));
  if (!running) {
    return RequestCloseLocked(
        {Code::kUnavailable, "link: no thread can be started for a bulk lane"}, true);
  }
  lane_cv_.notify_all();
  PokeService();
}

Status LinkCore::OpenLanes() {
  Lock lock(mutex_);
  // Once they have been open, chunks wait in the tail while the lanes are away, like frames.
  if (!options_.is_client || reconnect_ == nullptr || lanes_were_open_)
    return phase_ < Phase::kClosing ? Status() : why_;
  if (lanes_.empty()) return {Code::kUnsupported, "link: this session has no bulk lanes"};
  lanes_wanted_ = true;
  PokeService();
  Clock::time_point deadline =
      Clock::now() + std::chrono::milliseconds(options_.grace_ms) + kOpenLanesLimit;
  while (!lanes_were_open_ && phase_ < Phase::kClosing) {
    if (Clock::now() >= deadline) return {Code::kTimeout, "link: the bulk lanes do not open"};
    received_cv_.wait_until(lock, deadline);
  }
  return phase_ < Phase::kClosing ? Status() : why_;
}

// A lane on its way, on a thread of its own where one can be had.
struct LinkCore::LaneDial {
  LaneDial(LinkCore* by, uint32_t lane_index) : link(by), index(lane_index) {}
  void Run() { lane = link->reconnect_(LinkRole::kLane, index, 0, 0); }

  LinkCore* link;
  uint32_t index;
  Result<Link::Reconnected> lane = Status(Code::kInternal, "link: this lane was not dialled");
  WorkerThread thread;
};

// On the service thread. All at once: the lanes of a distant server then cost no more round trips
// than one. False if one could not be opened; the link then breaks or closes.
bool LinkCore::DialLanes(Lock& lock) {
  uint64_t generation = generation_;
  std::vector<std::unique_ptr<LaneDial>> dials;
  lock.unlock();
  for (uint32_t i = 0; i < lanes_.size(); ++i) {
    dials.push_back(std::make_unique<LaneDial>(this, i));
    LaneDial& dial = *dials.back();
    if (i + 1 == lanes_.size() || !dial.thread.Start("farcall-dial", &LaneDial::Run, &dial))
      dial.Run();
  }
  for (const auto& dial : dials) {
    dial->thread.Join();
    if (dial->lane.ok()) AttachLane(dial->index, std::move(dial->lane->channel), generation);
  }
  lock.lock();
  if (generation != generation_ || phase_ != Phase::kAttached) return false;
  for (const auto& dial : dials) {
    const Result<Link::Reconnected>& lane = dial->lane;
    if (lane.ok()) continue;
    Code code = lane.status().code();
    if (code == Code::kDisconnected || code == Code::kTimeout || code == Code::kUnavailable)
      BreakLocked(lane.status());
    else
      RequestCloseLocked(lane.status(), /*tell_peer=*/true);
    return false;
  }
  lanes_open_ = lanes_were_open_ = true;
  received_cv_.notify_all();
  return true;
}

// A connection that a peer has broken on purpose is not waited for.
void LinkCore::Lose(uint64_t generation, const Status& why) {
  if (why.code() == Code::kMalformed) return RequestClose(why, /*tell_peer=*/true);
  Break(generation, why);
}

void LinkCore::Break(uint64_t generation, const Status& why) {
  std::lock_guard lock(mutex_);
  if (generation == generation_ && log_ != nullptr) BreakLocked(why);
}

void LinkCore::BreakLane(Lane& lane, uint64_t generation, const Status& why) {
  std::lock_guard lock(mutex_);
  if (lane.channel == nullptr || lane.generation != generation) return;
  if (why.code() == Code::kMalformed) return RequestCloseLocked(why, /*tell_peer=*/true);
  if (log_ != nullptr) {
    return BreakLocked(
        {why.code(), "bulk lane " + std::to_string(lane.index) + ": " + why.message()});
  }
  lane.fd = -1;
  lane.channel->Close();
  lane.channel = nullptr;
}

void LinkCore::BreakLocked(const Status& why) {
  log_fd_ = -1;
  if (log_ != nullptr) log_->Close();
  log_ = nullptr;
  ++generation_;
  for (const auto& lane : lanes_) {
    lane->fd = -1;
    if (lane->channel != nullptr) lane->channel->Close();
    lane->channel = nullptr;
  }
  lanes_open_ = false;
  backlog_ = false;
  ++epoch_;
  if (phase_ == Phase::kAttached) {
    phase_ = Phase::kDetached;
    break_why_ = why;
    detached_since_ = Clock::now();
    // A connection that moved the session on is replaced at once; one that did not makes the next
    // wait longer.
    if (Progress() != attached_progress_ ||
        detached_since_ - attached_since_ > std::chrono::seconds(1))
      backoff_ms_ = 0;
    next_dial_ = detached_since_ + std::chrono::milliseconds(backoff_ms_);
    backoff_ms_ = std::clamp<uint32_t>(backoff_ms_ * 2, 10, 1000);
  }
  PokeService();
}

// Changes with whatever has safely crossed in either direction.
uint64_t LinkCore::Progress() const {
  return received_seq_ + chunk_prefix_ + acked_seq_ + chunk_acked_;
}

Status LinkCore::SendDescriptor(int descriptor) {
  std::shared_ptr<Channel> log;
  {
    std::lock_guard lock(mutex_);
    log = log_;
  }
  return log == nullptr ? Status(Code::kDisconnected, "link: not connected")
                        : log->SendDescriptor(descriptor);
}

void LinkCore::WakePump() {
  eventfd_write(pump_wake_fd_, 1);
}

// In a forked child: no lock may be taken, and only the descriptors are ours to let go.
void LinkCore::Abandon() {
  if (log_fd_ >= 0) close(log_fd_);
  for (const auto& lane : lanes_)
    if (lane->fd >= 0) close(lane->fd);
  close(pump_wake_fd_);
}

}  // namespace farcall
