// SPDX-License-Identifier: Apache-2.0
// NCCL's C interface: communicators and memory. Arguments are checked here; what works stands in
// communicator.cc and group.cc.
#include "client-shim/nccl/entries.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "client-shim/nccl/base/driver.h"
#include "client-shim/nccl/base/error.h"
#include "client-shim/nccl/group.h"

using farcall::nccl::AddCreation;
using farcall::nccl::Communicator;
using farcall::nccl::Device;
using farcall::nccl::Fail;
using farcall::nccl::Find;
using farcall::nccl::FindDriver;

namespace {

constexpr int kVersion = 23007;
constexpr unsigned kConfigMagic = 0xcafebeef;

std::mutex g_mutex;
std::set<ncclComm*>& Living() {
  static auto* living = new std::set<ncclComm*>;
  return *living;
}

ncclComm* NewHandle() {
  auto* comm = new ncclComm;
  std::lock_guard lock(g_mutex);
  Living().insert(comm);
  return comm;
}

void DeleteHandle(ncclComm* comm) {
  {
    std::lock_guard lock(g_mutex);
    if (Living().erase(comm) == 0) return;
  }
  delete comm;
}

ncclResult_t CheckConfig(const ncclConfig_t* config) {
  if (config != nullptr && (config->size < sizeof(ncclConfig_t) || config->magic != kConfigMagic))
    return Fail(ncclInvalidArgument,
                "the configuration was not set up with NCCL_CONFIG_INITIALIZER");
  return ncclSuccess;
}

// Waits, tells the others, frees.
ncclResult_t Close(ncclComm_t handle, bool together) {
  if (handle == nullptr) return ncclSuccess;
  Communicator* comm = Find(handle);
  if (comm == nullptr) return ncclInvalidArgument;
  ncclResult_t result = comm->Quiesce(together);
  DeleteHandle(handle);
  return result == ncclRemoteError ? ncclSuccess
                                   : result;  // the others went first; nothing of ours is lost
}

}  // namespace

namespace farcall::nccl {

HeldContext::~HeldContext() {
  if (device_ >= 0) FindDriver()->cuDevicePrimaryCtxRelease_v2(device_);
}

Communicator* Find(ncclComm_t comm) {
  std::lock_guard lock(g_mutex);
  if (comm == nullptr || Living().count(comm) == 0) {
    Fail(ncclInvalidArgument, "%p is no communicator", static_cast<void*>(comm));
    return nullptr;
  }
  if (comm->communicator == nullptr)
    Fail(ncclInvalidUsage, "the communicator is not there yet: its group has not ended");
  return comm->communicator.get();
}

}  // namespace farcall::nccl

FARCALL_NCCL_EXPORT ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return Fail(ncclInvalidArgument, "version is null");
  *version = kVersion;
  return ncclSuccess;
}

FARCALL_NCCL_EXPORT const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "operation in progress";
    case ncclTimeout:
      return "operation timed out";
  }
  return "unknown result code";
}

FARCALL_NCCL_EXPORT const char* ncclGetLastError(ncclComm_t) {
  return farcall::nccl::LastError();
}

FARCALL_NCCL_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return Fail(ncclInvalidArgument, "uniqueId is null");
  return farcall::nccl::OpenMeeting(id);
}

FARCALL_NCCL_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks,
                                                        ncclUniqueId id, int rank,
                                                        ncclConfig_t* config) {
  if (comm == nullptr) return Fail(ncclInvalidArgument, "comm is null");
  if (ranks < 1 || ranks > farcall::nccl::kMaxRanks || rank < 0 || rank >= ranks)
    return Fail(ncclInvalidArgument, "rank %d of %d: 1 to %d ranks, counted from 0", rank, ranks,
                farcall::nccl::kMaxRanks);
  FARCALL_NCCL_TRY(CheckConfig(config));
  const farcall::nccl::Driver* driver = FindDriver();
  if (driver == nullptr) return ncclSystemError;
  CUcontext context = nullptr;
  FARCALL_NCCL_CUDA(cuCtxGetCurrent, &context);
  ncclComm* handle = *comm = NewHandle();
  // In a group it runs on another thread, which has no context of its own.
  ncclResult_t result = AddCreation([=] {
    farcall::nccl::InContext in(context);
    return Communicator::Create(id, rank, ranks, &handle->communicator);
  });
  if (result != ncclSuccess && handle->communicator == nullptr) {
    DeleteHandle(handle);
    *comm = nullptr;
  }
  return result;
}

FARCALL_NCCL_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id,
                                                  int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

// The first id is enough for as many ranks as we take.
FARCALL_NCCL_EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank,
                                                          int ids, ncclUniqueId* id,
                                                          ncclConfig_t* config) {
  if (id == nullptr || ids < 1)
    return Fail(ncclInvalidArgument, "%d unique ids: at least one is needed", ids);
  return ncclCommInitRankConfig(comm, ranks, id[0], rank, config);
}

FARCALL_NCCL_EXPORT ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  const farcall::nccl::Driver* driver = FindDriver();
  if (driver == nullptr) return ncclSystemError;
  FARCALL_NCCL_CUDA(cuInit, 0);
  int present = 0;
  FARCALL_NCCL_CUDA(cuDeviceGetCount, &present);
  if (comms == nullptr || count < 1)
    return Fail(ncclInvalidArgument, "%d communicators, or nowhere to put them", count);
  ncclUniqueId id;
  FARCALL_NCCL_TRY(ncclGetUniqueId(&id));
  CUcontext before = nullptr;
  FARCALL_NCCL_CUDA(cuCtxGetCurrent, &before);
  ncclResult_t result = ncclSuccess;
  farcall::nccl::StartGroup();
  std::fill_n(comms, count, nullptr);
  for (int i = 0; i < count && result == ncclSuccess; ++i) {
    const int device = devices == nullptr ? i : devices[i];
    CUcontext context = nullptr;
    if (device < 0 || device >= present) {
      result = Fail(ncclInvalidArgument, "device %d is not in 0..%d", device, present - 1);
    } else if (driver->cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS) {
      result = Fail(ncclUnhandledCudaError, "no context on device %d", device);
    } else {
      driver->cuCtxSetCurrent(context);
      result = ncclCommInitRank(&comms[i], count, id, i);
      if (result == ncclSuccess)
        comms[i]->held.Hold(device);
      else
        driver->cuDevicePrimaryCtxRelease_v2(device);
    }
  }
  // Whoever is missing would be waited for.
  if (result != ncclSuccess) farcall::nccl::DropGroup();
  ncclResult_t ended = farcall::nccl::EndGroup();
  driver->cuCtxSetCurrent(before);
  const bool failed = result != ncclSuccess || ended != ncclSuccess;
  for (int i = 0; i < count && failed; ++i) {
    if (comms[i] == nullptr || comms[i]->communicator != nullptr) continue;
    DeleteHandle(comms[i]);  // with the context it holds
    comms[i] = nullptr;
  }
  return result != ncclSuccess ? result : ended;
}

FARCALL_NCCL_EXPORT ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key,
                                               ncclComm_t* made, ncclConfig_t* config) {
  struct Wish {
    int color, key, rank;
    ncclUniqueId id;
  };
  Communicator* comm = Find(handle);
  if (comm == nullptr) return ncclInvalidArgument;
  if (made == nullptr) return Fail(ncclInvalidArgument, "newcomm is null");
  FARCALL_NCCL_TRY(CheckConfig(config));
  *made = nullptr;
  // Each offers a meeting point; that of the first rank of a color is taken.
  Wish wish = {color, key, comm->rank(), {}};
  FARCALL_NCCL_TRY(ncclGetUniqueId(&wish.id));
  std::vector<std::string> all;
  FARCALL_NCCL_TRY(comm->bootstrap().AllGather(
      std::string(reinterpret_cast<const char*>(&wish), sizeof(wish)), &all));
  std::vector<Wish> members;
  for (const std::string& blob : all) {
    Wish other;
    if (blob.size() != sizeof(other))
      return Fail(ncclRemoteError, "another rank speaks another version");
    std::memcpy(&other, blob.data(), sizeof(other));
    if (other.color == color) members.push_back(other);
  }
  if (color < 0) return ncclSuccess;
  std::sort(members.begin(), members.end(), [](const Wish& a, const Wish& b) {
    return std::make_pair(a.key, a.rank) < std::make_pair(b.key, b.rank);
  });
  auto is_own = [&](const Wish& member) { return member.rank == comm->rank(); };
  int rank =
      static_cast<int>(std::find_if(members.begin(), members.end(), is_own) - members.begin());
  farcall::nccl::InContext in(comm->context());
  return ncclCommInitRankConfig(made, static_cast<int>(members.size()), members[0].id, rank,
                                config);
}

FARCALL_NCCL_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  Communicator* comm = Find(handle);
  return comm == nullptr ? ncclInvalidArgument : comm->Quiesce(true);
}

FARCALL_NCCL_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  return Close(handle, true);
}

FARCALL_NCCL_EXPORT ncclResult_t ncclCommAbort(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  Communicator* comm = Find(handle);
  if (comm == nullptr) return ncclInvalidArgument;
  {
    farcall::nccl::InContext in(comm->context());
    comm->Abort();
  }
  return Close(handle, false);
}

FARCALL_NCCL_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  Communicator* comm = Find(handle);
  if (comm == nullptr || error == nullptr) return ncclInvalidArgument;
  *error = comm->AsyncError();
  return ncclSuccess;
}

FARCALL_NCCL_EXPORT ncclResult_t ncclCommCount(const ncclComm_t handle, int* count) {
  Communicator* comm = Find(handle);
  if (comm == nullptr || count == nullptr) return ncclInvalidArgument;
  *count = comm->ranks();
  return ncclSuccess;
}

FARCALL_NCCL_EXPORT ncclResult_t ncclCommCuDevice(const ncclComm_t handle, int* device) {
  Communicator* comm = Find(handle);
  if (comm == nullptr || device == nullptr) return ncclInvalidArgument;
  *device = comm->device();
  return ncclSuccess;
}

FARCALL_NCCL_EXPORT ncclResult_t ncclCommUserRank(const ncclComm_t handle, int* rank) {
  Communicator* comm = Find(handle);
  if (comm == nullptr || rank == nullptr) return ncclInvalidArgument;
  *rank = comm->rank();
  return ncclSuccess;
}

FARCALL_NCCL_EXPORT ncclResult_t ncclMemAlloc(void** address, size_t bytes) {
  if (address == nullptr) return Fail(ncclInvalidArgument, "ptr is null");
  if (FindDriver() == nullptr) return ncclSystemError;
  CUdeviceptr made = 0;
  FARCALL_NCCL_CUDA(cuMemAlloc_v2, &made, bytes);
  *address = reinterpret_cast<void*>(made);
  return ncclSuccess;
}

FARCALL_NCCL_EXPORT ncclResult_t ncclMemFree(void* address) {
  if (FindDriver() == nullptr) return ncclSystemError;
  FARCALL_NCCL_CUDA(cuMemFree_v2, Device(address));
  return ncclSuccess;
}

// A registered buffer is one that needs no copy into a slot. Ours always copy, so there is nothing
// to prepare, and nothing that differs.
FARCALL_NCCL_EXPORT ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t,
                                                  void** handle) {
  if (Find(comm) == nullptr || handle == nullptr) return ncclInvalidArgument;
  *handle = buffer;
  return ncclSuccess;
}

FARCALL_NCCL_EXPORT ncclResult_t ncclCommDeregister(const ncclComm_t comm, void*) {
  return Find(comm) == nullptr ? ncclInvalidArgument : ncclSuccess;
}
