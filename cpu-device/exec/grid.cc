// SPDX-License-Identifier: Apache-2.0
// Spreads a grid's blocks over the calling thread and a pool; stops it at a fault or when its time
// is over.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "cpu-device/exec/device_time.h"
#include "cpu-device/exec/executor.h"
#include "cpu-device/exec/fault.h"
#include "cpu-device/exec/waiting_blocks.h"

namespace farcall::cpu_device {
namespace {

using Clock = std::chrono::steady_clock;
// A grid shorter than this is not worth waking the pool for.
constexpr auto kAloneFor = std::chrono::microseconds(20);
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
  int device = DeviceOfThread();
  std::atomic<const BlockShape*> shape;
  LaunchContext* launch;
  uint64_t blocks = 0;  // clusters of them
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> ended{0};
  std::atomic<bool> waits{false};  // launch->on_wait was called
  unsigned participants_wanted = 0;

  std::mutex mutex;
  std::condition_variable idle;
  unsigned helpers = 0;  // pool threads inside, guarded by mutex
  ExecResult result;     // the first failure

  void Fail(ExecResult failure) {
    std::lock_guard lock(mutex);
    if (result.ok()) result = std::move(failure);
    launch->cancel = 1;
  }
};

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
    if (current_.cluster) Spare(std::move(current_.cluster));
    while (!waiting_.empty() && SpareBlocks().size() < kKeptBlocks) {
      Spare(waiting_.Take().cluster);
    }
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
        Spare(std::move(current_.cluster));
        grid_.ended.fetch_add(1, std::memory_order_relaxed);
        stalls_ = vain_ = 0;
        if (until_ && waiting_.empty() && Clock::now() >= *until_) return;
      } else {
        SetAside();
      }
    }
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
    uint64_t index = grid_.next.load(std::memory_order_relaxed);
    if (index < grid_.blocks && waiting_.size() < most_live_) {
      index = grid_.next.fetch_add(1, std::memory_order_relaxed);
      if (index < grid_.blocks) {
        Begin(index);
        return true;
      }
    }
    if (waiting_.empty()) return false;
    current_ = waiting_.Take();
    return true;
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
    if (!current_.cluster->Start(*grid_.shape.load(std::memory_order_acquire), grid_.launch, index,
                                 smid_)) {
      RaiseFault(ExecStatus::kOutOfMemory, "no host memory for a block of %u threads",
                 grid_.shape.load()->threads);
    }
  }

  static void Spare(std::unique_ptr<Cluster> cluster) {
    if (SpareBlocks().size() < kKeptBlocks) SpareBlocks().push_back(std::move(cluster));
  }

  Grid& grid_;
  const uint32_t smid_;
  const Clock::time_point* until_ = nullptr;
  BegunBlock current_;
  WaitingBlocks waiting_;  // nearly always empty
  size_t most_live_;       // blocks that wait, before no more are begun
  size_t stalls_ = 0;      // turns since a block ended
  size_t vain_ = 0;        // turns since one got on
  uint64_t ended_ = 0;     // blocks of the grid, since
  Clock::time_point looked_;
};

void Participate(Grid& grid, uint32_t smid, const Clock::time_point* until = nullptr) {
  DeviceTimer timer(grid.device);
  ExecResult result = Participant(grid, smid).Work(until);
  if (!result.ok()) grid.Fail(std::move(result));
}

// The calling thread's share, with better code from some time on.
void ParticipateAsCaller(Grid& grid, Clock::time_point start, const BetterCode& better) {
  if (better.make) {
    const Clock::time_point until = start + better.after;
    Participate(grid, 0, &until);
    if (grid.launch->cancel || grid.next.load(std::memory_order_relaxed) >= grid.blocks) return;
    if (const BlockShape* shape = better.make()) {
      grid.shape.store(shape, std::memory_order_release);
    }
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
    while (threads_ < PoolThreads() - 1) {
      std::thread([this, smid = ++threads_] { ThreadMain(smid % kSmCount); }).detach();
    }
    for (unsigned i = 0; i < helpers; ++i) queue_.push_back(grid);
    if (helpers == 1) {
      wake_.notify_one();
    } else {
      wake_.notify_all();
    }
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
  std::condition_variable wake_;
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
  std::condition_variable wake_;
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
  SetThreadsOfDevices(PoolThreads());
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
