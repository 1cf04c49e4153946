// SPDX-License-Identifier: Apache-2.0
// The messages about a session's life: its start, its connections, its end and its final report.
#pragma once

#include <cstddef>
#include <span>

#include "proto/handshake/exchange_keys.h"
#include "server/control/field.h"
#include "server/control/message.h"

namespace farcall::server::control {

template <>
struct FieldCodec<SecretKey> {
  static constexpr size_t kMaxBytes = sizeof(SecretKey);
  static void Put(Writer& out, const SecretKey& key) {
    for (uint8_t byte : key.bytes()) out.Put(byte);
  }
  static void Get(Reader& in, SecretKey* key) {
    for (uint8_t& byte : key->bytes()) byte = in.Get<uint8_t>();
  }
};

// What goes on with a connection beside its socket (Channel::HandOver): the keys of TLS.
using ChannelState = Text<256>;
inline ChannelState ToChannelState(std::span<const std::byte> bytes) {
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// ---- supervisor -> worker

// The first message. Carries the client's socket, a WorkerSetup (worker_setup.h), and the tenant's
// folders that it names: images, compiled kernels.
struct Setup {
  static constexpr Type kType = Type::kSetup;
  static constexpr Direction kDirection = Direction::kToWorker;
  static constexpr Carries kCarries = Carries::kSessionStart;
  static auto Fields(auto&) { return std::tie(); }
};

// Carries a new log connection.
struct Resume {
  static constexpr Type kType = Type::kResume;
  static constexpr Direction kDirection = Direction::kToWorker;
  static constexpr Carries kCarries = Carries::kSocket;
  uint64_t received_seq = 0, received_chunks = 0;  // what the client has received
  AnswerKey answer{};                              // for its WELCOME
  ChannelState state{};
  static auto Fields(auto& self) {
    return std::tie(self.received_seq, self.received_chunks, self.answer.credential,
                    self.answer.key, self.state);
  }
};

// Carries the connection of a lane.
struct Lane {
  static constexpr Type kType = Type::kLane;
  static constexpr Direction kDirection = Direction::kToWorker;
  static constexpr Carries kCarries = Carries::kSocket;
  uint32_t lane = 0;
  AnswerKey answer{};  // for its WELCOME
  ChannelState state{};
  static auto Fields(auto& self) {
    return std::tie(self.lane, self.answer.credential, self.answer.key, self.state);
  }
};

struct Stop {
  static constexpr Type kType = Type::kStop;
  static constexpr Direction kDirection = Direction::kToWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  Reason why{};
  static auto Fields(auto& self) { return std::tie(self.why); }
};

// The client's process ran on this host and has ended, so it will not reconnect.
struct ClientGone {
  static constexpr Type kType = Type::kClientGone;
  static constexpr Direction kDirection = Direction::kToWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  static auto Fields(auto&) { return std::tie(); }
};

// A process of the vGPU that holds some of the device's memory.
struct ProcessEntry {
  uint32_t pid = 0;
  uint64_t bytes = 0;
  static auto Fields(auto& self) { return std::tie(self.pid, self.bytes); }
  bool operator==(const ProcessEntry&) const = default;
};

struct Processes {
  static constexpr Type kType = Type::kProcesses;
  static constexpr Direction kDirection = Direction::kToWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  uint64_t id = 0;
  uint64_t total = 0;              // of all processes, listed here or not
  List<ProcessEntry, 128> some{};  // those after the known ones
  static auto Fields(auto& self) { return std::tie(self.id, self.total, self.some); }
};

// ---- worker -> supervisor

struct AskProcesses {
  using Reply = Processes;
  static constexpr Type kType = Type::kAskProcesses;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  uint64_t id = 0;
  int32_t device = 0;
  uint64_t known = 0;  // how many entries the worker already has
  static auto Fields(auto& self) { return std::tie(self.id, self.device, self.known); }
  bool IsValid() const { return id != 0 && IsDevice(device); }
};

// The peak memory use of the program. Sent before Ended.
struct Peak {
  static constexpr Type kType = Type::kPeak;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  int32_t device = 0;
  uint64_t bytes = 0;
  static auto Fields(auto& self) { return std::tie(self.device, self.bytes); }
  bool IsValid() const { return IsDevice(device); }
};

// Counts the skipped launches of a kernel. Sent before Ended.
struct Skipped {
  static constexpr Type kType = Type::kSkipped;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  Name kernel{};
  uint64_t launches = 0;
  static auto Fields(auto& self) { return std::tie(self.kernel, self.launches); }
};

// The last message.
struct Ended {
  static constexpr Type kType = Type::kEnded;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  Reason why{};
  uint64_t received_bytes = 0, sent_bytes = 0;
  static auto Fields(auto& self) {
    return std::tie(self.why, self.received_bytes, self.sent_bytes);
  }
};

}  // namespace farcall::server::control
