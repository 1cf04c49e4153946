// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/state/stream.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "cpu-device/driver/base/processors.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"

namespace farcall::cpu_device {
namespace {

constexpr auto kIdleThreadLife = std::chrono::seconds(10);
// How often a stream's thread looks for more work before it sleeps, about three microseconds in
// all: to be woken costs a burst of short kernels more than they do.
constexpr int kLooks = 20;

std::atomic<uint64_t> g_next_id{1};
thread_local int t_callback_depth = 0;
thread_local Turn t_turn;

// A piece of device work from its turn to its end.
class TurnScope {
 public:
  TurnScope(IssueOrder& order, uint64_t issued) : mine_{&order, issued}, before_(t_turn) {
    if (issued == 0) return;
    order.Begin(issued);
    t_turn = mine_;
  }
  TurnScope(const TurnScope&) = delete;
  TurnScope& operator=(const TurnScope&) = delete;
  ~TurnScope() {
    if (mine_.issued != 0) mine_.order->End(mine_.issued);
    t_turn = before_;
  }

 private:
  const Turn mine_, before_;
};

}  // namespace

Turn CurrentTurn() {
  return t_turn;
}

bool InsideCallback() {
  return t_callback_depth != 0;
}
CallbackScope::CallbackScope() {
  ++t_callback_depth;
}
CallbackScope::~CallbackScope() {
  --t_callback_depth;
}

bool StreamAttributes::Get(CUstreamAttrID attribute, CUstreamAttrValue* value) const {
  if (attribute != CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW &&
      attribute != CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY &&
      attribute != CU_LAUNCH_ATTRIBUTE_PRIORITY &&
      attribute != CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN &&
      attribute != CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP)
    return false;
  std::lock_guard lock(mutex_);
  const auto found = values_.find(attribute);
  *value = found == values_.end() ? CUstreamAttrValue{} : found->second;
  if (found == values_.end() && attribute == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY)
    value->syncPolicy = CU_SYNC_POLICY_AUTO;
  return true;
}

bool StreamAttributes::Set(CUstreamAttrID attribute, const CUstreamAttrValue& value) {
  CUstreamAttrValue known;
  if (!Get(attribute, &known)) return false;
  std::lock_guard lock(mutex_);
  values_[attribute] = value;
  return true;
}

void StreamAttributes::CopyFrom(const StreamAttributes& other) {
  if (&other == this) return;
  std::scoped_lock lock(mutex_, other.mutex_);
  values_ = other.values_;
}

Stream::Stream(Context& context, Kind kind, int priority)
    : context_(context), kind_(kind), priority_(priority), id_(g_next_id.fetch_add(1)) {}

// Called under the context's order mutex.
std::vector<Stream::Ticket> Stream::Before() {
  std::vector<Ticket> tickets;
  const auto add = [&](const std::shared_ptr<Stream>& other) {
    std::lock_guard lock(other->mutex_);
    if (other->completed_ < other->submitted_) tickets.push_back({other, other->submitted_});
  };
  if (kind_ == Kind::kLegacy)
    for (const auto& other : context_.BlockingStreams()) add(other);
  else if (kind_ != Kind::kNonBlocking)
    add(context_.legacy());
  return tickets;
}

// Under the context's order mutex and mutex_.
void Stream::Issue(Item* item) {
  if (item->share == Share::kDevice) {
    item->issued = context_.issue_order().Issue(issued_, may_wait_ == 0 && item->after.empty());
    issued_ = item->issued;
  }
  if (MayWait(*item)) ++may_wait_;
}

CUresult Stream::Submit(Work work, How how, bool always, Share share) {
  std::unique_lock order(context_.order_mutex());
  Item item{std::move(work), always, share, Before()};
  std::unique_lock lock(mutex_);
  Issue(&item);
  const bool idle = queue_.empty() && !running_;
  const uint64_t sequence = ++submitted_;
  if (idle && (how == How::kWait || (how == How::kInlineIfIdle && item.after.empty()))) {
    running_ = true;
    lock.unlock();
    order.unlock();
    const CUresult result = Run(item);
    Finish(item);
    return result;
  }
  CUresult result = CUDA_SUCCESS;
  if (how == How::kWait) {
    // `result` outlives the work: this call returns only after it.
    item.work = [inner = std::move(item.work), &result] { return result = inner(); };
  }
  queue_.push_back(std::move(item));
  StartThread();
  lock.unlock();
  order.unlock();
  work_ready_.notify_one();
  if (how == How::kWait) WaitFor(sequence);
  return how == How::kWait && result == CUDA_SUCCESS ? context_.sticky() : result;
}

CUresult Stream::Run(Item& item) {
  for (const Ticket& ticket : item.after) ticket.stream->WaitFor(ticket.sequence);
  const TurnScope turn(context_.issue_order(), item.issued);
  if (!item.always && context_.sticky() != CUDA_SUCCESS) return context_.sticky();
  const CUresult result = item.work();
  if (result != CUDA_SUCCESS) context_.Break(result);
  return result;
}

void Stream::Finish(const Item& item) {
  bool is_more = false;
  {
    std::lock_guard lock(mutex_);
    running_ = false;
    if (MayWait(item)) --may_wait_;
    ++completed_;
    is_more = !queue_.empty();
  }
  work_done_.notify_all();
  if (is_more) work_ready_.notify_one();  // work that a caller did is none of the stream's thread
}

void Stream::WaitFor(uint64_t sequence) {
  std::unique_lock lock(mutex_);
  work_done_.wait(lock, [&] { return completed_ >= sequence; });
}

bool Stream::Idle() const {
  std::lock_guard lock(mutex_);
  return completed_ == submitted_;
}

void Stream::WaitIdle() {
  std::unique_lock lock(mutex_);
  const uint64_t sequence = submitted_;
  work_done_.wait(lock, [&] { return completed_ >= sequence; });
}

std::shared_ptr<Capture> Stream::capture() const {
  std::lock_guard lock(mutex_);
  return capture_;
}

void Stream::set_capture(std::shared_ptr<Capture> capture) {
  std::lock_guard lock(mutex_);
  capture_ = std::move(capture);
}

// Called under mutex_.
void Stream::StartThread() {
  if (has_thread_) return;
  has_thread_ = true;
  // Signals belong to the application's threads.
  sigset_t all, before;
  sigfillset(&all);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([self = shared_from_this()] { self->WorkLoop(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Stream::WorkLoop() {
  pthread_setname_np(pthread_self(), "farcall-stream");
  RunOn(TheDriver().profile.processors);
  std::unique_lock lock(mutex_);
  for (;;) {
    for (int i = 0; i < kLooks && queue_.empty(); ++i) {
      lock.unlock();
      for (int pause = 0; pause < 4; ++pause) __builtin_ia32_pause();
      lock.lock();
    }
    const bool work =
        work_ready_.wait_for(lock, kIdleThreadLife, [&] { return !running_ && !queue_.empty(); });
    if (!work) {
      if (running_ || !queue_.empty()) continue;
      has_thread_ = false;
      return;
    }
    Item item = std::move(queue_.front());
    queue_.pop_front();
    running_ = true;
    lock.unlock();
    Run(item);
    item.work = {};  // what it holds may be the last reference to a module or an event
    Finish(item);
    lock.lock();
  }
}

}  // namespace farcall::cpu_device
