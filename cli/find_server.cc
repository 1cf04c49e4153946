// SPDX-License-Identifier: Apache-2.0
#include "cli/find_server.h"

#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "cli/login_file.h"
#include "cli/output/progress.h"
#include "cli/programs/client_environment.h"
#include "client-shim/core/settings/transport_wish.h"
#include "proto/cuda/device_domain.h"
#include "proto/handshake/fabric_transport.h"
#include "proto/handshake/session_features.h"
#include "server/supervisor/options/control_path.h"
#include "transport/channel.h"
#include "transport/handshake.h"
#include "transport/tcp/tcp_channel.h"
#include "transport/url.h"

namespace farcall::cli {

namespace {

constexpr std::chrono::seconds kReachPatience(5), kAnswerPatience(20);
constexpr char kOnThisMachine[] = "the server on this machine";

// One answer names one transport: that which a session would ask for.
Hello QueryHello(const FoundServer& server) {
  Hello hello;
  hello.pid = static_cast<uint32_t>(getpid());
  hello.program = "farcall";
  hello.client_version = FARCALL_VERSION;
  hello.features = FeatureBit(SessionFeature::kSharedMemory);
  const TransportKind fabric = client::WantedFabric(
      server.url, client::ParseTransport(server.transport).value_or(client::kDefaultTransport));
  if (IsFabric(fabric)) AskForFabric(fabric, &hello);
  return hello;
}

Result<FoundServer> FindHere() {
  FoundServer found;
  std::string all;
  for (const std::string& port : server::ServersHere()) {
    found.url = "tcp://127.0.0.1:" + port;
    found.source = kOnThisMachine;
    all += (all.empty() ? "" : ", ") + found.url;
  }
  if (all.size() > found.url.size())
    return Status(Code::kInvalid, "several servers run on this machine (" + all +
                                      "): name one with --endpoint or FARCALL_ENDPOINT");
  return found;
}

// Of a pool for which no token is set: the one that `farcall login` has kept for its host, as if
// this user had set it. So a program that is started next has it too.
Status UseLogin(FoundServer* found) {
  if (!found->token.empty() || !found->is_pool()) return {};
  Result<std::optional<Login>> login = ReadLogin();
  if (!login.ok()) return login.status();
  if (!*login || !IsOfPool(**login, found->url)) return {};
  found->token = (*login)->token;
  setenv("FARCALL_TOKEN_FILE", LoginPath().c_str(), 1);
  if (!(*login)->ca.empty()) setenv("FARCALL_CA", (*login)->ca.c_str(), 0);
  return {};
}

}  // namespace

namespace {

Result<FoundServer> FindUrl(const std::string& flag, const client::Settings& settings) {
  if (!flag.empty()) {
    Result<std::string> whole = WholeEndpoints(flag);
    if (!whole.ok())
      return Status(whole.status().code(), "--endpoint: " + whole.status().message());
    return FoundServer{*whole, "--endpoint", ""};
  }
  Result<client::Setting> set = settings.FindEndpoint();
  if (!set.ok()) return set.status();
  if (!set->value.empty()) return FoundServer{set->value, set->source, ""};
  return FindHere();
}

}  // namespace

Result<FoundServer> FindServerOnly(const std::string& flag, const client::Settings& settings) {
  Result<FoundServer> found = FindUrl(flag, settings);
  if (found.ok()) found->transport = settings.Find("transport").value;
  return found;
}

Result<FoundServer> FindServer(const std::string& flag, const client::Settings& settings) {
  Result<FoundServer> found = FindServerOnly(flag, settings);
  if (!found.ok()) return found;
  Result<std::string> token = settings.FindToken();
  if (!token.ok()) return token.status();
  found->token = *token;
  if (Status kept = UseLogin(&*found); !kept.ok()) return kept;
  return found;
}

Result<FoundServer> FindServer(const std::string& flag) {
  const auto settings = client::Settings::Load(client::Settings::Files());
  if (!settings.error().empty()) return Status(Code::kInvalid, settings.error());
  return FindServer(flag, settings);
}

namespace {

// The list's devices as one server's. All have to answer, as they have to when a program begins.
Result<QueryAnswer> AskEach(const FoundServer& list) {
  std::optional<QueryAnswer> all;
  uint8_t index = 0;
  for (const std::string& url : SplitEndpoints(list.url)) {
    Result<QueryAnswer> answer = AskServer({url, list.source, list.token, list.transport});
    if (!answer.ok()) return Status(answer.status().code(), url + ": " + answer.status().message());
    for (DeviceSnapshot& device : answer->welcome.devices) {
      unsigned domain = 0;
      device.pci_bus_id = PciIdInList(device.pci_bus_id, index, &domain);
    }
    ++index;
    if (!all) {
      all = std::move(*answer);
      continue;
    }
    std::vector<DeviceSnapshot>& devices = all->welcome.devices;
    devices.insert(devices.end(), answer->welcome.devices.begin(), answer->welcome.devices.end());
    all->welcome.server_host += ", " + answer->welcome.server_host;
    // A server that does not say what is free leaves all of it unsaid.
    const bool is_said = !all->free_bytes.empty() && !answer->free_bytes.empty();
    if (is_said) {
      all->free_bytes.insert(all->free_bytes.end(), answer->free_bytes.begin(),
                             answer->free_bytes.end());
    } else {
      all->free_bytes.clear();
    }
  }
  return std::move(*all);
}

}  // namespace

Result<QueryAnswer> AskServer(const FoundServer& server, bool* is_of_this_host) {
  if (server.is_list()) return AskEach(server);
  const Progress progress("asking " + server.url);
  Result<std::unique_ptr<Channel>> channel = Dial(server.url, Clock::now() + kReachPatience);
  if (!channel.ok()) return channel.status();
  if (is_of_this_host != nullptr) *is_of_this_host = IsInsideHost((*channel)->Descriptor());
  return QueryHandshake(**channel, QueryHello(server), ClientCredentials::OfToken(server.token),
                        Clock::now() + kAnswerPatience);
}

Status AskPool(const FoundServer& pool, const PoolWish& wish, std::vector<std::string>* addresses) {
  const Progress progress("asking " + pool.url);
  const bool is_tls = SchemeOf(pool.url) == "pools";
  const std::string address = (is_tls ? "tls" : "tcp") + pool.url.substr(pool.url.find(':'));
  Result<std::unique_ptr<Channel>> channel = Dial(address, Clock::now() + kReachPatience);
  if (!channel.ok()) return channel.status();
  Hello hello = QueryHello(pool);
  hello.features |=
      FeatureBit(SessionFeature::kRedirect) | FeatureBit(SessionFeature::kPoolAddresses);
  hello.quota = wish.quota;
  hello.devices = wish.devices;
  ClientCredentials credentials = ClientCredentials::OfToken(pool.token);
  credentials.if_wanted = is_tls;
  Result<Redirect> told =
      PoolHandshake(**channel, std::move(hello), credentials, Clock::now() + kAnswerPatience);
  if (told.ok() && addresses != nullptr) *addresses = told->endpoints;
  return told.status();
}

std::string DevicesText(const Welcome& welcome) {
  if (welcome.devices.empty()) return "no device";
  const DeviceSnapshot& first = welcome.devices[0];
  char size[32];
  std::snprintf(size, sizeof(size), ", %.1f GiB",
                static_cast<double>(first.total_bytes) / (1ull << 30));
  const size_t more = welcome.devices.size() - 1;
  return first.name + size + (more == 0 ? "" : " and " + std::to_string(more) + " more");
}

std::string CapabilityText(const DeviceSnapshot& device) {
  constexpr size_t kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...
  if (device.attributes.size() <= kMinor) return "?";
  return std::to_string(device.attributes[kMajor]) + "." +
         std::to_string(device.attributes[kMinor]);
}

}  // namespace farcall::cli
