// SPDX-License-Identifier: Apache-2.0
// Memory and pools that several processes of this machine share.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <vector>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/base/log.h"
#include "cpu-device/driver/memory/mempool.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/work/ipc_memory.h"

namespace farcall::cpu_device {
namespace {

// Opening what is open already gives the same address.
struct Opened {
  std::mutex mutex;
  std::vector<std::weak_ptr<OpenedMemory>> all;
};

Opened& TheOpened() {
  static auto* opened = new Opened;
  return *opened;
}

// Under the mutex.
std::shared_ptr<OpenedMemory> FindOpened(const SharedPiece& piece) {
  std::erase_if(TheOpened().all, [](const auto& weak) { return weak.expired(); });
  for (const auto& weak : TheOpened().all) {
    std::shared_ptr<OpenedMemory> memory = weak.lock();
    if (memory != nullptr && memory->piece() == piece) return memory;
  }
  return nullptr;
}

CUresult AddRange(Context& context, const SharedPiece& piece, std::shared_ptr<MemPool> pool,
                  std::shared_ptr<OpenedMemory> memory, CUdeviceptr* out) {
  if (pool != nullptr) pool->Use(piece.bytes);
  Range range;
  range.start = memory->address();
  range.bytes = piece.bytes;
  range.kind = RangeKind::kOpened;
  // The exporter may see other devices than this process does.
  range.device = FindDevice(piece.device) != nullptr ? piece.device : context.device().ordinal;
  range.context = &context;
  range.pool = std::move(pool);
  range.opened = std::move(memory);
  *out = range.start;
  return TheDriver().ranges.Add(std::move(range)) ? CUDA_SUCCESS : CUDA_ERROR_ALREADY_MAPPED;
}

CUresult Open(Context& context, const SharedPiece& piece, CUdeviceptr* out) {
  if (piece.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;  // as CUDA answers its own maker
  Opened& opened = TheOpened();
  std::lock_guard lock(opened.mutex);
  if (const std::shared_ptr<OpenedMemory> memory = FindOpened(piece)) {
    ++memory->opens;
    *out = memory->address();
    return CUDA_SUCCESS;
  }
  const int fd = OpenFile(piece);
  if (fd < 0) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<OpenedMemory> memory = OpenedMemory::Map(piece, fd);
  close(fd);
  if (memory == nullptr) return CUDA_ERROR_MAP_FAILED;
  opened.all.push_back(memory);
  return AddRange(context, piece, nullptr, std::move(memory), out);
}

CUresult FindPool(CUmemoryPool handle, CUmemAllocationHandleType type, unsigned long long flags,
                  std::shared_ptr<MemPool>* pool) {
  if (const CUresult result = CheckInitialized()) return result;
  *pool = TheDriver().pools.Find(handle);
  if (*pool == nullptr || flags != 0 || (*pool)->imported() >= 0) return CUDA_ERROR_INVALID_VALUE;
  return (*pool)->handle_types() == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

template <typename Handle>
void Put(const SharedPiece& piece, Handle* handle) {
  *handle = Handle{};
  memcpy(handle, &piece, sizeof(piece));
}

template <typename Handle>
SharedPiece PieceOf(const Handle& handle) {
  SharedPiece piece;
  memcpy(static_cast<void*>(&piece), &handle, sizeof(piece));
  return piece;
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  Range range;
  if (out == nullptr || !TheDriver().ranges.Find(address, &range) ||
      range.kind != RangeKind::kDevice)
    return CUDA_ERROR_INVALID_VALUE;
  SharedPiece piece;
  if (const CUresult result = ShareRange(range, &piece)) return result;
  Put(piece, out);
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (out == nullptr || (flags & ~static_cast<unsigned>(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  return Open(*context, PieceOf(handle), out);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  return cuIpcOpenMemHandle_v2(out, handle, flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  const auto wanted = [](const Range& r) {
    return r.kind == RangeKind::kOpened && r.pool == nullptr;
  };
  Range range;
  if (!TheDriver().ranges.Find(address, &range) || range.start != address || !wanted(range))
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = range.context->Synchronize()) return result;
  std::lock_guard lock(TheOpened().mutex);
  if (--range.opened->opens != 0) return CUDA_SUCCESS;
  return TheDriver().ranges.Take(address, &range, wanted) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolExportToShareableHandle(void* out, CUmemoryPool handle,
                                          CUmemAllocationHandleType type,
                                          unsigned long long flags) {
  std::shared_ptr<MemPool> pool;
  if (const CUresult result = FindPool(handle, type, flags, &pool)) return result;
  if (out == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  const int fd = TheDriver().arena->DuplicateFile();
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(out) = fd;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* out, void* os_handle,
                                            CUmemAllocationHandleType type,
                                            unsigned long long flags) {
  if (const CUresult result = CheckInitialized()) return result;
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  const int descriptor = static_cast<int>(reinterpret_cast<intptr_t>(os_handle));
  if (!Arena::IsFile(descriptor)) return CUDA_ERROR_INVALID_VALUE;
  const int fd = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  auto pool = std::make_shared<MemPool>(*TheDriver().devices[0], 0,
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, fd);
  *out = pool->handle();
  TheDriver().pools.Add(std::move(pool));
  return CUDA_SUCCESS;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* out, CUdeviceptr address) {
  if (const CUresult result = CheckInitialized()) return result;
  Range range;
  if (out == nullptr || !TheDriver().ranges.Find(address, &range) || range.start != address ||
      range.kind != RangeKind::kPool || range.pool->handle_types() == CU_MEM_HANDLE_TYPE_NONE)
    return CUDA_ERROR_INVALID_VALUE;
  SharedPiece piece;
  if (const CUresult result = DescribeShared(range, &piece)) return result;
  Put(piece, out);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr* out, CUmemoryPool handle,
                                CUmemPoolPtrExportData* data) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  std::shared_ptr<MemPool> pool = TheDriver().pools.Find(handle);
  if (out == nullptr || data == nullptr || pool == nullptr || pool->imported() < 0)
    return CUDA_ERROR_INVALID_VALUE;
  const SharedPiece piece = PieceOf(*data);
  std::shared_ptr<OpenedMemory> memory = OpenedMemory::Map(piece, pool->imported());
  if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return AddRange(*context, piece, std::move(pool), std::move(memory), out);
}

}  // extern "C"
