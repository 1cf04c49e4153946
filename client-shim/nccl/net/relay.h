// SPDX-License-Identifier: Apache-2.0
// Ranks whose device memory this rank's server cannot open: on another host, or in another vGPU.
//
// Each such pair has a TCP connection between its two clients. What would be a write into the other
// rank's region becomes a message, sent by a host function in stream order: a flag, and behind a
// flag that says "my slot is ready" the slot's bytes, copied to the host before. A thread of the
// receiver puts the bytes into a copy of the sender's slots on its own device and then raises the
// flag in its own region, so that the collectives themselves see no difference.
#pragma once

#include <cuda.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "client-shim/nccl/base/layout.h"
#include "client-shim/nccl/net/bootstrap.h"

namespace farcall::nccl {

// In one's own region: the flags that a rank raises there, in the order of Flag.
using FlagAddresses = std::array<CUdeviceptr, kFlags>;

class Relay {
 public:
  // Collective: connects each pair of which one cannot open the other's memory. In the current
  // context. `opened` stays null where this rank is in no such pair.
  //   Errors  ncclRemoteError (a rank left or does not connect), ncclUnhandledCudaError
  static ncclResult_t Open(Bootstrap& bootstrap, int rank, const std::vector<bool>& unreached,
                           const std::vector<FlagAddresses>& own_flags,
                           std::unique_ptr<Relay>* opened);
  // Nothing of the communicator's is under way any more.
  ~Relay();

  bool Reaches(int rank) const { return peers_[static_cast<size_t>(rank)] != nullptr; }
  // The copies, here, of that rank's slots: of collectives, and for what it sends to this rank.
  CUdeviceptr Slots(int of) const;
  CUdeviceptr PeerSlots(int of) const;

  // In stream order: raises a flag of this rank at `to`; with `bytes`, those of `slot` are there
  // before it.
  ncclResult_t Raise(CUstream stream, int to, Flag flag, uint32_t value, CUdeviceptr slot,
                     uint64_t bytes);

  // False once a connection has ended. Does not wait.
  bool AllPresent() const;
  // Ends all connections: what is to be sent is dropped, nobody waits for it.
  void Shutdown();

 private:
  class Peer;

  explicit Relay(size_t ranks);
  ncclResult_t Connect(int rank, const std::vector<std::string>& blobs,
                       const std::vector<bool>& linked, int listener, const uint8_t* secret,
                       std::vector<int>* sockets);

  std::vector<std::unique_ptr<Peer>> peers_;  // null: reached by the server
  std::byte* staged_ = nullptr;               // kSlots chunks, page-locked
  uint32_t staged_number_ = 0;                // the chunk that was copied there last
};

}  // namespace farcall::nccl
