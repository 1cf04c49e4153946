// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/processes/closer.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "server/worker/sandbox/shared_folders.h"
#include "server/worker/sandbox/worker_cgroups.h"

namespace farcall::server {

namespace {

constexpr std::chrono::milliseconds kLook{20};  // for processes that are not gone
constexpr std::chrono::seconds kLastPatience{2};
constexpr long kLongestCloseNs = 50'000'000;
constexpr size_t kFilesAtOnce = 1000;  // of a folder, before descriptors' turn

// A signal with a handler ends a wait in close(); the descriptor is gone all the same.
constexpr int kInterrupt = SIGURG;

void Ignore(int) {}

// Interrupts the calling thread again and again, from kLongestCloseNs on.
class Interrupter {
 public:
  Interrupter() {
    struct sigaction action {};
    action.sa_handler = Ignore;  // without SA_RESTART
    sigaction(kInterrupt, &action, nullptr);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, kInterrupt);
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = kInterrupt;
    event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
    has_timer_ = timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
  }
  ~Interrupter() {
    if (has_timer_) timer_delete(timer_);
  }
  void Set(long first_ns) {
    itimerspec times{};
    times.it_value.tv_nsec = times.it_interval.tv_nsec = first_ns;
    if (has_timer_) timer_settime(timer_, 0, &times, nullptr);
  }

 private:
  timer_t timer_{};
  bool has_timer_ = false;
};

}  // namespace

Closer::Closer() : thread_([this] { Run(); }) {}

Closer::~Closer() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kLastPatience, [this] {
    return descriptors_.empty() && !closes_ && processes_.empty() && folders_.empty() &&
           groups_.empty();
  });
  stopping_ = true;
  lock.unlock();
  changed_.notify_all();
  thread_.join();
}

void Closer::Close(int fd) {
  if (fd < 0) return;
  {
    std::lock_guard lock(mutex_);
    descriptors_.push_back(fd);
  }
  changed_.notify_all();
}

void Closer::End(const WorkerProcess& process) {
  KillProcess(process);
  {
    std::lock_guard lock(mutex_);
    for (int fd : {process.control, process.pid_fd})
      if (fd >= 0) descriptors_.push_back(fd);
    processes_.push_back(process.pid);
  }
  changed_.notify_all();
}

void Closer::Remove(std::string folder) {
  if (folder.empty()) return;
  {
    std::lock_guard lock(mutex_);
    folders_.push_back(std::move(folder));
  }
  changed_.notify_all();
}

void Closer::EndGroup(std::vector<std::string> folders) {
  if (folders.empty()) return;
  {
    std::lock_guard lock(mutex_);
    groups_.push_back(std::move(folders));
  }
  changed_.notify_all();
}

size_t Closer::pending() {
  std::lock_guard lock(mutex_);
  return descriptors_.size() + processes_.size() + folders_.size() + groups_.size() +
         (closes_ ? 1 : 0);
}

// What is not gone yet is looked at again.
void Closer::EndGroups(std::unique_lock<std::mutex>& lock) {
  std::vector<std::vector<std::string>> groups = std::exchange(groups_, {});
  if (groups.empty()) return;
  lock.unlock();
  std::erase_if(groups, EndCgroup);
  lock.lock();
  groups_.insert(groups_.end(), groups.begin(), groups.end());
}

void Closer::Run() {
  Interrupter interrupter;
  std::unique_lock lock(mutex_);
  for (;;) {
    std::erase_if(processes_, [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) != 0; });
    EndGroups(lock);
    if (!descriptors_.empty()) {
      const int fd = descriptors_.front();
      descriptors_.pop_front();
      closes_ = true;
      lock.unlock();
      interrupter.Set(kLongestCloseNs);
      close(fd);
      interrupter.Set(0);
      lock.lock();
      closes_ = false;
      continue;
    }
    if (!folders_.empty() && !stopping_) {
      const std::string folder = folders_.front();
      folders_.pop_front();
      lock.unlock();
      const bool is_gone = RemoveFolder(folder, kFilesAtOnce);
      lock.lock();
      if (!is_gone) folders_.push_back(folder);
      continue;
    }
    changed_.notify_all();
    if (stopping_) return;
    auto busy = [this] { return stopping_ || !descriptors_.empty() || !folders_.empty(); };
    if (processes_.empty() && groups_.empty())
      changed_.wait(lock, [&] { return busy() || !processes_.empty() || !groups_.empty(); });
    else
      changed_.wait_for(lock, kLook, busy);
  }
}

}  // namespace farcall::server
