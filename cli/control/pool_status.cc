// SPDX-License-Identifier: Apache-2.0
#include "cli/control/pool_status.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <span>

#include "pool/tls.h"
#include "proto/printable.h"
#include "proto/session_features.h"
#include "server/supervisor/serve_options.h"
#include "transport/channel.h"
#include "transport/handshake.h"

namespace farcall::cli {

namespace {

constexpr std::chrono::seconds kPatience(5);
constexpr int kMaxStatusBytes = 64 << 20;  // of all hosts; a pool sends half of it at most

Result<std::string> TokenOf(const std::string& file) {
  const char* given = std::getenv("FARCALL_TOKEN");
  const char* given_file = std::getenv("FARCALL_TOKEN_FILE");
  if (!file.empty()) return server::ReadTokenFile(file);
  if (given != nullptr && *given != '\0') return std::string(given);
  if (given_file != nullptr && *given_file != '\0') return server::ReadTokenFile(given_file);
  return std::string();
}

Result<Redirect> AskDoors(const std::string& endpoint, const std::string& token) {
  auto deadline = Clock::now() + kPatience;
  Result<std::unique_ptr<Channel>> channel = Dial("tcp://" + endpoint.substr(7), deadline);
  if (!channel.ok()) return channel.status();
  Hello hello;
  hello.features = FeatureBit(SessionFeature::kRedirect) | FeatureBit(SessionFeature::kPoolDoors);
  hello.pid = static_cast<uint32_t>(getpid());
  hello.program = "farcall";
  return PoolHandshake(**channel, hello, ClientCredentials::OfToken(token), deadline);
}

}  // namespace

Result<std::unique_ptr<PoolClient>> PoolClient::Open(const std::string& endpoint,
                                                     const std::string& token_file,
                                                     const std::string& ca_file) {
  const char* given = std::getenv("FARCALL_POOL_CA");
  const std::string ca = !ca_file.empty() || given == nullptr ? ca_file : given;
  Result<std::string> token = TokenOf(token_file);
  if (!token.ok()) return Status(Code::kInvalid, token.status().message());
  Result<Redirect> doors = AskDoors(endpoint, *token);
  if (!doors.ok()) return doors.status();
  for (const std::string& door : doors->endpoints) {
    const bool is_tls = door.compare(0, 8, "grpcs://") == 0;
    size_t colon = door.rfind(':');
    if ((!is_tls && door.compare(0, 7, "grpc://") != 0) || colon <= 8) continue;
    if (!is_tls && !ca.empty())
      return Status(Code::kRefused, endpoint + ": its gRPC has no TLS, and a CA was named for it");
    Result<std::shared_ptr<grpc::ChannelCredentials>> credentials =
        pool::ClientCredentials(is_tls, ca);
    if (!credentials.ok()) return credentials.status();
    // It may listen on all addresses: the one that was given is one that can be reached.
    std::string address = endpoint.substr(7, endpoint.rfind(':') - 7) + door.substr(colon);
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMaxStatusBytes);
    auto hosts =
        pool::v1::Hosts::NewStub(grpc::CreateCustomChannel(address, *credentials, arguments));
    return std::unique_ptr<PoolClient>(new PoolClient(endpoint, *token, std::move(hosts)));
  }
  return Status(Code::kMalformed, endpoint + ": this pool does not say where its gRPC is");
}

Result<pool::v1::PoolStatus> PoolClient::Ask() {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  if (!token_.empty()) context.AddMetadata("authorization", "Bearer " + token_);
  pool::v1::PoolStatus status;
  grpc::Status asked = hosts_->Status(&context, {}, &status);
  if (!asked.ok())
    return Status(Code::kUnavailable,
                  endpoint_ + ": " + Printable(asked.error_message(), kMaxMessageBytes));
  return status;
}

}  // namespace farcall::cli
