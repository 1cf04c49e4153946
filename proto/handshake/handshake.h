// SPDX-License-Identifier: Apache-2.0
// What is said before the log begins: GREETING (server speaks first), HELLO, then WELCOME or
// REFUSE; of a pool REDIRECT. Their fields only: server_exchange.h and client_exchange.h make and
// check the packets that carry them. Prose in docs/reference/wire.md.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "proto/handshake/crypto.h"
#include "proto/status.h"
#include "proto/wire.h"

namespace farcall {

inline constexpr uint32_t kHandshakeMagic = 0x31484346;  // "FCH1"
inline constexpr size_t kMaxHelloBytes = 64u << 10;
inline constexpr size_t kMaxWelcomeBytes = 4u << 20;
// What an honest peer stays below; a packet with more cannot be read.
inline constexpr size_t kMaxNameBytes = 255;        // of a host, a user, a vGPU, a claim, a device
inline constexpr size_t kMaxPathBytes = 4096;       // of a program, a URL
inline constexpr size_t kMaxVariableBytes = 4096;   // of a forwarded variable's value
inline constexpr size_t kMaxLeaseTextBytes = 8192;  // lease_token.h has less
inline constexpr size_t kMaxRefusalBytes = 2048;

using Nonce = std::array<uint8_t, 32>;
using SessionId = std::array<uint8_t, 16>;
using SessionKey = SecretKey;  // of client and supervisor: made by both, never sent

inline constexpr size_t kMaxCredentials = 16;
inline constexpr uint32_t kMaxLanes = 8;

// Every handshake packet: this, then `bytes` of body in codec.h's layout.
struct HandshakeHeader {
  uint32_t magic = kHandshakeMagic;
  uint32_t bytes = 0;
  uint16_t type = 0;  // HandshakeType
  uint16_t major = kWireMajor;
  uint16_t minor = kWireMinor;
  uint16_t reserved = 0;
};
static_assert(sizeof(HandshakeHeader) == 16);

enum class HandshakeType : uint16_t {
  kGreeting = 1,
  kHello = 2,
  kWelcome = 3,
  kRefuse = 4,
  kRedirect = 5,
};
enum class LinkRole : uint8_t { kLog = 0, kLane = 1 };

// How the bytes of a session may travel: bits of `transports`. Unknown ones are passed over.
enum class TransportKind : uint8_t { kTcp = 0 };
inline constexpr uint64_t TransportBit(TransportKind kind) {
  return uint64_t{1} << static_cast<uint8_t>(kind);
}
inline constexpr uint64_t kBuiltTransports = TransportBit(TransportKind::kTcp);

struct Greeting {
  Nonce nonce{};
  KeyShare share{};  // of this connection only
  bool needs_token = false;
  uint64_t features = 0;  // proto/handshake/session_features.h, as far as they matter before HELLO
  uint64_t transports = kBuiltTransports;  // that the server offers
  std::string server_version;
};

// By what a client says who it is. Of each kind a HELLO may name several; the proofs stand behind
// HELLO's fields, in the same order. Unknown kinds are passed over.
enum class CredentialKind : uint8_t {
  kToken = 1,    // id: TokenId; proof: Ed25519 signature
  kSession = 2,  // id: none (`session` names it); proof: HMAC-SHA-256 by the session's key
};
struct Credential {
  CredentialKind kind = CredentialKind::kToken;
  std::vector<uint8_t> id;
};

// What a vGPU is asked to be. 0 = not asked. The server's policy sets the ceiling.
struct QuotaRequest {
  uint64_t memory_bytes = 0;
  uint32_t share_milli = 0;
  uint32_t limit_milli = 0;
  uint8_t priority = 0;          // 0 normal, 1 high, 2 low
  uint64_t net_bytes_per_s = 0;  // both directions together
};

struct Hello {
  LinkRole role = LinkRole::kLog;
  uint32_t lane = 0;             // kLane: which
  SessionId session{};           // zero = a new session; else resume it (kLog) or join it (kLane)
  uint64_t received_seq = 0;     // resume: highest frame seq the client has
  uint64_t received_chunks = 0;  // resume: contiguous prefix of chunks the client has
  std::vector<Credential> credentials;
  uint64_t transports = kBuiltTransports;  // that the client can use
  std::string vgpu;  // vGPU token shared by the processes of one `farcall run`; "" = one of its own
  QuotaRequest quota;
  uint32_t pid = 0;
  std::string user, host, program, client_version;
  std::vector<std::pair<std::string, std::string>> environment;  // whitelisted names only
  std::vector<Window> device_windows;  // offers, reserved by the client, best first
  std::vector<Window> host_windows;
  uint32_t shim_driver_version = 0;  // newest CUDA version the shim knows
  uint64_t features = 0;             // proto/handshake/session_features.h
  uint32_t devices = 0;              // to a pool: how many are asked for; 0 = one
  std::string claim;                 // to a pool: the claim to use; "" = one of the vGPU's own
  std::string lease;                 // to a host of a pool: what the pool's REDIRECT gave
};

// What a device can do with another of its server.
inline constexpr uint8_t kPeerAccess = 1;   // cuDeviceCanAccessPeer
inline constexpr uint8_t kPeerAtomics = 2;  // CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED

struct DeviceSnapshot {
  std::string name;
  std::array<uint8_t, 16> uuid{};
  uint64_t total_bytes = 0;  // as the tenant's quota shows it
  std::string pci_bus_id;
  std::vector<int32_t> attributes;  // [id] = value, index 0 unused
  std::vector<uint64_t> limits;     // [CUlimit] = value at context creation
  int32_t least_priority = 0, greatest_priority = 0;
  uint64_t granularity_bytes = kChunkGranularityBytes;
  bool has_vmm = true;
  std::vector<uint8_t> peer_access;  // [other device] = kPeer...
};

struct Welcome {
  SessionId session{};
  uint64_t received_seq = 0;  // resume: what the server has
  uint64_t received_chunks = 0;
  int32_t device_window = -1;  // which offer was taken; -1 = none: cuMemAlloc is a round trip
  int32_t host_window = -1;
  uint32_t driver_version = 0;  // of the server's libcuda
  uint32_t lanes = 0;           // how many bulk lanes the client may open, kMaxLanes at most
  uint32_t grace_ms = 60000;
  uint32_t heartbeat_ms = 1000;
  std::string server_version, server_host, device_kind;  // device_kind: "cuda", "cpu", "dry"
  std::vector<uint8_t> supported_calls;                  // bitmap by CallId
  std::vector<uint64_t>
      known_images;  // first 8 bytes (LE) of the hashes of images this tenant may load by hash
  std::vector<DeviceSnapshot> devices;
  uint64_t features = 0;            // proto/handshake/session_features.h
  uint64_t transport = 0;           // TransportKind that was taken of those that both offer
  std::vector<uint64_t> libraries;  // proto/library/library_inventory.h
  Window first_credit;   // of device 0, granted ahead of need; kFirstCredit of `features` says that
                         // it is there, `bytes` 0 that nothing was granted
  std::string shm_path;  // the server's socket for shared memory; with kSharedMemory of `features`
};

struct Refuse {
  Code code = Code::kRefused;
  std::string message;  // one line, shown to the user as it is
};

// A pool's answer to HELLO: where to go, and what to show there.
struct Redirect {
  std::vector<std::string> endpoints;  // best first
  std::string lease;                   // opaque to the client; opens one session, soon
  std::string claim;                   // for people
};

std::vector<std::byte> Encode(const Greeting& value);
std::vector<std::byte> Encode(const Hello& value);
std::vector<std::byte> Encode(const Welcome& value);
std::vector<std::byte> Encode(const Refuse& value);
std::vector<std::byte> Encode(const Redirect& value);
// Decode a body (without HandshakeHeader). Counts and sizes are checked against what is left;
// kMalformed otherwise.
Result<Greeting> DecodeGreeting(std::span<const std::byte> body);
Result<Hello> DecodeHello(std::span<const std::byte> body);
Result<Welcome> DecodeWelcome(std::span<const std::byte> body);
Result<Refuse> DecodeRefuse(std::span<const std::byte> body);
Result<Redirect> DecodeRedirect(std::span<const std::byte> body);

// A HELLO that would break a bound of its receiver.   Errors  kInvalid, one line
Status CheckHello(const Hello& hello);

// Of a packet's first bytes: how long the packet is, header included.
//   `peer`, `self`  "server" and "client", or the reverse
//   Errors  kMalformed (no handshake, out of turn, too large), kUnsupported (another wire major:
//           a server says so by REFUSE)
Result<size_t> PacketBytes(std::span<const std::byte, sizeof(HandshakeHeader)> header,
                           std::initializer_list<HandshakeType> expected, const char* peer,
                           const char* self);
// A body with its header.   Errors  kInternal (larger than its receiver takes)
Result<std::vector<std::byte>> MakePacket(HandshakeType type, std::span<const std::byte> body);
// The type of a packet, and its body: none if it is shorter than a header.
HandshakeType TypeOf(std::span<const std::byte> packet);
inline std::span<const std::byte> BodyOf(std::span<const std::byte> packet) {
  return packet.subspan(std::min(packet.size(), sizeof(HandshakeHeader)));
}
size_t MaxBodyBytes(HandshakeType type);

}  // namespace farcall
