// SPDX-License-Identifier: Apache-2.0
#include "proto/handshake/query_answer.h"

#include <cstring>

#include "proto/codec.h"
#include "proto/handshake/session_features.h"

namespace farcall {

namespace {

constexpr size_t kAlignment = 8;

// Where the second part begins.
size_t WholeSize(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

std::vector<std::byte> Encode(const QueryAnswer& value) {
  std::vector<std::byte> body = Encode(value.welcome);
  body.resize(WholeSize(body.size()));
  Builder more;
  more.PutBytes(value.free_bytes.data(), value.free_bytes.size() * sizeof(uint64_t));
  body.insert(body.end(), more.mutable_bytes().begin(), more.mutable_bytes().end());
  return body;
}

Result<QueryAnswer> DecodeQueryAnswer(std::span<const std::byte> body) {
  Result<Welcome> welcome = DecodeWelcome(body);
  if (!welcome.ok()) return welcome.status();
  QueryAnswer answer{std::move(*welcome), {}};
  if (!HasFeature(answer.welcome, SessionFeature::kQuery)) return answer;
  const size_t begin = WholeSize(Encode(answer.welcome).size());
  Reader reader(begin <= body.size() ? body.subspan(begin) : std::span<const std::byte>());
  const std::span<const std::byte> free = reader.GetBytes();
  if (!reader.ok() || free.size() != answer.welcome.devices.size() * sizeof(uint64_t))
    return Status(Code::kMalformed, "handshake: the answer to a query cannot be read");
  answer.free_bytes.resize(answer.welcome.devices.size());
  if (!free.empty()) std::memcpy(answer.free_bytes.data(), free.data(), free.size());
  return answer;
}

}  // namespace farcall
