// SPDX-License-Identifier: Apache-2.0
// NCCL's C interface: collectives, sends, groups, reductions. Arguments are checked here; what
// works stands in collectives.cc and group.cc.
#include "client-shim/nccl/base/driver.h"
#include "client-shim/nccl/base/error.h"
#include "client-shim/nccl/entries.h"
#include "client-shim/nccl/group.h"

using farcall::nccl::AddCollective;
using farcall::nccl::AddTransfer;
using farcall::nccl::Arithmetic;
using farcall::nccl::Buffers;
using farcall::nccl::Communicator;
using farcall::nccl::Device;
using farcall::nccl::ElementBytes;
using farcall::nccl::Fail;
using farcall::nccl::Find;
using farcall::nccl::PrepareReduction;
using farcall::nccl::Reduction;

namespace {

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

}  // namespace

FARCALL_NCCL_EXPORT ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count,
                                               ncclDataType_t type, ncclRedOp_t op,
                                               ncclComm_t handle, CUstream stream) {
  Communicator* comm = Find(handle);
  Buffers buffers = {Device(send), Device(receive), count, type};
  Reduction reduction;
  FARCALL_NCCL_TRY(Check(comm, buffers, true, true, 0));
  FARCALL_NCCL_TRY(FindReduction(handle, op, &reduction));
  return AddCollective(
      comm, stream, [=] { return PrepareReduction(*comm, type, reduction, stream); },
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
      comm, stream, [=] { return PrepareReduction(*comm, type, reduction, stream); },
      [=] { return farcall::nccl::Reduce(*comm, buffers, reduction, root, stream); });
}

FARCALL_NCCL_EXPORT ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count,
                                                   ncclDataType_t type, ncclRedOp_t op,
                                                   ncclComm_t handle, CUstream stream) {
  Communicator* comm = Find(handle);
  Buffers buffers = {Device(send), Device(receive), count, type};
  Reduction reduction;
  FARCALL_NCCL_TRY(Check(comm, buffers, true, true, 0));
  FARCALL_NCCL_TRY(FindReduction(handle, op, &reduction));
  return AddCollective(
      comm, stream, [=] { return PrepareReduction(*comm, type, reduction, stream); },
      [=] { return farcall::nccl::ReduceScatter(*comm, buffers, reduction, stream); });
}

FARCALL_NCCL_EXPORT ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count,
                                               ncclDataType_t type, int root, ncclComm_t handle,
                                               CUstream stream) {
  Communicator* comm = Find(handle);
  Buffers buffers = {Device(send), Device(receive), count, type};
  FARCALL_NCCL_TRY(Check(comm, buffers, comm != nullptr && comm->rank() == root, true, root));
  return AddCollective(comm, stream, nullptr,
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
  return AddCollective(comm, stream, nullptr,
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
