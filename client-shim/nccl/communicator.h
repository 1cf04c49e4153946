// SPDX-License-Identifier: Apache-2.0
// One rank of a communicator: its device memory that the other ranks read, the flags they set in
// it, and the order of its operations.
//
// A region lies on each rank's device: flags, slots of the collectives, slots for each peer. What
// is sent is copied into a slot of one's own region; a flag in every reader's region says that it
// is there; readers copy or reduce from it, and say in the sender's region that the slot is free.
// Flags are written and waited for in stream order, so a collective is posts to the streams, and no
// thread waits. A flag holds the number of the last chunk; numbers wrap. Ranks whose region cannot
// be opened are reached through the clients (relay.h).
#pragma once

#include <cuda.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client-shim/nccl/base/api.h"
#include "client-shim/nccl/base/kernels.h"
#include "client-shim/nccl/base/layout.h"
#include "client-shim/nccl/net/bootstrap.h"
#include "client-shim/nccl/net/relay.h"

namespace farcall::nccl {

class Communicator {
 public:
  // In the calling thread's current context. Collective.
  static ncclResult_t Create(const ncclUniqueId& id, int rank, int ranks,
                             std::unique_ptr<Communicator>* created);
  ~Communicator();

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int device() const { return device_; }
  CUcontext context() const { return context_; }
  Kernels& kernels() { return kernels_; }
  Bootstrap& bootstrap() { return *bootstrap_; }
  std::mutex& mutex() { return mutex_; }

  // Addresses: of rank `of`'s slots, valid in this process.
  CUdeviceptr Slot(int of, uint32_t chunk) const;
  CUdeviceptr PeerSlot(int from, int to, uint32_t chunk) const;

  // The next operation's place: behind the last one, whatever stream that was on.
  // Whether a collective may begin on the stream.
  ncclResult_t CheckUsable(CUstream stream) const;
  ncclResult_t Begin(CUstream stream);
  ncclResult_t End(CUstream stream);

  // Flags, in stream order. Raise sets the flag of this rank in `at`'s region, Await waits for the
  // one of `from` in ours. `bytes`: how much of the slot that the flag tells of rank `at` reads.
  ncclResult_t Raise(CUstream stream, Flag flag, int at, uint32_t value, uint64_t bytes = 0);
  ncclResult_t Await(CUstream stream, Flag flag, int from, uint32_t value);

  // Numbers of the chunk that comes next.
  uint32_t& chunk() { return chunk_; }
  uint32_t& sent(int to) { return sent_[to]; }
  uint32_t& received(int from) { return received_[from]; }

  // A factor in device memory for ncclRedOpCreatePreMulSum; lives as long as the communicator.
  // `bytes` up to 8.
  ncclResult_t KeepScalar(const void* value, size_t bytes, CUdeviceptr* address);

  // Waits for this rank's work; with `together` also for the other ranks', whose memory this is.
  ncclResult_t Quiesce(bool together);
  // Lets what waits for other ranks go on with whatever is there: for a communicator that is given
  // up.
  void Abort();
  ncclResult_t AsyncError();

 private:
  Communicator(int rank, int ranks) : rank_(rank), ranks_(ranks) {}
  ncclResult_t OpenRegion();
  std::string Describe();
  ncclResult_t OpenPeers(const std::vector<std::string>& described);
  bool Relayed(int rank) const { return relay_ != nullptr && relay_->Reaches(rank); }
  CUdeviceptr FlagAddress(int region, Flag flag, int of) const;
  size_t FlagBytes() const;
  size_t RegionBytes() const;

  struct Peer {
    CUdeviceptr region = 0;
    bool opened = false;  // by its IPC handle
  };

  const int rank_, ranks_;
  int device_ = 0;
  CUcontext context_ = nullptr;
  bool aborted_ = false, left_ = false;
  std::mutex mutex_;
  std::unique_ptr<Bootstrap> bootstrap_;
  Kernels kernels_;
  CUdeviceptr region_ = 0;
  std::vector<Peer> peers_;
  std::unique_ptr<Relay> relay_;  // null: every rank's region is open
  std::vector<CUdeviceptr> scalars_;
  CUevent last_ = nullptr;
  bool has_last_ = false;
  CUstream last_stream_ = nullptr;
  uint32_t chunk_ = 1;  // the first raises a flag above the 0 it starts with
  std::vector<uint32_t> sent_, received_;
};

}  // namespace farcall::nccl
