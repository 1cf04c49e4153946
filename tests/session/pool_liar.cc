// SPDX-License-Identifier: Apache-2.0
// pool_liar HOST:PORT FACTOR: stands between the agents of hosts and their pool, and tells the pool
// that each GPU has FACTOR times its memory. All else passes as it is. Prints the port that agents
// are to call.
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "generated/proto/pool.grpc.pb.h"

namespace pb = farcall::pool::v1;

namespace {

class Liar : public pb::AgentLink::Service {
 public:
  Liar(const std::string& pool, uint64_t factor)
      : stub_(
            pb::AgentLink::NewStub(grpc::CreateChannel(pool, grpc::InsecureChannelCredentials()))),
        factor_(factor) {}

  grpc::Status Stream(grpc::ServerContext* context,
                      grpc::ServerReaderWriter<pb::HostAnswer, pb::HostReport>* host) override {
    auto own = grpc::ClientContext::FromServerContext(*context);
    auto pool = stub_->Stream(own.get());
    std::thread answers([&] {
      pb::HostAnswer answer;
      while (pool->Read(&answer)) host->Write(answer);
      context->TryCancel();
    });
    pb::HostReport report;
    while (host->Read(&report)) {
      for (pb::Gpu& gpu : *report.mutable_gpus())
        gpu.set_memory_bytes(gpu.memory_bytes() * factor_);
      if (!pool->Write(report)) break;
    }
    own->TryCancel();
    answers.join();
    return pool->Finish();
  }

 private:
  const std::unique_ptr<pb::AgentLink::Stub> stub_;
  const uint64_t factor_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  Liar liar(argv[1], std::strtoull(argv[2], nullptr, 10));
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&liar);
  auto server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::printf("%d\n", port);
  std::fflush(stdout);
  server->Wait();
}
