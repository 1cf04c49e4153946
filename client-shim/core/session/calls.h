// SPDX-License-Identifier: Apache-2.0
// What hand-written calls use beside session_face.h: bodies in two parts, session messages,
// fixed-room bodies.
#pragma once

#include "client-shim/core/session/session.h"
#include "client-shim/core/session/thread_state.h"

namespace farcall::client {

// FARCALL_SYNC: every call waits.
void SetSync(bool sync);
bool IsSync();

// As RoundTrip; `tail` follows `head`, whose size is a multiple of 8, without being copied first.
CUresult RoundTripParts(CallId call, std::span<const std::byte> head,
                        std::span<const std::byte> tail, Reply* reply);

// A record made by hand: counted, made synchronous by FARCALL_SYNC. Late errors stay where they
// are.
CUresult PostRecord(const Record& record, const PostOptions& options = kPlainPost);

// As Post, for a body that stands behind `header` in memory; `bytes` counts both and is a multiple
// of 8.
//   `self`      the calling thread's, which has a context
//   `is_clear`  what the caller has just seen of g_all_clear
[[gnu::always_inline]] inline CUresult PostWhole(CallId call, const ThreadState& self,
                                                 RecordHeader* header, size_t bytes,
                                                 bool is_clear) {
  if (!is_clear) [[unlikely]]
    return Post(call, {reinterpret_cast<const std::byte*>(header + 1), bytes - sizeof(*header)});
  header->bytes = static_cast<uint32_t>(bytes);
  header->call = static_cast<uint16_t>(call);
  header->flags = 0;
  header->thread = self.slot;
  header->context = self.current->slot;
  g_session.load(std::memory_order_relaxed)->PostWhole(header);  // of several, none is all clear
  return TakeLateError(self.current);
}

// A record made by hand, waited for and counted. Late errors stay where they are.
CUresult AskRecord(const Record& record, Reply* reply);

// A question of the session's own, on behalf of `context` (0 = none). Late errors stay where they
// are.
CUresult AskSession(SessionCall call, uint16_t context, std::span<const std::byte> body,
                    Reply* reply);
// A message of the session's own.
CUresult TellSession(SessionCall call, uint16_t context, std::span<const std::byte> body);

// A body of fixed fields on the stack.
template <size_t kBytes>
class FixedBody : public Writer {
 public:
  FixedBody() : Writer(std::span<std::byte>(room_, kBytes)) {}
  std::span<const std::byte> bytes() const { return {room_, size_bytes()}; }
  std::span<const std::byte> padded() {
    size_t used = size_bytes(), end = AlignUp(used, 8);
    std::memset(room_ + used, 0, end - used);
    return {room_, end};
  }

 private:
  alignas(8) std::byte room_[AlignUp(kBytes, 8)];
};

}  // namespace farcall::client
