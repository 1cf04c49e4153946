// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/exec/child_grids.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cpu-device/exec/device_heap.h"

namespace farcall::cpu_device {
namespace {

constexpr uint32_t kMaxNested = 24;
constexpr uint32_t kMaxShared = 227 << 10;
// cuda_runtime_api.h: the streams that device code has without creating one.
// 0, the block's own; 1 and 2, by names of the host's.
constexpr uint64_t kTailLaunch = 3, kFireAndForget = 4;
// Beyond those, and no address.
constexpr uint64_t kFirstHandle = 0x100;

thread_local uint32_t t_depth = 0;  // of the grid this thread runs the children of

uint64_t Volume(const Dim3& dims) {
  return uint64_t{dims.x} * dims.y * dims.z;
}

bool Fits(const KernelInfo& info, const LaunchConfig& config) {
  const uint32_t* required = info.required_block;
  const Dim3& block = config.block;
  if (required[0] != 0 &&
      (block.x != required[0] || block.y != required[1] || block.z != required[2]))
    return false;
  return Volume(config.grid) != 0 && Volume(block) != 0 &&
         Volume(block) <= info.max_threads_per_block && block.z <= 64 && config.grid.y <= 65535 &&
         config.grid.z <= 65535 &&
         uint64_t{info.static_shared_bytes} + config.dynamic_shared_bytes <= kMaxShared;
}

}  // namespace

ChildGrids::ChildGrids(KernelsByAddress& kernels)
    : kernels_(kernels), depth_(t_depth), next_handle_(kFirstHandle) {}

ChildGrids::~ChildGrids() {
  for (const auto& [buffer, child] : prepared_) DeviceHeapFree(buffer);
}

uint64_t ChildGrids::ParameterBuffer(uint64_t kernel, Dim3 grid, Dim3 block, uint32_t shared_bytes,
                                     DeviceError* error) {
  Child child;
  child.kernel = kernels_.KernelAt(kernel);
  child.config.grid = grid;
  child.config.block = block;
  child.config.dynamic_shared_bytes = shared_bytes;
  *error = DeviceError::kInvalidValue;
  if (child.kernel == nullptr) return 0;
  *error = DeviceError::kInvalidConfiguration;
  if (!Fits(child.kernel->info(), child.config)) return 0;
  *error = DeviceError::kTooDeep;
  if (depth_ >= kMaxNested) return 0;
  *error = DeviceError::kPendingCount;
  const uint64_t buffer =
      DeviceHeapAllocate(std::max<uint64_t>(child.kernel->info().param_bytes, 1));
  if (buffer == 0) return 0;
  *error = DeviceError::kNone;
  std::lock_guard lock(mutex_);
  prepared_.emplace(buffer, std::move(child));
  return buffer;
}

DeviceError ChildGrids::Launch(uint64_t buffer, uint64_t stream) {
  std::lock_guard lock(mutex_);
  const auto found = prepared_.find(buffer);
  if (found == prepared_.end()) return DeviceError::kInvalidValue;
  const bool known = KnowsLocked(stream);
  if (known) {
    Child& child = found->second;
    child.params.resize(child.kernel->info().param_bytes);
    // The buffer is the heap's, whatever a kernel has written there.
    if (!child.params.empty())
      memcpy(child.params.data(), reinterpret_cast<const void*>(buffer), child.params.size());
    (stream == kTailLaunch ? last_ : children_).push_back(std::move(child));
  }
  prepared_.erase(found);
  DeviceHeapFree(buffer);
  return known ? DeviceError::kNone : DeviceError::kInvalidValue;
}

uint64_t ChildGrids::CreateHandle() {
  std::lock_guard lock(mutex_);
  handles_.insert(next_handle_);
  return next_handle_++;
}

bool ChildGrids::KnowsLocked(uint64_t handle) const {
  return handle <= kFireAndForget || handles_.contains(handle);
}

bool ChildGrids::Knows(uint64_t handle) {
  std::lock_guard lock(mutex_);
  return KnowsLocked(handle);
}

bool ChildGrids::Destroy(uint64_t handle) {
  std::lock_guard lock(mutex_);
  return handles_.erase(handle) != 0;
}

void ChildGrids::SetError(uint64_t thread, uint32_t error) {
  std::lock_guard lock(mutex_);
  if (error == 0)
    errors_.erase(thread);
  else
    errors_[thread] = error;
}

uint32_t ChildGrids::ErrorOf(uint64_t thread) {
  std::lock_guard lock(mutex_);
  const auto found = errors_.find(thread);
  return found == errors_.end() ? 0 : found->second;
}

ExecResult ChildGrids::Run(const std::vector<Child>& children) {
  for (const Child& child : children) {
    ExecResult result = child.kernel->Run(child.config, child.params.data());
    if (!result.ok()) return result;
  }
  return {};
}

ExecResult ChildGrids::RunAll() {
  if (children_.empty() && last_.empty()) return {};
  ++t_depth;
  ExecResult result = Run(children_);
  if (result.ok()) result = Run(last_);
  --t_depth;
  return result;
}

}  // namespace farcall::cpu_device
