// SPDX-License-Identifier: Apache-2.0
// A context: the owner of streams, events, modules and memory on one device, and of the error that
// ends them all. Never deleted (a destroyed one is only no longer found): streams, threads and
// libraries may still name it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/issue_order.h"

namespace farcall::cpu_device {

class Device;
class Stream;

constexpr int kLimits = 16;
constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -5;

class Context {
 public:
  Context(Device& device, bool primary, unsigned flags);

  Device& device() const { return device_; }
  bool primary() const { return primary_; }
  uint64_t id() const { return id_; }
  CUcontext handle() { return reinterpret_cast<CUcontext>(this); }

  std::atomic<bool> active{false};  // a primary context is inactive until it is retained
  std::atomic<unsigned> flags{0};
  std::atomic<int> cache_config{CU_FUNC_CACHE_PREFER_NONE};
  std::atomic<int> shared_config{CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE};

  // The error of a kernel that broke the context: every later call returns it.
  CUresult sticky() const { return sticky_.load(std::memory_order_acquire); }
  void Break(CUresult error);

  CUresult SetLimit(CUlimit limit, size_t value);
  CUresult GetLimit(CUlimit limit, size_t* value);

  // 0, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD give this context's default streams; any other
  // handle may be a stream of any context. nullptr = no such stream.
  std::shared_ptr<Stream> FindStream(CUstream handle);
  std::shared_ptr<Stream> CreateStream(unsigned flags, int priority);
  bool DestroyStream(CUstream handle);

  // false: it already was as asked.
  bool EnablePeer(const Context* peer);
  bool DisablePeer(const Context* peer);

  // Waits for all work of all streams and writes what device printf has produced. The sticky error,
  // if there is one.
  CUresult Synchronize();
  // Drains the streams, frees everything the context owns, forgets the sticky error. Runs library
  // destructors first.
  void Reset();

  // Held while work is queued, so that the default stream sees one order.
  std::mutex& order_mutex() { return order_mutex_; }
  IssueOrder& issue_order() { return issue_order_; }
  const std::shared_ptr<Stream>& legacy() const { return legacy_; }
  // Streams that the legacy default stream waits for. Under order_mutex.
  std::vector<std::shared_ptr<Stream>> BlockingStreams();
  void ForgetThreadStream(const std::shared_ptr<Stream>& stream);
  std::vector<std::shared_ptr<Stream>> Streams();

 private:
  Device& device_;
  const bool primary_;
  const uint64_t id_;
  std::atomic<CUresult> sticky_{CUDA_SUCCESS};
  std::mutex order_mutex_;
  IssueOrder issue_order_;
  std::mutex mutex_;
  size_t limits_[kLimits] = {};
  std::shared_ptr<Stream> legacy_;
  std::set<const Context*> peers_;
  std::unordered_map<const void*, std::shared_ptr<Stream>> streams_;
};

}  // namespace farcall::cpu_device
