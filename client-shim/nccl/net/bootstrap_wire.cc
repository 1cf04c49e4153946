// SPDX-License-Identifier: Apache-2.0
#include "client-shim/nccl/net/bootstrap_wire.h"

#include <sys/socket.h>
#include <sys/types.h>

#include <cerrno>

namespace farcall::nccl {

std::string Message(MessageKind kind, uint32_t round, const std::string& payload) {
  MessageHead head = {static_cast<uint32_t>(kind), round, static_cast<uint32_t>(payload.size())};
  return std::string(reinterpret_cast<const char*>(&head), sizeof(head)) + payload;
}

std::string JoinBlobs(const std::vector<std::string>& blobs) {
  std::string joined;
  for (const std::string& blob : blobs) {
    uint32_t bytes = static_cast<uint32_t>(blob.size());
    joined.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    joined += blob;
  }
  return joined;
}

bool SplitBlobs(const std::string& joined, size_t count, std::vector<std::string>* blobs) {
  blobs->clear();
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    uint32_t bytes = 0;
    if (joined.size() - at < sizeof(bytes)) return false;
    std::memcpy(&bytes, joined.data() + at, sizeof(bytes));
    at += sizeof(bytes);
    if (joined.size() - at < bytes) return false;
    blobs->push_back(joined.substr(at, bytes));
    at += bytes;
  }
  return at == joined.size();
}

bool SendAll(int socket, const void* bytes, size_t count) {
  for (size_t sent = 0; sent < count;) {
    ssize_t now = send(socket, static_cast<const char*>(bytes) + sent, count - sent, MSG_NOSIGNAL);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return false;
    sent += static_cast<size_t>(now);
  }
  return true;
}

bool SendAll(int socket, const std::string& bytes) {
  return SendAll(socket, bytes.data(), bytes.size());
}

bool ReceiveAll(int socket, void* into, size_t bytes) {
  for (size_t got = 0; got < bytes;) {
    ssize_t now = recv(socket, static_cast<char*>(into) + got, bytes - got, 0);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return false;
    got += static_cast<size_t>(now);
  }
  return true;
}

}  // namespace farcall::nccl
