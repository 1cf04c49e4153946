// SPDX-License-Identifier: Apache-2.0
#include "client-shim/nccl/collectives.h"

#include <algorithm>

#include "client-shim/nccl/base/driver.h"
#include "client-shim/nccl/base/error.h"

namespace farcall::nccl {

namespace {

ncclResult_t Copy(CUdeviceptr to, CUdeviceptr from, uint64_t bytes, CUstream stream) {
  if (bytes == 0 || to == from) return ncclSuccess;
  FARCALL_NCCL_CUDA(cuMemcpyDtoDAsync_v2, to, from, bytes, stream);
  return ncclSuccess;
}

// One chunk of a collective: fill the slot, tell, read the others', free them. Every rank goes
// through each chunk, so the numbers agree whoever sends.
class Chunk {
 public:
  Chunk(Communicator& comm, CUstream stream)
      : comm_(comm), stream_(stream), number_(comm.chunk()++) {}

  // Whoever read this slot last has done so.
  ncclResult_t AwaitRoom() {
    for (int i = 0; i < comm_.ranks(); ++i)
      FARCALL_NCCL_TRY(comm_.Await(stream_, Flag::kFree, i, number_ - kSlots));
    return ncclSuccess;
  }
  // `bytes` of the slot are for rank `reader`, or for all if it is < 0.
  ncclResult_t Publish(uint64_t bytes, int reader = -1) {
    return RaiseAll(Flag::kReady, bytes, reader);
  }
  ncclResult_t AwaitData(int from) { return comm_.Await(stream_, Flag::kReady, from, number_); }
  ncclResult_t Release() { return RaiseAll(Flag::kFree, 0, -1); }

  CUdeviceptr Slot(int of) const { return comm_.Slot(of, number_); }

 private:
  ncclResult_t RaiseAll(Flag flag, uint64_t bytes, int reader) {
    for (int i = 0; i < comm_.ranks(); ++i) {
      const bool reads = reader < 0 || reader == i;
      FARCALL_NCCL_TRY(comm_.Raise(stream_, flag, i, number_, reads ? bytes : 0));
    }
    return ncclSuccess;
  }

  Communicator& comm_;
  CUstream stream_;
  uint32_t number_;
};

// The input as it goes into a slot.
ncclResult_t Place(Communicator& comm, CUdeviceptr slot, CUdeviceptr from, uint64_t count,
                   ncclDataType_t type, const Reduction& reduction, CUstream stream) {
  if (reduction.factor == 0) return Copy(slot, from, count * ElementBytes(type), stream);
  return comm.kernels().Enqueue(stream, type, Arithmetic::kScale, slot, from, reduction.factor,
                                count);
}

// All ranks' slots, from `offset`, in the order of ranks: so the result is the same, bit for bit,
// on every rank.
ncclResult_t ReduceSlots(Communicator& comm, const Chunk& chunk, uint64_t offset, CUdeviceptr to,
                         uint64_t count, ncclDataType_t type, const Reduction& reduction,
                         CUstream stream) {
  const uint64_t bytes = count * ElementBytes(type);
  if (comm.ranks() == 1) FARCALL_NCCL_TRY(Copy(to, chunk.Slot(0) + offset, bytes, stream));
  for (int i = 1; i < comm.ranks(); ++i) {
    CUdeviceptr before = i == 1 ? chunk.Slot(0) + offset : to;
    FARCALL_NCCL_TRY(comm.kernels().Enqueue(stream, type, reduction.arithmetic, to, before,
                                            chunk.Slot(i) + offset, count));
  }
  if (!reduction.average) return ncclSuccess;
  return comm.kernels().Enqueue(stream, type, Arithmetic::kDivide, to, to,
                                static_cast<uint64_t>(comm.ranks()), count);
}

// Reduces into `root`, or into all of them if root < 0.
ncclResult_t ReduceTo(Communicator& comm, const Buffers& buffers, const Reduction& reduction,
                      int root, CUstream stream) {
  const size_t element = ElementBytes(buffers.type);
  const uint64_t most = kChunkBytes / element;
  for (uint64_t done = 0; done < buffers.count;) {
    const uint64_t count = std::min(buffers.count - done, most);
    Chunk chunk(comm, stream);
    FARCALL_NCCL_TRY(chunk.AwaitRoom());
    FARCALL_NCCL_TRY(Place(comm, chunk.Slot(comm.rank()), buffers.send + done * element, count,
                           buffers.type, reduction, stream));
    FARCALL_NCCL_TRY(chunk.Publish(count * element, root));
    if (root < 0 || root == comm.rank()) {
      for (int i = 0; i < comm.ranks(); ++i) FARCALL_NCCL_TRY(chunk.AwaitData(i));
      FARCALL_NCCL_TRY(ReduceSlots(comm, chunk, 0, buffers.receive + done * element, count,
                                   buffers.type, reduction, stream));
    }
    FARCALL_NCCL_TRY(chunk.Release());
    done += count;
  }
  return ncclSuccess;
}

}  // namespace

namespace {

ncclResult_t Prepare(Communicator& comm, CUstream stream, ncclDataType_t type,
                     Arithmetic arithmetic, uint64_t b) {
  if (comm.kernels().Has(type, arithmetic)) return ncclSuccess;
  FARCALL_NCCL_TRY(comm.CheckUsable(stream));  // a capture, which a wait would spoil, is refused
  return comm.kernels().Prepare(stream, type, arithmetic, b);
}

}  // namespace

ncclResult_t PrepareReduction(Communicator& comm, ncclDataType_t type, const Reduction& reduction,
                              CUstream stream) {
  FARCALL_NCCL_TRY(Prepare(comm, stream, type, reduction.arithmetic, 0));
  if (reduction.average) FARCALL_NCCL_TRY(Prepare(comm, stream, type, Arithmetic::kDivide, 1));
  if (reduction.factor == 0) return ncclSuccess;
  return Prepare(comm, stream, type, Arithmetic::kScale, reduction.factor);
}

ncclResult_t AllReduce(Communicator& comm, const Buffers& buffers, const Reduction& reduction,
                       CUstream stream) {
  return ReduceTo(comm, buffers, reduction, -1, stream);
}

ncclResult_t Reduce(Communicator& comm, const Buffers& buffers, const Reduction& reduction,
                    int root, CUstream stream) {
  return ReduceTo(comm, buffers, reduction, root, stream);
}

ncclResult_t ReduceScatter(Communicator& comm, const Buffers& buffers, const Reduction& reduction,
                           CUstream stream) {
  const size_t element = ElementBytes(buffers.type);
  const uint64_t ranks = static_cast<uint64_t>(comm.ranks());
  // A slot holds a part for each rank.
  const uint64_t most = std::max<uint64_t>(1, kChunkBytes / element / ranks);
  for (uint64_t done = 0; done < buffers.count;) {
    const uint64_t count = std::min(buffers.count - done, most);
    Chunk chunk(comm, stream);
    FARCALL_NCCL_TRY(chunk.AwaitRoom());
    for (uint64_t i = 0; i < ranks; ++i) {
      FARCALL_NCCL_TRY(Place(comm, chunk.Slot(comm.rank()) + i * count * element,
                             buffers.send + (i * buffers.count + done) * element, count,
                             buffers.type, reduction, stream));
    }
    FARCALL_NCCL_TRY(chunk.Publish(ranks * count * element));
    for (int i = 0; i < comm.ranks(); ++i) FARCALL_NCCL_TRY(chunk.AwaitData(i));
    FARCALL_NCCL_TRY(ReduceSlots(comm, chunk, static_cast<uint64_t>(comm.rank()) * count * element,
                                 buffers.receive + done * element, count, buffers.type, reduction,
                                 stream));
    FARCALL_NCCL_TRY(chunk.Release());
    done += count;
  }
  return ncclSuccess;
}

ncclResult_t Broadcast(Communicator& comm, const Buffers& buffers, int root, CUstream stream) {
  const uint64_t bytes = buffers.count * ElementBytes(buffers.type);
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t now = std::min<uint64_t>(bytes - done, kChunkBytes);
    Chunk chunk(comm, stream);
    FARCALL_NCCL_TRY(chunk.AwaitRoom());
    if (comm.rank() == root)
      FARCALL_NCCL_TRY(Copy(chunk.Slot(root), buffers.send + done, now, stream));
    FARCALL_NCCL_TRY(chunk.Publish(comm.rank() == root ? now : 0));
    FARCALL_NCCL_TRY(chunk.AwaitData(root));
    if (comm.rank() == root)
      FARCALL_NCCL_TRY(Copy(buffers.receive + done, buffers.send + done, now, stream));
    else
      FARCALL_NCCL_TRY(Copy(buffers.receive + done, chunk.Slot(root), now, stream));
    FARCALL_NCCL_TRY(chunk.Release());
    done += now;
  }
  return ncclSuccess;
}

ncclResult_t AllGather(Communicator& comm, const Buffers& buffers, CUstream stream) {
  const uint64_t bytes = buffers.count * ElementBytes(buffers.type);
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t now = std::min<uint64_t>(bytes - done, kChunkBytes);
    Chunk chunk(comm, stream);
    FARCALL_NCCL_TRY(chunk.AwaitRoom());
    FARCALL_NCCL_TRY(Copy(chunk.Slot(comm.rank()), buffers.send + done, now, stream));
    FARCALL_NCCL_TRY(chunk.Publish(now));
    for (int i = 0; i < comm.ranks(); ++i) {
      FARCALL_NCCL_TRY(chunk.AwaitData(i));
      FARCALL_NCCL_TRY(Copy(buffers.receive + static_cast<uint64_t>(i) * bytes + done,
                            chunk.Slot(i), now, stream));
    }
    FARCALL_NCCL_TRY(chunk.Release());
    done += now;
  }
  return ncclSuccess;
}

namespace {

ncclResult_t SendChunk(Communicator& comm, const Transfer& transfer, uint64_t done, uint64_t bytes,
                       CUstream stream) {
  const uint32_t number = comm.sent(transfer.peer)++;
  FARCALL_NCCL_TRY(comm.Await(stream, Flag::kPeerFree, transfer.peer, number - kSlots));
  FARCALL_NCCL_TRY(Copy(comm.PeerSlot(comm.rank(), transfer.peer, number), transfer.address + done,
                        bytes, stream));
  return comm.Raise(stream, Flag::kPeerReady, transfer.peer, number, bytes);
}

ncclResult_t ReceiveChunk(Communicator& comm, const Transfer& transfer, uint64_t done,
                          uint64_t bytes, CUstream stream) {
  const uint32_t number = comm.received(transfer.peer)++;
  FARCALL_NCCL_TRY(comm.Await(stream, Flag::kPeerReady, transfer.peer, number));
  FARCALL_NCCL_TRY(Copy(transfer.address + done, comm.PeerSlot(transfer.peer, comm.rank(), number),
                        bytes, stream));
  return comm.Raise(stream, Flag::kPeerFree, transfer.peer, number);
}

// The how-manieth transfer with its peer in its direction each one is: the two ends agree on it.
std::vector<int> Turns(const std::vector<Transfer>& transfers) {
  std::vector<int> turns;
  for (size_t i = 0; i < transfers.size(); ++i) {
    auto same = [&](const Transfer& other) {
      return other.is_send == transfers[i].is_send && other.peer == transfers[i].peer;
    };
    turns.push_back(static_cast<int>(
        std::count_if(transfers.begin(), transfers.begin() + static_cast<long>(i), same)));
  }
  return turns;
}

// In one turn each pair has at most one chunk under way in a direction, and all of a rank's sends
// are before its receives: so what a send waits for lies in an earlier turn, what a receive waits
// for before the other's receives of this one.
ncclResult_t TakeTurn(Communicator& comm, const std::vector<Transfer>& transfers,
                      const std::vector<int>& turns, int turn, bool sends, uint64_t done) {
  CUstream stream = transfers[0].stream;
  for (size_t i = 0; i < transfers.size(); ++i) {
    const Transfer& transfer = transfers[i];
    if (turns[i] != turn || transfer.is_send != sends || done >= transfer.bytes) continue;
    const uint64_t bytes = std::min<uint64_t>(transfer.bytes - done, kPeerChunkBytes);
    FARCALL_NCCL_TRY(sends ? SendChunk(comm, transfer, done, bytes, stream)
                           : ReceiveChunk(comm, transfer, done, bytes, stream));
  }
  return ncclSuccess;
}

// The streams of a group are one order on the first of them.
ncclResult_t JoinStreams(const std::vector<Transfer>& transfers, bool at_start) {
  CUstream first = transfers[0].stream;
  std::vector<CUstream> others;
  for (const Transfer& transfer : transfers)
    if (transfer.stream != first &&
        std::find(others.begin(), others.end(), transfer.stream) == others.end())
      others.push_back(transfer.stream);
  for (CUstream other : others) {
    CUevent event = nullptr;
    FARCALL_NCCL_CUDA(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    FARCALL_NCCL_CUDA(cuEventRecord, event, at_start ? other : first);
    FARCALL_NCCL_CUDA(cuStreamWaitEvent, at_start ? first : other, event, 0);
    FARCALL_NCCL_CUDA(cuEventDestroy_v2, event);
  }
  return ncclSuccess;
}

}  // namespace

ncclResult_t Transfers(Communicator& comm, const std::vector<Transfer>& transfers) {
  FARCALL_NCCL_TRY(JoinStreams(transfers, true));
  const std::vector<int> turns = Turns(transfers);
  const int last_turn = *std::max_element(turns.begin(), turns.end());
  uint64_t longest = 0;
  for (const Transfer& transfer : transfers) longest = std::max(longest, transfer.bytes);
  for (uint64_t done = 0; done < longest; done += kPeerChunkBytes) {
    for (int turn = 0; turn <= last_turn; ++turn)
      for (bool sends : {true, false})
        FARCALL_NCCL_TRY(TakeTurn(comm, transfers, turns, turn, sends, done));
  }
  return JoinStreams(transfers, false);
}

}  // namespace farcall::nccl
