// SPDX-License-Identifier: Apache-2.0
// What supervisor and worker say to each other over a socketpair: fixed messages, descriptors
// beside them.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "proto/status.h"

namespace farcall::server {

enum class ControlType : uint32_t {
  kNone = 0,
  // supervisor -> worker
  kSetup,         // descriptors: the client's socket, a memfd with WorkerSetup
  kResume,        // descriptor: a new log connection; a = received_seq, b = received_chunks; c and
                  // `text`: the key of its WELCOME (worker_setup.h)
  kLane,          // descriptor: a lane's connection; a = lane; c and `text` as above
  kChargeReply,   // id; a = 1 granted; b = charged, c = quota after it
  kUsage,         // id; a = credit others have not spent, b = charged, c = quota
  kProcesses,     // id; a = how many there are in all, b = how many of them in `text`
  kStop,          // text = why
  kClientGone,    // the client's process, on this host, has ended: it will not come back
  kRecallCredit,  // device, a = bytes: others need them
  kShareReply,    // id; a = 1 done; b, c = the token
  kRedeemReply,   // id; a = 1 done; device, b = bytes; descriptor
  kSharing,       // devices are shared by leases from now on
  kLease,         // device, a = nanoseconds of its time that may be submitted; b = quota::Company
  kLeaseMore,     // device, a = the same, for who holds the lease; nobody waits
  kLeaseLimit,    // device, a = how much more of the lease there is; b = quota::Company
  kNetLimit,      // a = 1: the vGPU has a network budget, its bytes are to be asked for; 0: none
  kNetBytes,      // a = bytes that may cross the session's connections
  kSwapOut,       // its memory leaves the device; a = nanoseconds its work has to end
  kSwapIn,        // and comes back; a = 1: host memory that it lay in is kept for the next time
  // worker -> supervisor
  kCharge,        // id, device (-1: host memory), a = bytes
  kRefund,        // device (-1: host memory), a = bytes
  kAskUsage,      // id, device
  kAskProcesses,  // id, device, a = how many of the list the worker has already
  kUnspent,       // device, a = credit nothing lies in: the vGPU's others may count on it
  kPeak,          // device, a = the most bytes its program had in use at once; before kEnded
  kSkipped,       // text = a kernel's name, a = its launches that were left out; before kEnded
  kEnded,         // text = why the session ended; a = bytes received, b = bytes sent
  kShare,         // id, device, a = bytes charged for it; descriptor: to be shared inside the vGPU
  kRedeem,        // id; b, c = a token
  kDrop,          // b, c = a token this worker holds
  kWantLease,     // device, a = what the first piece of work takes at most by the clock, as far as
                  // known; b = what device time takes by the clock, in thousandths of itself
  kLeaseUse,   // device, a = device time used, b = left of the lease, c = outstanding, by the clock
  kLeaseRuns,  // device, a = device time used by what still runs, since the last word of it
  kLeaseDone,  // device, a = 1: it wants the next; b, c: as a, b of kWantLease
  kWantNetBytes,  // it has none left
  kNetUse,        // a = bytes received, b = bytes sent, c = nanoseconds waited for bytes, so far
  kIdle,          // a = 1: nothing of its on any device since a while, 0: it works again
  kWantIn,        // a record waits for its memory
  kMoved,         // device, a = bytes of it that are out now; before kSwapDone
  kSwapDone,      // a = a SwapOutcome, b = nanoseconds it took, c = bytes that moved
  kDeviceFull,    // device, a = bytes that the device refused though there was to be room
  kProbe,         // a probe's answer: a memfd with its report; text = why there is none
  // supervisor -> the process that asks NVML, and its answers
  kAskProcessMemory,  // id
  kProcessMemory,     // device, a = a pid, b = its bytes there; the last of an answer: id, c = 1,
                      // text = why some are not known, empty: all are
  // farcall-control -> supervisor
  kAskStatus,  // id
  kSetQuota,   // id, text = the vGPU's id; a, b, c: QuotaChange
  kPark,       // id, text = the vGPU's id: its memory leaves the device; answer: kSetQuotaReply
  // a pool's agent -> supervisor
  kPoolBeat,    // id: it is about to report to the pool
  kPoolAnswer,  // id = of the report it answers; descriptor: a memfd with PoolAnswer as JSON
  // supervisor -> farcall-control
  kStatus,         // id; descriptor: a memfd with control.proto's ServerStatus as JSON
  kSetQuotaReply,  // id; a = a ChangeOutcome, text = why not
  // supervisor -> a pool's agent
  kPoolReport,   // id; descriptor: a memfd with pool.proto's HostReport as JSON
  kPoolChanged,  // there is something to report: beat at once
};

struct ControlMessage {
  ControlType type = ControlType::kNone;
  int32_t device = 0;
  uint64_t id = 0;
  uint64_t a = 0, b = 0, c = 0;
  char text[240] = {};

  void SetText(std::string_view value);
  std::string_view Text() const;
};
static_assert(sizeof(ControlMessage) == 280);

// What a vGPU's quota becomes; kUnchanged: what it was.
struct QuotaChange {
  static constexpr uint64_t kUnchanged = ~0ull;
  static constexpr uint64_t kNetUnchanged = (1ull << 56) - 1;  // it has 56 bits of a message
  uint64_t memory_bytes = kUnchanged;                          // on each device
  uint32_t share_milli = ~0u, limit_milli = ~0u;
  uint8_t priority = 0xFF;                   // as QuotaRequest has it
  uint64_t net_bytes_per_s = kNetUnchanged;  // 0: the server's ceiling

  bool ChangesCompute() const {
    return share_milli != ~0u || limit_milli != ~0u || priority != 0xFF;
  }
  void PutInto(ControlMessage* message) const {
    message->a = memory_bytes;
    message->b = static_cast<uint64_t>(limit_milli) << 32 | share_milli;
    message->c = net_bytes_per_s << 8 | priority;
  }
  static QuotaChange Of(const ControlMessage& message) {
    return {message.a, static_cast<uint32_t>(message.b), static_cast<uint32_t>(message.b >> 32),
            static_cast<uint8_t>(message.c), message.c >> 8};
  }
};
// How kSwapOut and kSwapIn ended: kStayed: its work did not end in time, or nothing could be
// copied; kNoRoom: the device refused.
enum class SwapOutcome : uint64_t { kOut, kStayed, kIn, kNoRoom };
enum class ChangeOutcome : uint64_t { kDone, kNoSuchVgpu, kInvalid, kRefused };

// An entry of kProcesses, packed into `text`.
struct ControlProcess {
  uint64_t pid = 0;
  uint64_t bytes = 0;
};
inline constexpr size_t kProcessesPerMessage =
    sizeof(ControlMessage::text) / sizeof(ControlProcess);

// Sends one message. Never blocks: a peer that does not read is an error.
//   Errors  kDisconnected, kUnavailable (its queue is full)
Status SendControl(int fd, const ControlMessage& message,
                   std::initializer_list<int> descriptors = {});
// A worker's: waits for room. Its supervisor always reads and never waits, and what is said here
// (charges, refunds, times) must not be lost.
//   Errors  kDisconnected
Status SendToSupervisor(int fd, const ControlMessage& message,
                        std::initializer_list<int> descriptors = {});
// Receives one message and its descriptors (the caller's to close). Blocks unless the socket is
// non-blocking.
//   Errors  kDisconnected (end), kTimeout (nothing there), kMalformed
Status ReceiveControl(int fd, ControlMessage* message, std::vector<int>* descriptors);

// The descriptors that a message came with, which are the caller's now.
std::vector<int> ReceivedDescriptors(msghdr* header);

// A memory file with `bytes`, sealed: its receiver may read it at leisure. -1 on failure.
int MakeMemoryFile(const char* name, const std::vector<std::byte>& bytes);
// The content of such a file.   Errors  kMalformed (not sealed, no memory file, or above `limit`)
Result<std::vector<std::byte>> ReadMemoryFile(int fd, size_t limit);

}  // namespace farcall::server
