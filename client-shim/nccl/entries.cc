// SPDX-License-Identifier: Apache-2.0
// NCCL's C interface. Arguments are checked here; what works stands in collectives.cc,
// communicator.cc, group.cc.
#include <cstring>
#include <mutex>
#include <set>

#include "client-shim/nccl/driver.h"
#include "client-shim/nccl/error.h"
#include "client-shim/nccl/group.h"

using farcall::nccl::AddCollective;
using farcall::nccl::AddCreation;
using farcall::nccl::AddTransfer;
using farcall::nccl::Arithmetic;
using farcall::nccl::Buffers;
using farcall::nccl::Communicator;
using farcall::nccl::ElementBytes;
using farcall::nccl::Fail;
using farcall::nccl::FindDriver;
using farcall::nccl::Reduction;

// What an application holds: a communicator, and the reductions made for it.
struct ncclComm {
  std::unique_ptr<Communicator> communicator;
  std::mutex mutex;
  std::map<int, Reduction> reductions;
  int next_reduction = 5;
};

namespace {

constexpr int kVersion = 23007;
constexpr unsigned kConfigMagic = 0xcafebeef;

CUdeviceptr Device(const void* address) {
  return reinterpret_cast<CUdeviceptr>(address);
}

std::mutex g_mutex;
std::set<ncclComm*>& Living() {
  static auto* living = new std::set<ncclComm*>;
  return *living;
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

ncclResult_t FindReduction(ncclComm_t comm, ncclRedOp_t op, Reduction* reduction) {
  switch (static_cast<int>(op)) {
    case ncclSum:
      *reduction = {Arithmetic::kSum, false, 0};
      return ncclSuccess;
    case ncclProd:
      *reduction = {Arithmetic::kProd, false, 0};
      return ncclSuccess;
    case ncclMax:
      *reduction = {Arithmetic::kMax, false, 0};
      return ncclSuccess;
    case ncclMin:
      *reduction = {Arithmetic::kMin, false, 0};
      return ncclSuccess;
    case ncclAvg:
      *reduction = {Arithmetic::kSum, true, 0};
      return ncclSuccess;
  }
  std::lock_guard lock(comm->mutex);
  auto found = comm->reductions.find(static_cast<int>(op));
  if (found == comm->reductions.end())
    return Fail(ncclInvalidArgument, "%d is no reduction of this communicator",
                static_cast<int>(op));
  *reduction = found->second;
  return ncclSuccess;
}

// What every collective asks of its arguments.
ncclResult_t Check(Communicator* comm, const Buffers& buffers, bool sends, bool receives,
                   int root) {
  if (comm == nullptr) return ncclInvalidArgument;
  if (ElementBytes(buffers.type) == 0)
    return Fail(ncclInvalidArgument,
                "data type %d is not supported: integers, f16, bf16, f32 and f64 are",
                static_cast<int>(buffers.type));
  if (root < 0 || root >= comm->ranks())
    return Fail(ncclInvalidArgument, "root %d is not in 0..%d", root, comm->ranks() - 1);
  if (buffers.count > 0 && ((sends && buffers.send == 0) || (receives && buffers.receive == 0)))
    return Fail(ncclInvalidArgument, "a buffer is null");
  if (buffers.count > SIZE_MAX / 8 / static_cast<uint64_t>(comm->ranks()))
    return Fail(ncclInvalidArgument, "count %zu is more than an address space holds",
                static_cast<size_t>(buffers.count));
  return ncclSuccess;
}

ncclResult_t AddPeerTransfer(bool is_send, const void* address, size_t count, ncclDataType_t type,
                             int peer, ncclComm_t handle, CUstream stream) {
  Communicator* comm = Find(handle);
  Buffers buffers = {Device(address), Device(address), count, type};
  FARCALL_NCCL_TRY(Check(comm, buffers, true, true, peer));
  if (count == 0) return ncclSuccess;
  return AddTransfer(comm, {is_send, peer, Device(address), count * ElementBytes(type), stream});
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

ncclResult_t Refuse(const char* name) {
  return Fail(ncclInvalidUsage, "%s is not supported", name);
}

}  // namespace

#define FARCALL_NCCL_EXPORT extern "C" __attribute__((visibility("default")))

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
  for (int i = 0; i < count && result == ncclSuccess; ++i) {
    const int device = devices == nullptr ? i : devices[i];
    CUcontext context = nullptr;
    if (device < 0 || device >= present) {
      result = Fail(ncclInvalidArgument, "device %d is not in 0..%d", device, present - 1);
    } else if (driver->cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
               driver->cuCtxSetCurrent(context) != CUDA_SUCCESS) {
      result = Fail(ncclUnhandledCudaError, "no context on device %d", device);
    } else {
      result = ncclCommInitRank(&comms[i], count, id, i);
    }
  }
  // Whoever is missing would be waited for.
  if (result != ncclSuccess) farcall::nccl::DropGroup();
  ncclResult_t ended = farcall::nccl::EndGroup();
  driver->cuCtxSetCurrent(before);
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

FARCALL_NCCL_EXPORT ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count,
                                               ncclDataType_t type, ncclRedOp_t op,
                                               ncclComm_t handle, CUstream stream) {
  Communicator* comm = Find(handle);
  Buffers buffers = {Device(send), Device(receive), count, type};
  Reduction reduction;
  FARCALL_NCCL_TRY(Check(comm, buffers, true, true, 0));
  FARCALL_NCCL_TRY(FindReduction(handle, op, &reduction));
  return AddCollective(comm, stream,
                       [=] { return farcall::nccl::AllReduce(*comm, buffers, reduction, stream); });
}

FARCALL_NCCL_EXPORT ncclResult_t ncclReduce(const void* send, void* receive, size_t count,
                                            ncclDataType_t type, ncclRedOp_t op, int root,
                                            ncclComm_t handle, CUstream stream) {
  Communicator* comm = Find(handle);
  Buffers buffers = {Device(send), Device(receive), count, type};
  Reduction reduction;
  FARCALL_NCCL_TRY(Check(comm, buffers, true, comm != nullptr && comm->rank() == root, root));
  FARCALL_NCCL_TRY(FindReduction(handle, op, &reduction));
  return AddCollective(
      comm, stream, [=] { return farcall::nccl::Reduce(*comm, buffers, reduction, root, stream); });
}

FARCALL_NCCL_EXPORT ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count,
                                                   ncclDataType_t type, ncclRedOp_t op,
                                                   ncclComm_t handle, CUstream stream) {
  Communicator* comm = Find(handle);
  Buffers buffers = {Device(send), Device(receive), count, type};
  Reduction reduction;
  FARCALL_NCCL_TRY(Check(comm, buffers, true, true, 0));
  FARCALL_NCCL_TRY(FindReduction(handle, op, &reduction));
  return AddCollective(comm, stream, [=] {
    return farcall::nccl::ReduceScatter(*comm, buffers, reduction, stream);
  });
}

FARCALL_NCCL_EXPORT ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count,
                                               ncclDataType_t type, int root, ncclComm_t handle,
                                               CUstream stream) {
  Communicator* comm = Find(handle);
  Buffers buffers = {Device(send), Device(receive), count, type};
  FARCALL_NCCL_TRY(Check(comm, buffers, comm != nullptr && comm->rank() == root, true, root));
  return AddCollective(comm, stream,
                       [=] { return farcall::nccl::Broadcast(*comm, buffers, root, stream); });
}

FARCALL_NCCL_EXPORT ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type,
                                           int root, ncclComm_t comm, CUstream stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

FARCALL_NCCL_EXPORT ncclResult_t ncclAllGather(const void* send, void* receive, size_t count,
                                               ncclDataType_t type, ncclComm_t handle,
                                               CUstream stream) {
  Communicator* comm = Find(handle);
  Buffers buffers = {Device(send), Device(receive), count, type};
  FARCALL_NCCL_TRY(Check(comm, buffers, true, true, 0));
  return AddCollective(comm, stream,
                       [=] { return farcall::nccl::AllGather(*comm, buffers, stream); });
}

FARCALL_NCCL_EXPORT ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type,
                                          int peer, ncclComm_t comm, CUstream stream) {
  return AddPeerTransfer(true, send, count, type, peer, comm, stream);
}

FARCALL_NCCL_EXPORT ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type,
                                          int peer, ncclComm_t comm, CUstream stream) {
  return AddPeerTransfer(false, receive, count, type, peer, comm, stream);
}

// What is a group of sends and receives: `sends` parts go out of `send`, `receives` parts come into
// `receive`.
static ncclResult_t Exchange(const void* send, void* receive, size_t count, ncclDataType_t type,
                             bool scatters, bool gathers, int root, ncclComm_t handle,
                             CUstream stream) {
  Communicator* comm = Find(handle);
  Buffers buffers = {Device(send), Device(receive), count, type};
  FARCALL_NCCL_TRY(Check(comm, buffers, false, false, root));
  const size_t bytes = count * ElementBytes(type);
  ncclResult_t first = ncclSuccess;
  auto add = [&](bool is_send, CUdeviceptr base, int part, int peer) {
    ncclResult_t added =
        AddPeerTransfer(is_send, reinterpret_cast<void*>(base + static_cast<size_t>(part) * bytes),
                        count, type, peer, handle, stream);
    if (first == ncclSuccess) first = added;
  };
  const bool is_root = comm->rank() == root;
  farcall::nccl::StartGroup();
  if (scatters && gathers) {  // all to all
    for (int i = 0; i < comm->ranks(); ++i) add(true, buffers.send, i, i);
    for (int i = 0; i < comm->ranks(); ++i) add(false, buffers.receive, i, i);
  } else if (gathers) {
    add(true, buffers.send, 0, root);
    for (int i = 0; is_root && i < comm->ranks(); ++i) add(false, buffers.receive, i, i);
  } else {
    for (int i = 0; is_root && i < comm->ranks(); ++i) add(true, buffers.send, i, i);
    add(false, buffers.receive, 0, root);
  }
  ncclResult_t ended = farcall::nccl::EndGroup();
  return first != ncclSuccess ? first : ended;
}

FARCALL_NCCL_EXPORT ncclResult_t ncclAlltoAll(const void* send, void* receive, size_t count,
                                              ncclDataType_t type, ncclComm_t comm,
                                              CUstream stream) {
  return Exchange(send, receive, count, type, true, true, 0, comm, stream);
}

FARCALL_NCCL_EXPORT ncclResult_t ncclGather(const void* send, void* receive, size_t count,
                                            ncclDataType_t type, int root, ncclComm_t comm,
                                            CUstream stream) {
  return Exchange(send, receive, count, type, false, true, root, comm, stream);
}

FARCALL_NCCL_EXPORT ncclResult_t ncclScatter(const void* send, void* receive, size_t count,
                                             ncclDataType_t type, int root, ncclComm_t comm,
                                             CUstream stream) {
  return Exchange(send, receive, count, type, true, false, root, comm, stream);
}

FARCALL_NCCL_EXPORT ncclResult_t ncclGroupStart() {
  farcall::nccl::StartGroup();
  return ncclSuccess;
}

FARCALL_NCCL_EXPORT ncclResult_t ncclGroupEnd() {
  return farcall::nccl::EndGroup();
}

FARCALL_NCCL_EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar,
                                                          ncclDataType_t type,
                                                          ncclScalarResidence_t residence,
                                                          ncclComm_t handle) {
  Communicator* comm = Find(handle);
  if (comm == nullptr) return ncclInvalidArgument;
  if (op == nullptr || scalar == nullptr || ElementBytes(type) == 0)
    return Fail(ncclInvalidArgument, "a null argument, or a data type (%d) that is not supported",
                static_cast<int>(type));
  Reduction reduction = {Arithmetic::kSum, false, Device(scalar)};
  if (residence == ncclScalarHostImmediate) {
    farcall::nccl::InContext in(comm->context());
    FARCALL_NCCL_TRY(comm->KeepScalar(scalar, ElementBytes(type), &reduction.factor));
  }
  std::lock_guard lock(handle->mutex);
  handle->reductions[handle->next_reduction] = reduction;
  *op = static_cast<ncclRedOp_t>(handle->next_reduction++);
  return ncclSuccess;
}

FARCALL_NCCL_EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t handle) {
  if (Find(handle) == nullptr) return ncclInvalidArgument;
  std::lock_guard lock(handle->mutex);
  if (handle->reductions.erase(static_cast<int>(op)) == 0)
    return Fail(ncclInvalidArgument, "%d is no reduction of this communicator",
                static_cast<int>(op));
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

// There, so that whoever links to them loads; they say so when called.
#define FARCALL_NCCL_REFUSED(name, ...)                \
  FARCALL_NCCL_EXPORT ncclResult_t name(__VA_ARGS__) { \
    return Refuse(#name);                              \
  }
FARCALL_NCCL_REFUSED(ncclCommGetUniqueId, ncclComm_t, ncclUniqueId*)
FARCALL_NCCL_REFUSED(ncclCommGrow, ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*,
                     ncclConfig_t*)
FARCALL_NCCL_REFUSED(ncclCommShrink, ncclComm_t, int*, int, ncclComm_t*, ncclConfig_t*, int)
FARCALL_NCCL_REFUSED(ncclCommRevoke, ncclComm_t, int)
FARCALL_NCCL_REFUSED(ncclCommSuspend, ncclComm_t, int)
FARCALL_NCCL_REFUSED(ncclCommResume, ncclComm_t)
FARCALL_NCCL_REFUSED(ncclCommMemStats, ncclComm_t, int, uint64_t*)
FARCALL_NCCL_REFUSED(ncclCommQueryProperties, ncclComm_t, void*)
FARCALL_NCCL_REFUSED(ncclCommWindowRegister, ncclComm_t, void*, size_t, ncclWindow_t*, int)
FARCALL_NCCL_REFUSED(ncclCommWindowDeregister, ncclComm_t, ncclWindow_t)
FARCALL_NCCL_REFUSED(ncclWinGetUserPtr, ncclComm_t, ncclWindow_t, void**)
FARCALL_NCCL_REFUSED(ncclDevCommCreate, ncclComm_t, const void*, void*)
FARCALL_NCCL_REFUSED(ncclDevCommDestroy, ncclComm_t, const void*)
FARCALL_NCCL_REFUSED(ncclGetLsaDevicePointer, ncclWindow_t, size_t, int, void**)
FARCALL_NCCL_REFUSED(ncclGetLsaMultimemDevicePointer, ncclWindow_t, size_t, void**)
FARCALL_NCCL_REFUSED(ncclGetPeerDevicePointer, ncclWindow_t, size_t, int, void**)
FARCALL_NCCL_REFUSED(ncclPutSignal, const void*, size_t, ncclDataType_t, int, ncclWindow_t, size_t,
                     int, int, unsigned, ncclComm_t, CUstream)
FARCALL_NCCL_REFUSED(ncclSignal, int, int, int, unsigned, ncclComm_t, CUstream)
FARCALL_NCCL_REFUSED(ncclWaitSignal, int, const void*, ncclComm_t, CUstream)
FARCALL_NCCL_REFUSED(ncclGroupSimulateEnd, ncclSimInfo_t*)
