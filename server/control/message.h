// SPDX-License-Identifier: Apache-2.0
// The traits of a control message: its type, its direction and the descriptors it may carry. Each
// message is a small struct (lease.h, charge.h ...) that states these and lists its fields in the
// order in which they are encoded. messages.h lists the messages of each direction.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

namespace farcall::server::control {

// The first two bytes of a message. The high byte marks a control message, the low byte is the
// version. The supervisor and its processes come from one release and refuse any other version.
inline constexpr uint16_t kVersion = 0xFC01;
inline constexpr size_t kHeaderBytes = 2 * sizeof(uint16_t);  // version, type
inline constexpr size_t kMaxMessageBytes = 4096;

enum class Type : uint16_t {
  // lease.h
  kSharing = 1,
  kLease,
  kLeaseMore,
  kLeaseLimit,
  kWantLease,
  kLeaseUse,
  kLeaseRuns,
  kLeaseDone,
  // charge.h
  kCharge,
  kChargeReply,
  kRefund,
  kAskUsage,
  kUsage,
  kUnspent,
  kRecallCredit,
  // swap.h
  kSwapOut,
  kSwapIn,
  kIdle,
  kWantIn,
  kMoved,
  kSwapDone,
  kDeviceFull,
  // share.h
  kShare,
  kShareReply,
  kRedeem,
  kRedeemReply,
  kDrop,
  // net.h
  kNetLimit,
  kNetBytes,
  kWantNetBytes,
  kNetUse,
  // session.h
  kSetup,
  kResume,
  kLane,
  kStop,
  kClientGone,
  kAskProcesses,
  kProcesses,
  kPeak,
  kSkipped,
  kEnded,
  // pool.h
  kPoolBeat,
  kPoolAnswer,
  kPoolReport,
  kPoolChanged,
  // control_plane.h
  kAskStatus,
  kServerStatus,
  kSetQuota,
  kPark,
  kQuotaReply,
  // process_memory.h
  kAskProcessMemory,
  kProcessMemory,
  kProcessMemoryEnd,
  // probe.h
  kProbeReport,
  // image.h
  kKeepImage,
  kImageRead,
  // tls.h
  kTlsReady,
  kTlsConnected,
  kTlsWarning,
};
inline constexpr Type kLastType = Type::kTlsWarning;

// From the supervisor to one of its processes, or from that process to the supervisor.
enum class Direction : uint8_t {
  kToWorker,
  kFromWorker,
  kFromProbe,
  kToProcessMemory,  // the process that asks NVML
  kFromProcessMemory,
  kToControlPlane,  // farcall-control
  kFromControlPlane,
  kToPoolAgent,
  kFromPoolAgent,
  kFromTlsGateway,
};

// The descriptors that a message may carry. Fewer may arrive: a receiver that is out of
// descriptors gets none.
enum class Carries : uint8_t {
  kNothing,
  kMemory,        // one: memory without a name, a dma-buf, or one of NVIDIA's devices
  kMemoryFile,    // one (memory_file.h)
  kSocket,        // one: a connection with a client
  kSessionStart,  // a connection with a client, a memory file, and up to two folders
};

constexpr size_t MaxDescriptors(Carries carries) {
  switch (carries) {
    case Carries::kNothing:
      return 0;
    case Carries::kMemory:
    case Carries::kMemoryFile:
    case Carries::kSocket:
      return 1;
    case Carries::kSessionStart:
      return 4;
  }
  return 0;
}

template <typename M>
concept Message = std::default_initializable<M> && requires(M& message) {
  { M::kType } -> std::same_as<const Type&>;
  { M::kDirection } -> std::same_as<const Direction&>;
  { M::kCarries } -> std::same_as<const Carries&>;
  M::Fields(message);  // a tuple of references
};

// A worker numbers its session's devices, the supervisor the server's.
inline constexpr int32_t kHostMemory = -1;  // in the place of a device
inline constexpr int32_t kMaxDevices = 1024;
constexpr bool IsDevice(int32_t device) {
  return device >= 0 && device < kMaxDevices;
}

template <typename M>
concept NamesDevice = requires(M& message) {
  { message.device } -> std::same_as<int32_t&>;
};

// Replaces the message's device by map(device), if it names one.
template <Message M, typename Map>
void MapDevice(M* message, Map&& map) {
  if constexpr (NamesDevice<M>) message->device = map(message->device);
}
template <Message... Ms, typename Map>
void MapDevice(std::variant<Ms...>* message, Map&& map) {
  std::visit([&](auto& each) { MapDevice(&each, map); }, *message);
}

template <Message... Ms>
Carries CarriesOf(const std::variant<Ms...>& message) {
  return std::visit([](const auto& each) { return each.kCarries; }, message);
}
template <Message... Ms>
Type TypeOf(const std::variant<Ms...>& message) {
  return std::visit([](const auto& each) { return each.kType; }, message);
}

// Makes one visitor for std::visit of a function per message.
template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace farcall::server::control
