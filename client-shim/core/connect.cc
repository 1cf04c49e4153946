// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/connect.h"

#include <unistd.h>

#include <cstdlib>

#include "client-shim/core/stats.h"
#include "proto/session_features.h"
#include "transport/handshake.h"

namespace farcall::client {

namespace {

constexpr auto kRejoinTimeout = std::chrono::seconds(5);

// HELLO and WELCOME are a round trip too, of the log and of each lane.
void CountHandshake() {
  if (Stats* stats = g_stats.load(std::memory_order_relaxed))
    stats->round_trips.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

void DescribeProcess(Hello* hello) {
  hello->pid = static_cast<uint32_t>(getpid());
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  hello->host = host;
  const char* user = std::getenv("USER");
  hello->user = user != nullptr ? user : std::to_string(geteuid());
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  hello->program = length > 0 ? std::string(path, length) : "?";
  hello->client_version = "0.1.0";
  hello->shim_driver_version = kShimDriverVersion;
  hello->features = FeatureBit(SessionFeature::kMirrors);
  for (std::string_view name : ForwardedVariables()) {
    const char* value = std::getenv(std::string(name).c_str());
    if (value != nullptr) hello->environment.emplace_back(name, value);
  }
}

Result<Connected> OpenSession(const Config& config, Hello hello, Clock::time_point deadline) {
  Result<std::unique_ptr<Channel>> channel = Dial(config.endpoint, deadline);
  if (!channel.ok()) return channel.status();
  Hash256 key = Sha256(std::as_bytes(std::span(config.token)));
  std::span<const uint8_t> proof_key;
  if (!config.token.empty()) proof_key = key;
  Result<Welcome> welcome = ClientHandshake(**channel, std::move(hello), proof_key, deadline);
  if (!welcome.ok()) return welcome.status();
  CountHandshake();
  Connected connected;
  connected.channel = std::move(*channel);
  connected.welcome = std::move(*welcome);
  return connected;
}

Result<Link::Reconnected> Rejoin(const std::string& endpoint, const Welcome& session, LinkRole role,
                                 uint32_t lane, uint64_t received_seq, uint64_t received_chunks) {
  Clock::time_point deadline = Clock::now() + kRejoinTimeout;
  Result<std::unique_ptr<Channel>> channel = Dial(endpoint, deadline);
  if (!channel.ok()) return channel.status();
  Hello hello;
  hello.role = role;
  hello.lane = lane;
  hello.session = session.session;
  hello.received_seq = received_seq;
  hello.received_chunks = received_chunks;
  Result<Welcome> welcome = ClientHandshake(**channel, std::move(hello), session.key, deadline);
  if (!welcome.ok()) return welcome.status();
  CountHandshake();
  Link::Reconnected again;
  again.channel = std::move(*channel);
  again.peer_received_seq = welcome->received_seq;
  again.peer_received_chunks = welcome->received_chunks;
  return again;
}

}  // namespace farcall::client
