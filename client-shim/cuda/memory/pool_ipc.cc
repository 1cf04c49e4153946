// SPDX-License-Identifier: Apache-2.0
// Pools across processes of one vGPU: an exported pool is a token in a descriptor; each allocation
// of it crosses as any lent memory does (ipc.h) and names that token.
#include <array>
#include <cstring>

#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/session.h"
#include "client-shim/cuda/memory/share_descriptor.h"
#include "client-shim/cuda/objects/memory_pool.h"
#include "client-shim/cuda/state/ipc.h"
#include "generated/client/calls.h"
#include "proto/handshake/handshake.h"

namespace farcall::client {

namespace {

constexpr uint32_t kPointerMagic = 0x50434346;  // "FCCP"

struct PointerData {
  uint32_t magic = kPointerMagic;
  uint32_t reserved = 0;
  LentMemory memory;
  uint64_t pool = 0;  // the low half of the pool's token
};
static_assert(sizeof(PointerData) <= sizeof(CUmemPoolPtrExportData));

CUresult CheckType(CUmemAllocationHandleType type, unsigned long long flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

bool IsNone(const ShareToken& token) {
  return token.high == 0 && token.low == 0;
}

}  // namespace

CUresult Call_cuMemPoolExportToShareableHandle(void* handle_out, CUmemoryPool pool,
                                               CUmemAllocationHandleType handleType,
                                               unsigned long long flags) {
  MemPool* found = FindPool(pool);
  if (found == nullptr || handle_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUresult status = CheckType(handleType, flags);
  if (status != CUDA_SUCCESS) return status;
  PoolShare share = ShareOf(found);
  if (IsImported(found) || (share.handle_types & handleType) == 0) return CUDA_ERROR_INVALID_VALUE;
  if (IsNone(share.token)) {
    std::array<uint8_t, sizeof(share.token)> random{};
    RandomBytes(random);
    std::memcpy(static_cast<void*>(&share.token), random.data(), sizeof(share.token));
    SetShare(found, share);
  }
  int descriptor = NewShareDescriptor(ShareKind::kPool,
                                      {share.token, FindDevice(DeviceOf(found))->server_index});
  if (descriptor < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(handle_out) = descriptor;
  return CUDA_SUCCESS;
}

CUresult Call_cuMemPoolImportFromShareableHandle(CUmemoryPool* pool_out, void* handle,
                                                 CUmemAllocationHandleType handleType,
                                                 unsigned long long flags) {
  if (pool_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUresult status = CheckType(handleType, flags);
  if (status != CUDA_SUCCESS) return status;
  Share share;
  if (!ReadShareDescriptor(static_cast<int>(reinterpret_cast<intptr_t>(handle)), ShareKind::kPool,
                           &share) ||
      IsNone(share.token))
    return CUDA_ERROR_INVALID_VALUE;
  int device = DeviceOfServer(CurrentSession(), share.server_device);
  if (device < 0) return CUDA_ERROR_INVALID_DEVICE;  // CUDA_VISIBLE_DEVICES hides it here
  *pool_out = NewImportedPool(device, {0, share.token});
  return CUDA_SUCCESS;
}

CUresult Call_cuMemPoolExportPointer(CUmemPoolPtrExportData* shareData_out, CUdeviceptr ptr) {
  Allocation found;
  if (shareData_out == nullptr || !Memory().Find(ptr, &found) || found.base != ptr ||
      found.pool == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  PoolShare share = ShareOf(found.pool);
  if (IsNone(share.token)) return CUDA_ERROR_INVALID_VALUE;  // a pool that is not shared
  PointerData data;
  CUresult status = Lend(found, &data.memory);
  if (status != CUDA_SUCCESS) return status;
  data.pool = share.token.low;
  std::memset(shareData_out, 0, sizeof(*shareData_out));
  std::memcpy(shareData_out, &data, sizeof(data));
  return CUDA_SUCCESS;
}

CUresult Call_cuMemPoolImportPointer(CUdeviceptr* ptr_out, CUmemoryPool pool,
                                     CUmemPoolPtrExportData* shareData) {
  MemPool* found = FindPool(pool);
  if (found == nullptr || ptr_out == nullptr || shareData == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  PoolShare share = ShareOf(found);
  PointerData data;
  std::memcpy(static_cast<void*>(&data), shareData, sizeof(data));
  if (!IsImported(found) || data.magic != kPointerMagic || data.pool != share.token.low)
    return CUDA_ERROR_INVALID_VALUE;
  return OpenLent(data.memory, LentBy::kPool, ptr_out);
}

}  // namespace farcall::client
