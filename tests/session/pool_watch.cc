// SPDX-License-Identifier: Apache-2.0
// pool_watch claims|hosts HOST:PORT [NAME [AFTER]]: a program that watches a pool by gRPC. Prints
// each change as a line, "number kind id state", until it is ended; its end in words, if the pool
// ends it. FARCALL_TOKEN: the pool's; FARCALL_POOL_CA: by TLS, whom to believe.
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "generated/proto/pool.grpc.pb.h"
#include "pool/tls/tls.h"

namespace pb = farcall::pool::v1;

namespace {

int Watch(grpc::ClientReader<pb::Change>* stream) {
  pb::Change change;
  while (stream->Read(&change)) {
    const bool is_host = change.has_host();
    const std::string& id = is_host ? change.host().name() : change.claim().id();
    const std::string& state = is_host ? change.host().state() : change.claim().state();
    std::printf("%llu %s %s %s\n", static_cast<unsigned long long>(change.number()),
                change.kind().c_str(), id.empty() ? "-" : id.c_str(),
                state.empty() ? "-" : state.c_str());
    std::fflush(stdout);
  }
  const grpc::Status status = stream->Finish();
  std::fprintf(stderr, "code %d: %s\n", static_cast<int>(status.error_code()),
               status.error_message().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const char *token = std::getenv("FARCALL_TOKEN"), *ca = std::getenv("FARCALL_POOL_CA");
  auto credentials = farcall::pool::ClientCredentials(
      ca != nullptr,
      {.certificate = "", .key = "", .authorities = ca != nullptr ? ca : "", .revoked = ""});
  if (!credentials.ok()) return 2;
  auto channel = grpc::CreateChannel(argv[2], *credentials);
  grpc::ClientContext context;
  if (token != nullptr) context.AddMetadata("authorization", std::string("Bearer ") + token);
  pb::WatchRequest request;
  if (argc > 3) request.set_name(argv[3]);
  if (argc > 4) request.set_after(std::strtoull(argv[4], nullptr, 10));
  if (std::string(argv[1]) == "hosts")
    return Watch(pb::Hosts::NewStub(channel)->Watch(&context, request).get());
  return Watch(pb::Claims::NewStub(channel)->Watch(&context, request).get());
}
