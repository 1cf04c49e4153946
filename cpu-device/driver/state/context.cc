// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/state/context.h"

#include "cpu-device/driver/base/log.h"
#include "cpu-device/driver/memory/array.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/event.h"
#include "cpu-device/driver/state/executor.h"
#include "cpu-device/driver/state/memory.h"
#include "cpu-device/driver/state/module.h"
#include "cpu-device/driver/state/stream.h"
#include "cpu-device/driver/state/thread.h"
#include "cuda-abi/export_tables.h"

namespace farcall::cpu_device {
namespace {

std::atomic<uint64_t> g_next_context_id{1};

}  // namespace

Context::Context(Device& device, bool primary, unsigned at_first)
    : flags(at_first), device_(device), primary_(primary), id_(g_next_context_id.fetch_add(1)) {
  active = !primary;
  limits_[CU_LIMIT_STACK_SIZE] = 1024;
  limits_[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
  limits_[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
  limits_[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
  limits_[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
  limits_[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 128;
  legacy_ = std::make_shared<Stream>(*this, Stream::Kind::kLegacy, 0);
}

void Context::Break(CUresult error) {
  CUresult none = CUDA_SUCCESS;
  if (sticky_.compare_exchange_strong(none, error)) {
    Log(LogLevel::kInfo, "context %llu is broken by error %d", static_cast<unsigned long long>(id_),
        error);
    FlushOutput();  // calls fail from now on: what kernels have printed until here is not lost
  }
}

CUresult Context::SetLimit(CUlimit limit, size_t value) {
  if (limit < 0 || limit > CU_LIMIT_PERSISTING_L2_CACHE_SIZE) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  std::lock_guard lock(mutex_);
  if (limit == CU_LIMIT_MAX_L2_FETCH_GRANULARITY && value > 128) return CUDA_ERROR_INVALID_VALUE;
  limits_[limit] = value;
  if (limit == CU_LIMIT_STACK_SIZE) SetStackLimit(value);
  return CUDA_SUCCESS;
}

CUresult Context::GetLimit(CUlimit limit, size_t* value) {
  if (limit == CU_LIMIT_CIG_ENABLED) {  // cuBLAS 13.4 asks before its first product
    *value = 0;
    return CUDA_SUCCESS;
  }
  if (limit < 0 || limit > CU_LIMIT_PERSISTING_L2_CACHE_SIZE) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  std::lock_guard lock(mutex_);
  *value = limits_[limit];
  return CUDA_SUCCESS;
}

std::shared_ptr<Stream> Context::FindStream(CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return legacy_;
  if (handle == CU_STREAM_PER_THREAD) {
    std::shared_ptr<Stream>& mine = ThreadStream(this);
    if (mine == nullptr) mine = std::make_shared<Stream>(*this, Stream::Kind::kPerThread, 0);
    std::lock_guard lock(mutex_);
    streams_.emplace(mine.get(), mine);  // again after a reset
    return mine;
  }
  if (handle == legacy_->handle()) return legacy_;
  return TheDriver().streams.Find(handle);
}

std::shared_ptr<Stream> Context::CreateStream(unsigned stream_flags, int priority) {
  const auto kind =
      stream_flags & CU_STREAM_NON_BLOCKING ? Stream::Kind::kNonBlocking : Stream::Kind::kBlocking;
  auto stream = std::make_shared<Stream>(*this, kind, priority);
  TheDriver().streams.Add(stream);
  std::lock_guard lock(mutex_);
  streams_.emplace(stream.get(), stream);
  return stream;
}

bool Context::DestroyStream(CUstream handle) {
  const std::shared_ptr<Stream> stream = TheDriver().streams.Take(handle);
  if (stream == nullptr) return false;
  // The default stream must still wait for what a busy stream holds: it leaves the list behind its
  // last work.
  Context& owner = stream->context();
  const auto leave = [&owner, handle] {
    std::lock_guard lock(owner.mutex_);
    owner.streams_.erase(handle);
    return CUDA_SUCCESS;
  };
  stream->Submit(leave, How::kInlineIfIdle, true);
  return true;
}

std::vector<std::shared_ptr<Stream>> Context::BlockingStreams() {
  std::vector<std::shared_ptr<Stream>> streams;
  std::lock_guard lock(mutex_);
  for (const auto& [key, stream] : streams_)
    if (stream->kind() != Stream::Kind::kNonBlocking) streams.push_back(stream);
  return streams;
}

std::vector<std::shared_ptr<Stream>> Context::Streams() {
  std::vector<std::shared_ptr<Stream>> streams{legacy_};
  std::lock_guard lock(mutex_);
  for (const auto& [key, stream] : streams_) streams.push_back(stream);
  return streams;
}

void Context::ForgetThreadStream(const std::shared_ptr<Stream>& stream) {
  std::lock_guard lock(mutex_);
  streams_.erase(stream.get());
}

bool Context::EnablePeer(const Context* peer) {
  std::lock_guard lock(mutex_);
  return peers_.insert(peer).second;
}

bool Context::DisablePeer(const Context* peer) {
  std::lock_guard lock(mutex_);
  return peers_.erase(peer) != 0;
}

CUresult Context::Synchronize() {
  for (const auto& stream : Streams()) stream->WaitIdle();
  FlushOutput();
  return sticky();
}

void Context::Reset() {
  cuda_abi::DestroyContextStorage(handle());
  Synchronize();
  {
    std::lock_guard lock(mutex_);
    streams_.clear();
    peers_.clear();
  }
  TheDriver().streams.TakeIf([this](const Stream& stream) { return &stream.context() == this; });
  TheDriver().modules.TakeIf([this](const Module& module) { return &module.context() == this; });
  TheDriver().functions.TakeIf(
      [this](const Function& function) { return &function.context() == this; });
  TheDriver().events.TakeIf([this](const Event& event) { return &event.context() == this; });
  ForgetLibraries(this);
  ForgetTextures(this);
  ForgetArrays(this);
  FreeContextMemory(this);
  sticky_.store(CUDA_SUCCESS, std::memory_order_release);
}

}  // namespace farcall::cpu_device
