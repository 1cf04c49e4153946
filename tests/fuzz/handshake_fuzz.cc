// SPDX-License-Identifier: Apache-2.0
// Every handshake decoder on arbitrary bytes; what decodes must encode to something that decodes
// again.
#include <cstdint>
#include <cstdlib>

#include "proto/handshake.h"

namespace {

template <typename T>
void RoundTrip(const farcall::Result<T>& decoded,
               farcall::Result<T> (*decode)(std::span<const std::byte>)) {
  if (!decoded.ok()) {
    return;
  }
  std::vector<std::byte> encoded = farcall::Encode(*decoded);
  farcall::Result<T> again = decode(encoded);
  if (!again.ok() || farcall::Encode(*again) != encoded) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  std::span<const std::byte> body(reinterpret_cast<const std::byte*>(data + 1), size - 1);
  switch (data[0] % 5) {
    case 0:
      RoundTrip(farcall::DecodeGreeting(body), farcall::DecodeGreeting);
      break;
    case 1:
      RoundTrip(farcall::DecodeHello(body), farcall::DecodeHello);
      break;
    case 2:
      RoundTrip(farcall::DecodeWelcome(body), farcall::DecodeWelcome);
      break;
    case 3:
      RoundTrip(farcall::DecodeRefuse(body), farcall::DecodeRefuse);
      break;
    default:
      RoundTrip(farcall::DecodeRedirect(body), farcall::DecodeRedirect);
      break;
  }
  return 0;
}
