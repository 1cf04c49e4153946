// SPDX-License-Identifier: Apache-2.0
// The bytes of the meeting point: the unique id, messages, sockets.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "client-shim/nccl/base/api.h"

namespace farcall::nccl {

inline constexpr char kIdMagic[8] = {'F', 'A', 'R', 'C', 'A', 'L', 'L', '1'};
inline constexpr size_t kSecretBytes = 16;
inline constexpr int kMaxAddresses = 5;

struct MeetingAddress {
  uint8_t family;  // AF_INET, AF_INET6
  uint8_t bytes[16];
};

struct MeetingId {
  char magic[8];
  uint8_t secret[kSecretBytes];
  uint16_t port;  // host order: both ends are x86-64 or aarch64
  uint8_t count, reserved;
  MeetingAddress addresses[kMaxAddresses];
};
static_assert(sizeof(MeetingId) <= sizeof(ncclUniqueId));

enum class MessageKind : uint32_t { kHello = 1, kBlob = 2, kBye = 3, kAll = 4 };

struct MessageHead {
  uint32_t kind, round, bytes;
};

// The payload of kHello.
struct Hello {
  uint8_t secret[kSecretBytes];
  uint32_t rank, ranks;
};

std::string Message(MessageKind kind, uint32_t round, const std::string& payload);
// Each with its length before it.
std::string JoinBlobs(const std::vector<std::string>& blobs);
// False: they are not `count` blobs.
bool SplitBlobs(const std::string& joined, size_t count, std::vector<std::string>* blobs);

// Blocking, whole or not at all. EINTR is retried, SIGPIPE is not raised.
bool SendAll(int socket, const void* bytes, size_t count);
bool SendAll(int socket, const std::string& bytes);
bool ReceiveAll(int socket, void* into, size_t bytes);

}  // namespace farcall::nccl
