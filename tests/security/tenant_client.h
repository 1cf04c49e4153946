// SPDX-License-Identifier: Apache-2.0
// A tenant that writes its library records by hand, against the real server.
#pragma once

#include <string>
#include <string_view>

#include "proto/library/library_call.h"
#include "tests/end_to_end/server/raw_client.h"
#include "tests/end_to_end/server/server_process.h"

namespace farcall::testing {

template <typename Function>
Builder LibraryRecord(LibraryId library, Function function, uint8_t pointer_mode = 0,
                      uint64_t stream = 0) {
  Builder body;
  body.Put<uint64_t>(stream);
  body.Put<uint8_t>(static_cast<uint8_t>(library));
  body.Put<uint8_t>(13);
  body.Put<uint16_t>(static_cast<uint16_t>(function));
  body.Put<uint8_t>(pointer_mode);
  for (int i = 0; i < 3; ++i) body.Put<uint8_t>(0);
  return body;
}

inline void PutText(Builder& body, std::string_view text) {
  body.Put<uint64_t>(0);  // in no blob
  body.PutString(text);
}

inline std::string TextOf(const RawReply& reply) {
  return {reinterpret_cast<const char*>(reply.out.data()), reply.out.size()};
}

}  // namespace farcall::testing
