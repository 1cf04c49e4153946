// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes control messages with the wire's codec: version, type, fields. Decoding
// yields exactly one message of the sender's direction, or kMalformed.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <variant>

#include "proto/codec.h"
#include "proto/status.h"
#include "server/control/field.h"
#include "server/control/message.h"

namespace farcall::server::control {

template <Message M>
inline constexpr size_t kMaxBytesOf = kHeaderBytes + kMaxFieldBytes<M>;

template <Message M>
class Encoded {
 public:
  explicit Encoded(const M& message) {
    static_assert(kMaxBytesOf<M> <= kMaxMessageBytes);
    Writer out(room_);
    out.Put(kVersion);
    out.Put(static_cast<uint16_t>(M::kType));
    PutFields(out, message);
    size_ = out.ok() ? out.size_bytes() : 0;  // 0: a list exceeds its bound; it is not sent
  }
  std::span<const std::byte> bytes() const { return std::span(room_).first(size_); }

 private:
  std::array<std::byte, kMaxBytesOf<M>> room_;
  size_t size_ = 0;
};

// Returns false if the type is not that of M. Otherwise `*fits` says whether the fields are valid.
template <Message M, typename Variant>
bool DecodeIfTyped(uint16_t type, Reader& in, Variant* message, bool* fits) {
  if (type != static_cast<uint16_t>(M::kType)) return false;
  M read;
  GetFields(in, &read);
  *fits = in.Done() && in.remaining_bytes() == 0;
  if constexpr (requires { read.IsValid(); }) *fits = *fits && read.IsValid();
  if (*fits) *message = std::move(read);
  return true;
}

//   Errors  kMalformed; `*message` is as it was
template <Message... Ms>
Status Decode(std::span<const std::byte> bytes, std::variant<Ms...>* message) {
  Reader in(bytes);
  const auto version = in.Get<uint16_t>(), type = in.Get<uint16_t>();
  if (!in.ok()) return {Code::kMalformed, "no control message"};
  if (version != kVersion)
    return {Code::kMalformed, "version " + std::to_string(version) + " of control messages, not " +
                                  std::to_string(kVersion)};
  bool fits = false;
  const bool is_known = (DecodeIfTyped<Ms>(type, in, message, &fits) || ...);
  if (!is_known) return {Code::kMalformed, "type " + std::to_string(type)};
  if (!fits) return {Code::kMalformed, "type " + std::to_string(type) + " with wrong fields"};
  return {};
}

}  // namespace farcall::server::control
