// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/services/mps_service.h"

#include <sys/stat.h>

#include <filesystem>
#include <utility>

namespace farcall::server {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kLookEvery(500), kCountEvery(20);
constexpr seconds kReadyPatience(40), kEndPatience(10), kIdle(10), kTryAgain(5);
constexpr int kMaxMisses = 2;  // a command may fail once without anything being wrong

}  // namespace

MpsService::MpsService(std::string folder, End end, Count count)
    : folder_(std::move(folder)), end_(std::move(end)), count_(std::move(count)), thread_([this] {
        Run();
        // Here: daemons end with the thread that started them, if nothing else has ended them.
        std::unique_lock lock(mutex_);
        std::map<std::string, std::unique_ptr<Group>> all = std::exchange(groups_, {});
        lock.unlock();
        all.clear();
      }) {}

MpsService::~MpsService() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

Status MpsService::Ensure(const std::string& group, MpsOptions options) {
  std::unique_lock lock(mutex_);
  std::unique_ptr<Group>& found = groups_[group];
  if (found == nullptr) {
    options.folder = folder_ + "/" + std::to_string(++folders_made_);
    mkdir(options.folder.c_str(), 0700);
    found = std::make_unique<Group>();
    found->daemon = std::make_unique<MpsDaemon>(std::move(options));
    changed_.notify_all();
  }
  found->released_at = Clock::time_point::max();
  bool known = changed_.wait_for(lock, kReadyPatience, [&] {
    auto now = groups_.find(group);
    return stopping_ || now == groups_.end() || now->second->state != State::kStarting;
  });
  auto now = groups_.find(group);
  if (!known || stopping_ || now == groups_.end())
    return {Code::kUnavailable, "MPS: the server of this group is not up; try again"};
  return now->second->error;
}

std::vector<std::string> MpsService::EnvironmentOf(const std::string& group) {
  std::lock_guard lock(mutex_);
  auto found = groups_.find(group);
  return found == groups_.end() ? std::vector<std::string>()
                                : found->second->daemon->ClientEnvironment();
}

void MpsService::Terminate(const std::string& group, pid_t client) {
  std::lock_guard lock(mutex_);
  auto found = groups_.find(group);
  if (found != groups_.end()) {
    found->second->to_terminate.push_back(client);
    changed_.notify_all();
  }
}

void MpsService::Release(const std::string& group) {
  std::lock_guard lock(mutex_);
  auto found = groups_.find(group);
  if (found != groups_.end()) found->second->released_at = Clock::now() + kIdle;
}

// Only this thread takes groups away, so that one it works on without the lock stays.
void MpsService::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    std::vector<std::string> names;
    for (const auto& [name, group] : groups_) names.push_back(name);
    for (const std::string& name : names) {
      if (stopping_) return;
      Group& group = *groups_.at(name);
      Tend(name, group, lock);
      if (Clock::now() >= group.released_at) {
        std::unique_ptr<Group> gone = std::move(groups_.at(name));
        groups_.erase(name);
        lock.unlock();
        gone.reset();
        lock.lock();
      }
    }
    bool waits = false;
    for (const auto& [name, group] : groups_) {
      waits = waits || group->state == State::kStarting ||
              (group->state == State::kReady && !group->to_terminate.empty());
    }
    if (!waits && !stopping_) changed_.wait_for(lock, kLookEvery);
  }
}

void MpsService::Tend(const std::string& name, Group& group, std::unique_lock<std::mutex>& lock) {
  if (group.state == State::kReady) {
    std::string why = Look(group, lock);
    if (!why.empty()) Recover(name, group, why, lock);
    return;
  }
  group.to_terminate.clear();  // without a server it has no clients
  if (group.state == State::kFailed && Clock::now() < group.try_again_at) return;
  lock.unlock();
  Status started = group.daemon->is_running() ? group.daemon->Restart() : group.daemon->Start();
  lock.lock();
  group.error = started;
  group.state = started.ok() ? State::kReady : State::kFailed;
  group.try_again_at = Clock::now() + kTryAgain;
  changed_.notify_all();
}

std::string MpsService::Look(Group& group, std::unique_lock<std::mutex>& lock) {
  std::vector<pid_t> clients = std::exchange(group.to_terminate, {});
  lock.unlock();
  for (pid_t client : clients) (void)group.daemon->Terminate(client);
  bool runs = group.daemon->is_running();
  MpsDaemon::ServerState state = runs ? group.daemon->State() : MpsDaemon::ServerState::kNone;
  lock.lock();
  if (state == MpsDaemon::ServerState::kFault)
    return "a client of the group has met a fatal fault, which all its clients share";
  if (!runs) return "the group's control daemon has ended";
  group.misses = state == MpsDaemon::ServerState::kNone ? group.misses + 1 : 0;
  return group.misses >= kMaxMisses ? "the group's server has ended" : "";
}

// A server takes no new clients until those that met its fault are gone. So all of the group's
// sessions end, each told why, and the server is started anew; no other group notices.
void MpsService::Recover(const std::string& name, Group& group, const std::string& why,
                         std::unique_lock<std::mutex>& lock) {
  group.state = State::kStarting;
  group.misses = 0;
  lock.unlock();
  end_(name, "MPS: " + why + " (CUDA_ERROR_MPS_CLIENT_TERMINATED, 810)");
  Clock::time_point until = Clock::now() + kEndPatience;
  while (count_(name) != 0 && Clock::now() < until) std::this_thread::sleep_for(kCountEvery);
  lock.lock();
}

}  // namespace farcall::server
