// SPDX-License-Identifier: Apache-2.0
// The blocking helpers on top of any transport.
#include "transport/channel.h"

namespace farcall {

Status SendAll(Channel& channel, std::span<const std::byte> bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    Result<size_t> sent = channel.TrySend({&bytes, 1});
    if (!sent.ok()) return sent.status();
    bytes = bytes.subspan(*sent);
    if (*sent == 0 && !channel.WaitWritable(deadline)) {
      return {Code::kTimeout, channel.PeerName() + ": takes no bytes, " +
                                  std::to_string(bytes.size()) + " left to send"};
    }
  }
  for (;;) {
    Result<bool> flushed = channel.Flush();
    if (!flushed.ok()) return flushed.status();
    if (*flushed) return {};
    if (!channel.WaitWritable(deadline))
      return {Code::kTimeout, channel.PeerName() + ": takes no bytes"};
  }
}

Status ReceiveAll(Channel& channel, std::span<std::byte> into, Clock::time_point deadline) {
  while (!into.empty()) {
    Result<size_t> got = channel.TryReceive(into);
    if (!got.ok()) return got.status();
    into = into.subspan(*got);
    if (*got == 0 && !channel.WaitReadable(deadline)) {
      return {Code::kTimeout, channel.PeerName() + ": sends nothing, " +
                                  std::to_string(into.size()) + " bytes expected"};
    }
  }
  return {};
}

}  // namespace farcall
