// SPDX-License-Identifier: Apache-2.0
#include "client-shim/nccl/net/bootstrap.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "client-shim/nccl/base/error.h"
#include "client-shim/nccl/net/bootstrap_wire.h"
#include "client-shim/nccl/net/sockets.h"

namespace farcall::nccl {

Bootstrap::~Bootstrap() {
  SendAll(socket_, Message(MessageKind::kBye, 0, ""));
  close(socket_);
}

ncclResult_t Bootstrap::Join(const ncclUniqueId& unique_id, int rank, int ranks,
                             std::unique_ptr<Bootstrap>* joined) {
  MeetingId id;
  std::memcpy(&id, &unique_id, sizeof(id));
  if (std::memcmp(id.magic, kIdMagic, sizeof(id.magic)) != 0 || id.count > kMaxAddresses)
    return Fail(ncclInvalidArgument, "the unique id is none of ncclGetUniqueId of this library");
  Hello hello = {};
  std::memcpy(hello.secret, id.secret, kSecretBytes);
  hello.rank = static_cast<uint32_t>(rank);
  hello.ranks = static_cast<uint32_t>(ranks);
  std::string greeting = Message(MessageKind::kHello, 0,
                                 std::string(reinterpret_cast<const char*>(&hello), sizeof(hello)));
  if (int socket = ConnectAndSend(id, greeting); socket >= 0) {
    joined->reset(new Bootstrap(socket, ranks));
    return ncclSuccess;
  }
  return Fail(ncclSystemError, "rank %d cannot reach the process that made the unique id, port %u",
              rank, id.port);
}

ncclResult_t Bootstrap::AllGather(const std::string& mine, std::vector<std::string>* all) {
  const auto left = [this] {
    lost_ = true;
    return Fail(ncclRemoteError, "another rank of the communicator has gone");
  };
  if (lost_ || mine.size() > kMaxBlobBytes ||
      !SendAll(socket_, Message(MessageKind::kBlob, round_, mine)))
    return left();
  MessageHead head;
  if (!ReceiveAll(socket_, &head, sizeof(head))) return left();
  const size_t most = static_cast<size_t>(ranks_) * (kMaxBlobBytes + sizeof(uint32_t));
  if (head.kind != static_cast<uint32_t>(MessageKind::kAll) || head.round != round_ ||
      head.bytes > most)
    return left();
  std::string joined(head.bytes, '\0');
  if (!ReceiveAll(socket_, joined.data(), joined.size()) ||
      !SplitBlobs(joined, static_cast<size_t>(ranks_), all))
    return left();
  ++round_;
  return ncclSuccess;
}

bool Bootstrap::AllPresent() {
  char byte;
  ssize_t got = recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) lost_ = true;
  return !lost_;
}

}  // namespace farcall::nccl
