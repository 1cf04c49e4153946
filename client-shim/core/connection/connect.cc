// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/connection/connect.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <sstream>

#include "client-shim/core/connection/transport_choice.h"
#include "client-shim/core/report/log.h"
#include "client-shim/core/report/stats.h"
#include "proto/handshake/fabric_transport.h"
#include "proto/handshake/session_features.h"
#include "proto/text_file.h"
#include "transport/handshake.h"
#include "transport/link/chunk_packing.h"
#include "transport/tcp/tcp_channel.h"
#include "transport/url.h"

namespace farcall::client {

namespace {

constexpr auto kRejoinTimeout = std::chrono::seconds(5);
constexpr auto kConnectTimeout = std::chrono::seconds(10);
constexpr auto kPoolTimeout = std::chrono::seconds(90);  // the pool itself gives up before

// HELLO and WELCOME are a round trip too, of the log and of the lanes, which are dialled at once.
void CountHandshake() {
  if (Stats* stats = g_stats.load(std::memory_order_relaxed))
    stats->round_trips.fetch_add(1, std::memory_order_relaxed);
}

// By the machine's own list. getpwuid would bring modules of NSS into the application's process.
std::string UserName() {
  if (const char* user = std::getenv("USER"); user != nullptr && *user != '\0') return user;
  std::string id = std::to_string(geteuid());
  const Result<std::string> users = ReadTextFile("/etc/passwd");
  std::istringstream lines(users.ok() ? *users : "");
  for (std::string line; std::getline(lines, line);) {
    const size_t name = line.find(':');
    const size_t number = name == line.npos ? line.npos : line.find(':', name + 1);
    if (number != line.npos && line.compare(number + 1, id.size() + 1, id + ":") == 0)
      return line.substr(0, name);
  }
  return id;
}

// The program's path; of an interpreter also the script's name, which is what people know it by.
std::string ProgramName() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (length <= 0) return "?";
  std::string program(path, static_cast<size_t>(length));
  const std::string name = program.substr(program.rfind('/') + 1);
  constexpr std::string_view kInterpreters[] = {"python", "pypy", "julia", "perl", "ruby", "node"};
  const bool is_interpreter = std::any_of(
      std::begin(kInterpreters), std::end(kInterpreters),
      [&](std::string_view known) { return name.compare(0, known.size(), known) == 0; });
  const Result<std::string> words =
      is_interpreter ? ReadTextFile("/proc/self/cmdline") : Result<std::string>(std::string());
  const size_t first = words.ok() ? words->find('\0') : std::string::npos;
  if (first == std::string::npos || first + 1 >= words->size()) return program;
  // Nothing of the arguments but that: they may hold what is nobody's to read.
  std::string script = words->substr(first + 1, words->find('\0', first + 1) - first - 1);
  script = script.substr(script.rfind('/') + 1);
  if (script.empty() || script[0] == '-') return program;
  program += " " + script;
  return program.size() <= kMaxPathBytes ? program : program.substr(0, kMaxPathBytes);
}

}  // namespace

void DescribeProcess(Hello* hello) {
  hello->pid = static_cast<uint32_t>(getpid());
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  hello->host = host;
  hello->user = UserName();
  hello->user.resize(std::min(hello->user.size(), kMaxNameBytes));
  hello->program = ProgramName();
  hello->client_version = FARCALL_VERSION;
  hello->shim_driver_version = kShimDriverVersion;
  hello->features =
      FeatureBit(SessionFeature::kMirrors) | FeatureBit(SessionFeature::kRedirect) |
      FeatureBit(SessionFeature::kLibraries) | FeatureBit(SessionFeature::kFirstCredit) |
      FeatureBit(SessionFeature::kErrorOutput) | FeatureBit(SessionFeature::kIdleSilence);
  for (std::string_view name : ForwardedVariables()) {
    const char* value = std::getenv(std::string(name).c_str());
    if (value == nullptr) continue;
    if (std::strlen(value) > kMaxVariableBytes) {
      Log(LogLevel::kWarn, "%s does not reach the server: %zu bytes of at most %zu",
          std::string(name).c_str(), std::strlen(value), kMaxVariableBytes);
      continue;
    }
    hello->environment.emplace_back(name, value);
  }
}

namespace {

// With the congestion control that is wished: the configuration has checked that the kernel takes
// it.
Result<std::unique_ptr<Channel>> DialPaced(const std::string& endpoint,
                                           Clock::time_point deadline) {
  Result<std::unique_ptr<Channel>> channel = Dial(endpoint, deadline);
  const std::string& wished = GetConfig().tcp_congestion;
  if (channel.ok() && !wished.empty()) (void)SetCongestionControl((*channel)->Descriptor(), wished);
  return channel;
}

// A port that is flooded closes connections that it has not heard, now and then one of ours: the
// next one is likely to get in.
template <typename Answer, typename Converse>
Result<Answer> Insist(const std::string& endpoint, std::unique_ptr<Channel>* channel,
                      Converse converse) {
  constexpr int kTries = 8;
  const Clock::time_point end = Clock::now() + std::chrono::seconds(1);
  for (int tries = 1;; ++tries) {
    Result<std::unique_ptr<Channel>> dialled = DialPaced(endpoint, Clock::now() + kConnectTimeout);
    if (!dialled.ok()) return dialled.status();
    *channel = std::move(*dialled);
    Result<Answer> answer = converse(**channel);
    const bool was_cut = answer.status().code() == Code::kDisconnected;
    if (!was_cut || tries == kTries || Clock::now() >= end) return answer;
  }
}

// Within a host no lane is slower than the compressor.
bool OffersPacking(const Channel& channel) {
  const LinkOptions::Packing wish = GetConfig().packing;
  const bool may_help = wish == LinkOptions::Packing::kAlways ||
                        (wish == LinkOptions::Packing::kAuto && channel.RoundTrip().has_value() &&
                         !IsInsideHost(channel.Descriptor()));
  return may_help && CanPackChunks();
}

Result<Connected> OpenAt(const std::string& endpoint, Hello hello,
                         const ClientCredentials& credentials, TransportWish wish) {
  const TransportKind fabric = WantedFabric(endpoint, wish);
  if (IsFabric(fabric)) {
    FARCALL_TRY(CheckFabric(fabric));
    AskForFabric(fabric, &hello);
  }
  const bool may_move = WantsSharedMemory(endpoint, wish);
  if (may_move) hello.features |= FeatureBit(SessionFeature::kSharedMemory);
  Clock::time_point deadline = Clock::now() + kConnectTimeout;
  Connected connected;
  Result<Welcomed> welcomed = Insist<Welcomed>(endpoint, &connected.channel, [&](Channel& channel) {
    if (OffersPacking(channel)) hello.features |= FeatureBit(SessionFeature::kPackedChunks);
    return ClientHandshake(channel, hello, credentials, deadline);
  });
  if (!welcomed.ok()) return welcomed.status();
  CountHandshake();
  connected.welcome = std::move(welcomed->welcome);
  connected.key = welcomed->key;
  connected.endpoint = connected.path = endpoint;
  if (IsFabric(fabric)) {
    FARCALL_TRY(MoveToFabric(fabric, connected.welcome, deadline, &connected.channel));
    connected.kind = fabric;
    return connected;
  }
  if (!may_move || !MayOpenSocketOf(wish, IsInsideHost(connected.channel->Descriptor())))
    return connected;
  if (Status moved = MoveToSharedMemory(&connected); !moved.ok()) {
    if (wish == TransportWish::kShm)
      return Status(moved.code(), "transport shm: " + moved.message());
    Log(LogLevel::kDebug, "not over shared memory: %s", moved.message().c_str());
  }
  return connected;
}

// Where a pool leads, as far as that is as safe as the pool was asked to be.
std::vector<std::string> SafeEndpoints(const Redirect& redirect, bool is_tls) {
  std::vector<std::string> safe;
  for (const std::string& endpoint : redirect.endpoints)
    if (!is_tls || SchemeOf(endpoint) == "tls" || IsLoopbackUrl(endpoint)) safe.push_back(endpoint);
  return safe;
}

// A pool's host takes the lease in the place of a token; only tcp:// and its like lead there, so
// that no pool sends a client in circles.
Result<Connected> OpenByPool(const Config& config, const Target& target, Hello hello,
                             const ClientCredentials& credentials) {
  const std::string& endpoint = target.endpoint;
  const bool is_tls = SchemeOf(endpoint) == "pools";
  const std::string url = (is_tls ? "tls" : "tcp") + endpoint.substr(endpoint.find("://"));
  Clock::time_point deadline = Clock::now() + kPoolTimeout;
  Hello question = hello;
  question.device_windows.clear();  // the host's business
  question.environment.clear();
  question.claim = target.claim;
  question.devices = config.devices;
  std::unique_ptr<Channel> channel;
  Result<Redirect> redirect = Insist<Redirect>(url, &channel, [&](Channel& to) {
    return PoolHandshake(to, question, credentials, deadline);
  });
  if (!redirect.ok()) return redirect.status();
  CountHandshake();
  hello.lease = redirect->lease;
  Status failed(Code::kRefused,
                "its host has no tls:// URL: give `farcall serve` there one to --listen and "
                "--advertise, or use pool://");
  for (const std::string& safe : SafeEndpoints(*redirect, is_tls)) {
    Result<Connected> opened = OpenAt(safe, hello, {}, config.transport);
    if (opened.ok()) return opened;
    failed = opened.status();
    if (failed.code() == Code::kRefused) break;  // it was reached, and the lease is used up
  }
  return Status(failed.code(), "claim " + redirect->claim + ": " + failed.message());
}

}  // namespace

Result<Connected> OpenSession(const Config& config, const Target& target, Hello hello) {
  const ClientCredentials credentials = ClientCredentials::OfToken(config.token);
  return IsPoolUrl(target.endpoint)
             ? OpenByPool(config, target, std::move(hello), credentials)
             : OpenAt(target.endpoint, std::move(hello), credentials, config.transport);
}

Result<Link::Reconnected> Rejoin(const std::string& endpoint, TransportKind kind,
                                 const SessionId& session, const SessionKey& key, LinkRole role,
                                 uint32_t lane, uint64_t received_seq, uint64_t received_chunks) {
  Clock::time_point deadline = Clock::now() + kRejoinTimeout;
  Result<std::unique_ptr<Channel>> channel = DialPaced(endpoint, deadline);
  if (!channel.ok()) return channel.status();
  Hello hello;
  hello.role = role;
  hello.lane = lane;
  hello.session = session;
  hello.received_seq = received_seq;
  hello.received_chunks = received_chunks;
  Result<Welcomed> welcomed =
      ClientHandshake(**channel, std::move(hello), ClientCredentials::OfSession(key), deadline);
  if (!welcomed.ok()) return welcomed.status();
  if (role == LinkRole::kLog || lane == 0) CountHandshake();
  if (IsFabric(kind)) FARCALL_TRY(MoveToFabric(kind, role, deadline, &*channel));
  Link::Reconnected again;
  again.channel = std::move(*channel);
  again.peer_received_seq = welcomed->welcome.received_seq;
  again.peer_received_chunks = welcomed->welcome.received_chunks;
  return again;
}

}  // namespace farcall::client
