// SPDX-License-Identifier: Apache-2.0
#include "cli/control/pool_status.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <span>

#include "cli/flags/pool_tls.h"
#include "pool/tls/tls.h"
#include "proto/handshake/session_features.h"
#include "proto/printable.h"
#include "server/supervisor/options/serve_options.h"
#include "transport/channel.h"
#include "transport/handshake.h"
#include "transport/tls/tls_dial.h"
#include "transport/url.h"

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

struct PoolAddress {
  std::string address;  // host:port
  bool is_tls = false;
};

Result<std::unique_ptr<Channel>> DialPool(const PoolAddress& address, const TlsFiles& tls,
                                          Clock::time_point deadline) {
  if (!address.is_tls) return Dial("tcp://" + address.address, deadline);
  Result<std::shared_ptr<TlsContext>> context = TlsContext::Make(TlsContext::Side::kClient, tls);
  if (!context.ok()) return context.status();
  Result<Url> url = ParseUrl("tls://" + address.address);
  if (!url.ok()) return url.status();
  return DialTls(*url, *context, deadline);
}

Result<Redirect> AskAddresses(const PoolAddress& address, const TlsFiles& tls,
                              const std::string& token) {
  auto deadline = Clock::now() + kPatience;
  Result<std::unique_ptr<Channel>> channel = DialPool(address, tls, deadline);
  if (!channel.ok()) return channel.status();
  Hello hello;
  hello.features =
      FeatureBit(SessionFeature::kRedirect) | FeatureBit(SessionFeature::kPoolAddresses);
  hello.pid = static_cast<uint32_t>(getpid());
  hello.program = "farcall";
  ClientCredentials credentials = ClientCredentials::OfToken(token);
  credentials.if_wanted = address.is_tls;
  return PoolHandshake(**channel, hello, credentials, deadline);
}

}  // namespace

Result<std::unique_ptr<PoolClient>> PoolClient::Open(const std::string& endpoint,
                                                     const std::string& token_file,
                                                     const std::string& ca_file) {
  const PoolAddress pool{endpoint.substr(endpoint.find("://") + 3), SchemeOf(endpoint) == "pools"};
  const TlsFiles tls =
      PoolTlsFiles({.certificate = "", .key = "", .authorities = ca_file, .revoked = ""});
  const bool wants_tls = pool.is_tls || !ca_file.empty() || !PoolCaVariable().empty();
  Result<std::string> token = TokenOf(token_file);
  if (!token.ok()) return Status(Code::kInvalid, token.status().message());
  Result<Redirect> addresses = AskAddresses(pool, tls, *token);
  if (!addresses.ok()) return addresses.status();
  for (const std::string& url : addresses->endpoints) {
    const bool is_tls = url.compare(0, 8, "grpcs://") == 0;
    size_t colon = url.rfind(':');
    if ((!is_tls && url.compare(0, 7, "grpc://") != 0) || colon <= 8) continue;
    if (!is_tls && wants_tls)
      return Status(Code::kRefused, endpoint + ": its gRPC has no TLS, and TLS was asked for");
    Result<std::shared_ptr<grpc::ChannelCredentials>> credentials =
        pool::ClientCredentials(is_tls, tls);
    if (!credentials.ok()) return credentials.status();
    // It may listen on all addresses: the one that was given is one that can be reached.
    std::string address = pool.address.substr(0, pool.address.rfind(':')) + url.substr(colon);
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
