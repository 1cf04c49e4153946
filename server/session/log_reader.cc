// SPDX-License-Identifier: Apache-2.0
#include "server/session/log_reader.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>

namespace farcall::server {

LogReader::LogReader(Link& link, std::function<void()> wake,
                     std::function<Early(const RecordView&)> serve_early)
    : link_(link),
      wake_(std::move(wake)),
      serve_early_(std::move(serve_early)),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

LogReader::~LogReader() {
  Stop();
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  if (wake_fd_ >= 0) close(wake_fd_);
}

void LogReader::Start() {
  if (std::exchange(active_, true)) return;
  std::lock_guard lock(mutex_);
  wanted_ = true;
  in_order_ = false;
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  changed_.notify_all();
}

void LogReader::Stop() {
  if (!std::exchange(active_, false)) return;
  std::unique_lock lock(mutex_);
  wanted_ = false;
  changed_.notify_all();
  eventfd_write(wake_fd_, 1);
  changed_.wait(lock, [this] { return !reading_; });
  eventfd_t drained = 0;
  eventfd_read(wake_fd_, &drained);
}

Status LogReader::Take(bool all_served, std::vector<ReadRecords>* records) {
  std::lock_guard lock(mutex_);
  records->clear();
  records->swap(records_);
  bytes_ = 0;
  in_order_ &= !all_served || !records->empty();
  changed_.notify_all();
  return status_;
}

void LogReader::Run() {
  thread_id_ = std::this_thread::get_id();
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!wanted_ || bytes_ > kMaxBytes || !status_.ok()) {
      changed_.wait(lock);
      continue;
    }
    reading_ = true;
    lock.unlock();
    Status read = link_.Pump(Clock::now() + std::chrono::seconds(1), wake_fd_);
    lock.lock();
    reading_ = false;
    if (!read.ok() && read.code() != Code::kTimeout) {
      status_ = std::move(read);
      wake_();
    }
    changed_.notify_all();
  }
}

// What may pass the others does; the rest keeps its order.
void LogReader::OnFrame(const FrameView& frame) {
  ReadRecords rest;
  rest.chunks_sent = frame.header.chunks_sent;
  RecordCursor cursor(frame.records);
  size_t seen = 0;
  std::lock_guard lock(mutex_);
  for (RecordView record; cursor.Next(record);) {
    const auto whole = frame.records.subspan(seen, record.header.bytes);
    seen += record.header.bytes;
    const Early early = in_order_ ? Early::kKept : serve_early_(record);
    if (early != Early::kServed) rest.bytes.insert(rest.bytes.end(), whole.begin(), whole.end());
    in_order_ |= early == Early::kKeptFirst;
  }
  // A tail that is no record is for who serves the rest to refuse.
  const auto tail = frame.records.subspan(seen);
  rest.bytes.insert(rest.bytes.end(), tail.begin(), tail.end());
  if (!rest.bytes.empty()) {
    bytes_ += rest.bytes.size();
    records_.push_back(std::move(rest));
    wake_();
  }
}

}  // namespace farcall::server
