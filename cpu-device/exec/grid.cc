// SPDX-License-Identifier: Apache-2.0
// Spreads a grid's blocks over the calling thread and a pool; stops it at a fault or when its time
// is over.
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "cpu-device/exec/executor.h"
#include "cpu-device/exec/fault.h"
#include "cpu-device/exec/waiting_blocks.h"
#include "sync/cond_var.h"

namespace farcall::cpu_device {
namespace {

using Clock = std::chrono::steady_clock;
// A grid shorter than this is not worth waking the pool for.
constexpr auto kAloneFor = std::chrono::microseconds(20);
// A thread takes up to so many blocks of a grid at once, and of what is left no more than one in
// kShares for each thread: the last ones are taken one by one, so that all end together.
constexpr uint64_t kLongestRun = 64, kShares = 16;
// Where a run has to end in time: so many blocks, while each takes little of it.
constexpr uint64_t kLongestTimedRun = 16;
constexpr auto kLookAgain = std::chrono::microseconds(2);
constexpr uint32_t kKeptBlocks = 2;  // ended ones a thread keeps for reuse
constexpr size_t kFewLive = 8;       // that wait, on one thread, at first
constexpr size_t kStallsToLook = 16;
constexpr auto kWaitsAfter = std::chrono::milliseconds(50);
constexpr size_t kRoundsToWait = 32;  // of turns of all that wait

ExecutorOptions& MutableOptions() {
  static ExecutorOptions* options = new ExecutorOptions;
  return *options;
}

unsigned PoolThreads() {
  // Asked once: the count is read from a file of the kernel's.
  static const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const unsigned wanted = Options().pool_threads;
  return wanted ? wanted : cores;
}

struct Grid {
  std::atomic<const BlockShape*> shape;
  LaunchContext* launch;
  uint64_t blocks = 0;              // clusters of them
  std::atomic<bool> looked{false};  // at `ended`, which is counted from then on
  std::atomic<bool> waits{false};   // launch->on_wait was called
  // Apart from what every block reads.
  alignas(64) std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> ended{0};

  alignas(64) std::mutex mutex;
  CondVar idle;
  unsigned helpers = 0;  // pool threads inside, guarded by mutex
  ExecResult result;     // the first failure

  void Fail(ExecResult failure) {
    std::lock_guard lock(mutex);
    if (result.ok()) result = std::move(failure);
    launch->cancel = 1;
  }
};

std::atomic<uint64_t> g_runs_taken{0};

// Blocks a thread has used before: their memory is touched and of the right size.
std::vector<std::unique_ptr<Cluster>>& SpareBlocks() {
  static thread_local std::vector<std::unique_ptr<Cluster>> spare;
  return spare;
}

// One thread's share of a grid. A block in which all threads wait is set aside for the next; only
// few are so at first. Where none of these ends, what they wait for may not have begun: more are
// allowed, so every block is live in the end and a grid-wide barrier completes.
class Participant {
 public:
  Participant(Grid& grid, uint32_t smid)
      : grid_(grid), smid_(smid), most_live_(grid.launch->grid_workspace ? ~size_t{0} : kFewLive) {}
  ~Participant() {
    g_runs_taken.fetch_add(taken_, std::memory_order_relaxed);
    if (current_.cluster) Spare(std::move(current_.cluster));
    while (!waiting_.empty() && SpareBlocks().size() < kKeptBlocks) Spare(waiting_.Take().cluster);
  }

  // Works until the grid has no block left for this thread. `until`: or until that time, if given.
  ExecResult Work(const Clock::time_point* until) {
    until_ = until;
    return RunGuarded([](void* self) { static_cast<Participant*>(self)->Loop(); }, this,
                      grid_.launch->kernel_name);
  }

 private:
  void Loop() {
    for (;;) {
      if (grid_.launch->cancel) RaiseCancelled();
      if (!current_.cluster && !PickNext()) return;
      if (current_.cluster->Step() == StepResult::kDone) {
        CountEnded();
        if (fresh_) FinishRun();
        Spare(std::move(current_.cluster));
        stalls_ = vain_ = 0;
        if (until_ && waiting_.empty() && at_ == end_ && IsOver()) return;
      } else {
        SetAside();
      }
    }
  }

  // The blocks of the run that can go one after the other in place of the one that is done: all,
  // unless there is better code by now.
  void FinishRun() {
    const LaunchContext& launch = *grid_.launch;
    while (at_ < end_ && begun_->loop && grid_.shape.load(std::memory_order_acquire) == begun_) {
      if (launch.cancel.load(std::memory_order_relaxed)) RaiseCancelled();
      ++at_;
      current_.cluster->RunNext();
      CountEnded();
    }
  }

  void CountEnded() {
    if (grid_.looked.load(std::memory_order_relaxed))
      grid_.ended.fetch_add(1, std::memory_order_relaxed);
  }

  void SetAside() {
    const bool moved = current_.cluster->moved();
    waiting_.Add(std::move(current_), moved);
    const size_t rounds = kRoundsToWait * waiting_.size();
    if (++stalls_ > rounds) {
      stalls_ = 0;
      if (most_live_ < grid_.blocks) most_live_ *= 2;
    }
    if (grid_.launch->on_wait && stalls_ % kStallsToLook == 0) TellOfWait();
    vain_ = moved ? 0 : vain_ + 1;
    if (vain_ > rounds) {
      vain_ = 0;
      std::this_thread::yield();
    }
  }

  // None of the grid's blocks has ended for long.
  void TellOfWait() {
    grid_.looked.store(true, std::memory_order_relaxed);
    const Clock::time_point now = Clock::now();
    const uint64_t ended = grid_.ended.load(std::memory_order_relaxed);
    if (ended != ended_ || looked_ == Clock::time_point{}) {
      ended_ = ended;
      looked_ = now;
    } else if (now - looked_ > kWaitsAfter && !grid_.waits.exchange(true)) {
      (*grid_.launch->on_wait)();
    }
  }

  bool PickNext() {
    if (waiting_.size() < most_live_ && (at_ < end_ || TakeRun())) {
      Begin(at_++);
      return true;
    }
    if (waiting_.empty()) return false;
    current_ = waiting_.Take();
    fresh_ = false;
    return true;
  }

  // The next blocks of the grid that nobody has, as a run [at_, end_).
  bool TakeRun() {
    uint64_t index = grid_.next.load(std::memory_order_relaxed);
    if (index >= grid_.blocks) return false;
    const uint64_t count = RunLength(grid_.blocks - index);
    index = grid_.next.fetch_add(count, std::memory_order_relaxed);
    if (index >= grid_.blocks) return false;
    ++taken_;
    at_ = index;
    end_ = std::min(index + count, grid_.blocks);
    return true;
  }

  // After a run, when the time is looked at. The shorter the blocks, the more come before the next
  // look.
  bool IsOver() {
    const Clock::time_point now = Clock::now();
    const bool quick = now - looked_at_ < kLookAgain;
    looked_at_ = now;
    timed_run_ = quick ? std::min(2 * timed_run_, kLongestTimedRun) : 1;
    return now >= *until_;
  }

  // One where blocks may wait for each other or do so in a cluster.
  uint64_t RunLength(uint64_t left) const {
    const LaunchContext& launch = *grid_.launch;
    const bool one_call = grid_.shape.load(std::memory_order_acquire)->loop != nullptr;
    if (!one_call || launch.grid_workspace) return 1;
    if (launch.cluster[0] * launch.cluster[1] * launch.cluster[2] != 1) return 1;
    return std::clamp(left / (PoolThreads() * kShares), uint64_t{1},
                      until_ ? timed_run_ : kLongestRun);
  }

  void Begin(uint64_t index) {
    auto& spare = SpareBlocks();
    current_ = {};
    if (spare.empty()) {
      current_.cluster = std::make_unique<Cluster>();
    } else {
      current_.cluster = std::move(spare.back());
      spare.pop_back();
    }
    fresh_ = true;
    begun_ = grid_.shape.load(std::memory_order_acquire);
    if (!current_.cluster->Start(*begun_, grid_.launch, index, smid_)) {
      RaiseFault(ExecStatus::kOutOfMemory, "no host memory for a block of %u threads",
                 begun_->threads);
    }
  }

  static void Spare(std::unique_ptr<Cluster> cluster) {
    if (SpareBlocks().size() < kKeptBlocks) SpareBlocks().push_back(std::move(cluster));
  }

  Grid& grid_;
  const uint32_t smid_;
  const Clock::time_point* until_ = nullptr;
  uint64_t at_ = 0, end_ = 0;          // of the run: blocks that have not begun
  const BlockShape* begun_ = nullptr;  // of the block that began last
  bool fresh_ = false;                 // it is the current one
  uint64_t taken_ = 0;                 // runs
  uint64_t timed_run_ = 1;
  Clock::time_point looked_at_;
  BegunBlock current_;
  WaitingBlocks waiting_;  // nearly always empty
  size_t most_live_;       // blocks that wait, before no more are begun
  size_t stalls_ = 0;      // turns since a block ended
  size_t vain_ = 0;        // turns since one got on
  uint64_t ended_ = 0;     // blocks of the grid, since
  Clock::time_point looked_;
};

void Participate(Grid& grid, uint32_t smid, const Clock::time_point* until = nullptr) {
  ExecResult result = Participant(grid, smid).Work(until);
  if (!result.ok()) grid.Fail(std::move(result));
}

// The calling thread's share, with better code from some time on.
void ParticipateAsCaller(Grid& grid, Clock::time_point start, const BetterCode& better) {
  if (better.make) {
    const Clock::time_point until = start + better.after;
    Participate(grid, 0, &until);
    if (grid.launch->cancel || grid.next.load(std::memory_order_relaxed) >= grid.blocks) return;
    if (const BlockShape* shape = better.make()) grid.shape.store(shape, std::memory_order_release);
  }
  Participate(grid, 0);
}

class Pool {
 public:
  static Pool& Get() {
    static Pool* pool =
        new Pool;  // threads are never joined: process exit must not wait for kernels
    return *pool;
  }

  void Offer(Grid* grid, unsigned helpers) {
    std::lock_guard lock(mutex_);
    while (threads_ < PoolThreads() - 1)
      std::thread([this, smid = ++threads_] { ThreadMain(smid % kSmCount); }).detach();
    for (unsigned i = 0; i < helpers; ++i) queue_.push_back(grid);
    if (helpers == 1)
      wake_.notify_one();
    else
      wake_.notify_all();
  }

  // After this no further thread enters the grid.
  void Withdraw(Grid* grid) {
    std::lock_guard lock(mutex_);
    std::erase(queue_, grid);
  }

 private:
  void ThreadMain(uint32_t smid) {
    for (;;) {
      Grid* grid;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return !queue_.empty(); });
        grid = queue_.front();
        queue_.pop_front();
        std::lock_guard enter(grid->mutex);
        ++grid->helpers;
      }
      Participate(*grid, smid);
      std::lock_guard lock(grid->mutex);
      if (--grid->helpers == 0) grid->idle.notify_all();
    }
  }

  std::mutex mutex_;
  CondVar wake_;
  std::deque<Grid*> queue_;
  unsigned threads_ = 0;
};

// Raises `cancel` of grids whose time is over.
class Watchdog {
 public:
  static Watchdog& Get() {
    static Watchdog* watchdog = new Watchdog;
    return *watchdog;
  }

  void Watch(Grid* grid, Clock::time_point deadline) {
    std::lock_guard lock(mutex_);
    if (!started_) {
      started_ = true;
      std::thread([this] { ThreadMain(); }).detach();
    }
    deadlines_[grid] = deadline;
    wake_.notify_one();
  }

  void Unwatch(Grid* grid) {
    std::lock_guard lock(mutex_);
    deadlines_.erase(grid);
  }

 private:
  void ThreadMain() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (deadlines_.empty()) {
        wake_.wait(lock);
        continue;
      }
      Clock::time_point now = Clock::now(), earliest = Clock::time_point::max();
      for (auto it = deadlines_.begin(); it != deadlines_.end();) {
        if (it->second > now) {
          earliest = std::min(earliest, it->second);
          ++it;
          continue;
        }
        it->first->Fail({ExecStatus::kTimeout,
                         std::string("kernel ") + it->first->launch->kernel_name +
                             ": ran longer than " +
                             std::to_string(Options().watchdog_ns / 1000000) + " ms, stopped"});
        it = deadlines_.erase(it);
      }
      if (earliest != Clock::time_point::max()) wake_.wait_until(lock, earliest);
    }
  }

  std::mutex mutex_;
  CondVar wake_;
  std::map<Grid*, Clock::time_point> deadlines_;
  bool started_ = false;
};

}  // namespace

const ExecutorOptions& Options() {
  return MutableOptions();
}
namespace {

std::mutex g_reserved_mutex;
AddressWindow g_reserved;

}  // namespace

void SetReservedWindow(uint64_t begin, uint64_t end) {
  std::lock_guard lock(g_reserved_mutex);
  g_reserved = {begin, end - begin};
}

AddressWindow ReservedWindow() {
  std::lock_guard lock(g_reserved_mutex);
  return g_reserved;
}

void ConfigureExecutor(const ExecutorOptions& options) {
  MutableOptions() = options;
}

uint64_t RunsTaken() {
  return g_runs_taken.load(std::memory_order_relaxed);
}

ExecResult RunGrid(const BlockShape& shape, LaunchContext* launch, const BetterCode& better) {
  Grid grid;
  grid.shape = &shape;
  grid.launch = launch;
  grid.blocks = ClustersOf(*launch);
  uint64_t watchdog_ns = Options().watchdog_ns;
  Clock::time_point start = Clock::now();
  if (watchdog_ns) Watchdog::Get().Watch(&grid, start + std::chrono::nanoseconds(watchdog_ns));

  unsigned threads = PoolThreads();
  if (threads > 1 && grid.blocks > 1) {
    Clock::time_point alone_until = start + kAloneFor;
    ExecResult result = Participant(grid, 0).Work(&alone_until);
    if (!result.ok()) grid.Fail(std::move(result));
    uint64_t begun = grid.next.load(std::memory_order_relaxed);
    if (!launch->cancel && begun < grid.blocks) {
      uint64_t left = grid.blocks - begun;
      Pool::Get().Offer(&grid, static_cast<unsigned>(std::min<uint64_t>(threads - 1, left)));
      ParticipateAsCaller(grid, start, better);
      Pool::Get().Withdraw(&grid);
    }
  } else {
    ParticipateAsCaller(grid, start, better);
  }
  {
    std::unique_lock lock(grid.mutex);
    grid.idle.wait(lock, [&] { return grid.helpers == 0; });
  }
  if (watchdog_ns) Watchdog::Get().Unwatch(&grid);
  return std::move(grid.result);
}

}  // namespace farcall::cpu_device
