// SPDX-License-Identifier: Apache-2.0
// The polling of parked work.
#include "server/device/completion.h"

#include <algorithm>
#include <chrono>

#include "server/device/current_context.h"

namespace farcall::server {

using std::chrono::microseconds;

Completion::Completion(const DriverApi& api, std::function<void()> after_actions)
    : api_(api), after_actions_(std::move(after_actions)) {}

Completion::~Completion() {
  Stop();
}

CUresult Completion::TakeEvent(CUcontext context, CUevent* event) {
  {
    std::lock_guard lock(mutex_);
    std::vector<CUevent>& pool = pool_[context];
    if (!pool.empty()) {
      *event = pool.back();
      pool.pop_back();
      return CUDA_SUCCESS;
    }
  }
  return api_.cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
}

void Completion::Drain(CUcontext context) {
  std::unique_lock lock(mutex_);
  auto any_left = [&] {
    for (const auto& [key, queue] : queues_) {
      for (const std::shared_ptr<Watch>& watch : queue)
        if (watch->context == context) return true;
    }
    return false;
  };
  while (!stopping_ && any_left()) {
    wake_.notify_one();
    lock.unlock();
    std::this_thread::sleep_for(microseconds(100));
    lock.lock();
  }
}

void Completion::ForgetContext(CUcontext context) {
  std::lock_guard lock(mutex_);
  pool_.erase(context);
}

CUresult Completion::Add(uint64_t stream_key, CUcontext context, CUstream stream, bool bulk,
                         Watch::Action action) {
  auto watch = std::make_shared<Watch>();
  watch->bulk = bulk;
  return Record(stream_key, context, stream, watch, std::move(action));
}

std::shared_ptr<Watch> Completion::Add(uint64_t stream_key, CUcontext context, CUstream stream,
                                       Watch::Action action, CUresult* result) {
  auto watch = std::make_shared<Watch>();
  *result = Record(stream_key, context, stream, watch, std::move(action));
  return *result == CUDA_SUCCESS ? watch : nullptr;
}

CUresult Completion::Record(uint64_t stream_key, CUcontext context, CUstream stream,
                            const std::shared_ptr<Watch>& watch, Watch::Action action) {
  CUresult result = TakeEvent(context, &watch->event);
  if (result != CUDA_SUCCESS) return result;
  result = api_.cuEventRecord(watch->event, stream);
  if (result != CUDA_SUCCESS) {
    api_.cuEventDestroy_v2(watch->event);
    return result;
  }
  watch->context = context;
  watch->actions.push_back(std::move(action));
  Append(stream_key, watch);
  return CUDA_SUCCESS;
}

std::shared_ptr<Watch> Completion::AddManual(uint64_t stream_key, CUcontext context,
                                             Watch::Action action) {
  auto watch = std::make_shared<Watch>();
  watch->context = context;
  watch->actions.push_back(std::move(action));
  Append(stream_key, watch);
  return watch;
}

void Completion::Signal(const std::shared_ptr<Watch>& watch) {
  watch->ready.store(true);
  Kick();
}

bool Completion::Attach(const std::shared_ptr<Watch>& watch, Watch::Action action) {
  std::lock_guard lock(mutex_);
  if (watch->done) return false;
  watch->actions.push_back(std::move(action));
  return true;
}

CUresult Completion::StatusOf(const std::shared_ptr<Watch>& watch) {
  std::lock_guard lock(mutex_);
  return watch->done ? watch->status : CUDA_ERROR_NOT_READY;
}

void Completion::Append(uint64_t stream_key, std::shared_ptr<Watch> watch) {
  std::lock_guard lock(mutex_);
  watch->order = ++next_order_;
  waiting_.fetch_add(1);
  if (watch->bulk) bulk_waiting_.fetch_add(1);
  queues_[stream_key].push_back(std::move(watch));
  if (!thread_.joinable() && !stopping_) thread_ = std::thread([this] { Run(); });
}

void Completion::Kick() {
  std::lock_guard lock(mutex_);
  wake_.notify_one();
}

bool Completion::Reached(Watch& watch) {
  if (watch.event == nullptr) return watch.ready.load();
  CurrentContext::Set(api_, watch.context);
  CUresult result = api_.cuEventQuery(watch.event);
  if (result == CUDA_ERROR_NOT_READY) return false;
  watch.status = result;
  return true;
}

std::vector<std::pair<uint64_t, std::shared_ptr<Watch>>> Completion::Heads() {
  std::lock_guard lock(mutex_);
  std::vector<std::pair<uint64_t, std::shared_ptr<Watch>>> heads;
  heads.reserve(queues_.size());
  for (const auto& [key, queue] : queues_) heads.emplace_back(key, queue.front());
  std::sort(heads.begin(), heads.end(),
            [](const auto& a, const auto& b) { return a.second->order < b.second->order; });
  return heads;
}

std::shared_ptr<Watch> Completion::HeadOf(uint64_t stream_key) {
  std::lock_guard lock(mutex_);
  auto queue = queues_.find(stream_key);
  return queue == queues_.end() ? nullptr : queue->second.front();
}

// The watch leaves its queue once its actions have run: who drains a context waits for them, too.
void Completion::Finish(uint64_t stream_key, const std::shared_ptr<Watch>& watch) {
  std::vector<Watch::Action> actions;
  {
    std::lock_guard lock(mutex_);
    watch->done = true;
    actions.swap(watch->actions);
    if (watch->event != nullptr && watch->status == CUDA_SUCCESS)
      pool_[watch->context].push_back(watch->event);
  }
  if (on_reached_) on_reached_(stream_key, watch->order);
  for (Watch::Action& action : actions) action(watch->status);
  if (watch->bulk) bulk_waiting_.fetch_sub(1);
  {
    std::lock_guard lock(mutex_);
    Queue& queue = queues_[stream_key];
    queue.pop_front();
    if (queue.empty()) queues_.erase(stream_key);
  }
  waiting_.fetch_sub(1);
}

bool Completion::SendBulkBefore(uint64_t order, bool allow_bulk) {
  if (bulk_waiting_.load() == 0) return true;
  if (!allow_bulk) return false;
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& [key, watch] : Heads()) {
      // A stream's copy may stand behind an earlier point of that stream: those are passed first,
      // in order, and each of them again implies the copies before it.
      if (watch->order >= order || watch->done || !Reached(*watch)) continue;
      if (!watch->bulk) SendBulkBefore(watch->order, allow_bulk);
      if (!watch->done) Finish(key, watch);
      moved = true;
    }
  }
  return true;
}

bool Completion::Poll(bool allow_bulk) {
  if (waiting_.load() == 0) return false;
  std::unique_lock poll(poll_mutex_, std::try_to_lock);
  if (!poll.owns_lock()) return false;
  bool any = false;
  // In the log's order over all streams: a wait's answer follows what was told of the points before
  // it.
  std::map<uint64_t, std::pair<uint64_t, std::shared_ptr<Watch>>> heads;
  for (auto& [key, watch] : Heads()) heads[watch->order] = {key, watch};
  while (!heads.empty()) {
    auto [key, watch] = heads.begin()->second;
    heads.erase(heads.begin());
    if (!watch->done) {
      if ((watch->bulk && !allow_bulk) || !Reached(*watch) ||
          !SendBulkBefore(watch->order, allow_bulk))
        continue;
      if (!watch->done) Finish(key, watch);
      any = true;
    }
    if (std::shared_ptr<Watch> next = HeadOf(key)) heads[next->order] = {key, next};
  }
  if (any) after_actions_();
  return any;
}

void Completion::Run() {
  auto since = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (waiting_.load() == 0) {
      wake_.wait(lock);
      since = std::chrono::steady_clock::now();
      continue;
    }
    lock.unlock();
    bool moved = Poll(true);
    lock.lock();
    auto now = std::chrono::steady_clock::now();
    if (moved) since = now;
    // Looks again after a tenth of the time already waited: a late answer costs at most that much.
    auto pause = std::clamp(std::chrono::duration_cast<microseconds>(now - since) / 10,
                            microseconds(10), microseconds(500));
    if (!stopping_ && !moved) wake_.wait_for(lock, pause);
  }
}

void Completion::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace farcall::server
