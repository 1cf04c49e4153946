// SPDX-License-Identifier: Apache-2.0
// rogue_host HOST:PORT NAME GPU ENDPOINT BEATS CLAIMS: a host's agent that says what it is told to.
// Each beat reports CLAIMS claims that nobody has made. Prints "answered GRANTS" for each answer,
// and the end in words. FARCALL_TOKEN: what it shows.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "generated/proto/pool.grpc.pb.h"

namespace pb = farcall::pool::v1;

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  const char* token = std::getenv("FARCALL_TOKEN");
  const int beats = std::atoi(argv[5]), claims = std::atoi(argv[6]);
  auto channel = grpc::CreateChannel(argv[1], grpc::InsecureChannelCredentials());
  auto stub = pb::AgentLink::NewStub(channel);
  grpc::ClientContext context;
  if (token != nullptr) context.AddMetadata("authorization", std::string("Bearer ") + token);
  auto stream = stub->Stream(&context);
  pb::HostReport report;
  report.set_host(argv[2]);
  report.set_incarnation(static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch() /
                                               std::chrono::nanoseconds(1)));
  report.add_endpoints(argv[4]);
  pb::Gpu* gpu = report.add_gpus();
  gpu->set_name(argv[3]);
  gpu->set_memory_bytes(1ull << 40);
  pb::HostAnswer answer;
  for (int beat = 1; beat <= beats; ++beat) {
    report.set_beat(static_cast<uint64_t>(beat));
    report.clear_claims();
    for (int i = 0; i < claims; ++i) {
      pb::HeldClaim* held = report.add_claims();
      held->set_claim("made-up-" + std::to_string(beat) + "-" + std::to_string(i));
      held->set_epoch(1);
      held->add_devices(0);
      held->set_memory_bytes(1);
      held->set_seats(1);
    }
    if (!stream->Write(report)) break;
    while (stream->Read(&answer) && answer.beat() != report.beat()) {
    }
    if (answer.beat() != report.beat()) break;
    std::printf("answered %d\n", answer.grants_size());
    std::fflush(stdout);
  }
  stream->WritesDone();
  const grpc::Status status = stream->Finish();
  std::printf("code %d: %s\n", static_cast<int>(status.error_code()),
              status.error_message().c_str());
  return 0;
}
