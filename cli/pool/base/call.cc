// SPDX-License-Identifier: Apache-2.0
#include "cli/pool/base/call.h"

#include <cstdio>

#include "pool/client/rest_client.h"
#include "proto/printable.h"
#include "settings/exit_code.h"

namespace farcall::cli {

int Call(const PoolOptions& pool, const std::string& method, const std::string& path,
         const google::protobuf::Message* in, google::protobuf::Message* out) {
  pool::PoolAddress address;
  Status done = FindPool(pool, &address);
  std::string json;
  if (done.ok()) done = pool::RestCall(address, method, path, in, out, &json);
  if (!done.ok()) {
    std::fprintf(stderr, "farcall pool: %s\n", Printable(done.message(), kMaxMessageBytes).c_str());
    return done.code() == Code::kInvalid ? kExitUsage : kExitFailure;
  }
  if (pool.json) std::fputs(AsciiJson(json).c_str(), stdout);
  return 0;
}

std::string Gib(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", static_cast<double>(bytes) / (1ull << 30));
  return text;
}

std::string TflopsText(double tflops) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g TFLOPS", tflops);
  return text;
}

}  // namespace farcall::cli
