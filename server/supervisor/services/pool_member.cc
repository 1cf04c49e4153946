// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/services/pool_member.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "proto/handshake/handshake.h"
#include "proto/printable.h"
#include "server/control/memory_file.h"
#include "server/device/link_groups.h"
#include "server/device/numa_node.h"
#include "server/device/steady_now.h"
#include "server/device/uuid_text.h"
#include "server/supervisor/services/host_name.h"

namespace farcall::server {

namespace {

using Json = nlohmann::json;

constexpr char kProgram[] = "/libexec/farcall/farcall-pool";
constexpr std::chrono::seconds kRestartPause(2);
// A pool that proposes the same again at each report hears of it no oftener than this, and by the
// usual reports.
constexpr std::chrono::seconds kRefusalPause(1);
constexpr std::chrono::seconds kStatusPause(1);
constexpr size_t kMaxStatusBytes = 1u << 20;  // the pool takes 4 MiB in all
constexpr size_t kMaxAnswerBytes = 16u << 20;
constexpr int64_t kNsPerMs = 1'000'000;

int64_t UnixSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

uint64_t UnixNanoseconds() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count());
}

std::string NameOf(const PoolOptions& options) {
  return options.name.empty() ? HostName() : options.name;
}

std::vector<uint64_t> BytesOf(const DeviceReport& devices) {
  std::vector<uint64_t> bytes;
  for (const DeviceSnapshot& device : devices.devices) bytes.push_back(device.total_bytes);
  return bytes;
}

// Protobuf's JSON writes 64-bit numbers as text.
uint64_t Number(const Json& object, const char* name) {
  auto field = object.find(name);
  if (field == object.end()) return 0;
  if (field->is_number_unsigned()) return field->get<uint64_t>();
  if (!field->is_string()) return 0;
  return std::strtoull(field->get_ref<const std::string&>().c_str(), nullptr, 10);
}

std::string Text(const Json& object, const char* name) {
  auto field = object.find(name);
  return field != object.end() && field->is_string() ? field->get<std::string>() : std::string();
}

// Why claims have ended: what a pool says is shown to their programs.
std::map<std::string, std::string> ReasonsIn(const Json& answer) {
  std::map<std::string, std::string> reasons;
  auto ended = answer.find("ended");
  if (ended == answer.end() || !ended->is_array()) return reasons;
  for (const Json& one : *ended)
    if (one.is_object()) reasons[Text(one, "claim")] = Printable(Text(one, "reason"));
  return reasons;
}

// Claims, their epochs, the numbers of what they may use and of what was refused, and whether they
// are parked.
using Placements =
    std::vector<std::tuple<std::string, uint64_t, uint64_t, uint64_t, bool, std::string>>;

Placements PlacementsIn(const quota::ClaimLedger& ledger) {
  Placements placements;
  for (const auto& [name, held] : ledger.held())
    placements.emplace_back(name, held.grant.epoch, held.grant.quota_revision,
                            held.refused_revision, held.is_parked, held.park_refused);
  return placements;
}

quota::ClaimGrant GrantOf(const Json& object) {
  quota::ClaimGrant grant;
  grant.claim = Text(object, "claim");
  grant.epoch = Number(object, "epoch");
  if (auto devices = object.find("devices"); devices != object.end() && devices->is_array())
    for (const Json& device : *devices)
      grant.devices.push_back(device.is_number_unsigned() ? device.get<uint32_t>() : ~0u);
  grant.memory_bytes = Number(object, "memory_bytes");
  grant.share_milli = static_cast<uint32_t>(Number(object, "share_milli"));
  grant.limit_milli = static_cast<uint32_t>(Number(object, "limit_milli"));
  grant.priority = static_cast<uint8_t>(std::min<uint64_t>(Number(object, "priority"), 255));
  grant.net_bytes_per_s = Number(object, "net_bytes_per_s");
  grant.seats = static_cast<uint32_t>(Number(object, "seats"));
  grant.quota_revision = Number(object, "quota");
  if (auto parked = object.find("parked"); parked != object.end() && parked->is_boolean())
    grant.is_parked = parked->get<bool>();
  grant.hold_ns =
      static_cast<int64_t>(std::min<uint64_t>(Number(object, "hold_ms"), 1ull << 40)) * kNsPerMs;
  return grant;
}

std::vector<std::optional<uint32_t>> NumaNodesOf(const DeviceReport& devices) {
  std::vector<std::optional<uint32_t>> nodes;
  for (const DeviceSnapshot& device : devices.devices)
    nodes.push_back(NumaNodeOf("/sys", device.pci_bus_id));
  return nodes;
}

}  // namespace

PoolMember::PoolMember(Closer& closer, int epoll, PoolOptions options, const DeviceReport& devices,
                       quota::ClaimBounds bounds, Calls calls)
    : options_(std::move(options)),
      devices_(devices),
      numa_nodes_(NumaNodesOf(devices)),
      link_groups_(LinkGroupsOf(devices.devices)),
      calls_(std::move(calls)),
      bounds_(bounds),
      ledger_(BytesOf(devices), bounds),
      incarnation_(UnixNanoseconds()),
      leases_(NameOf(options_), incarnation_),
      agent_(
          closer, epoll, kProgram,
          HelperProcess::Answer<control::FromPoolAgent>(
              [this](const control::FromPoolAgent& message, const std::vector<int>& descriptors) {
                std::visit(control::Overloaded{[&](const control::PoolBeat& beat) { Report(beat); },
                                               [&](const control::PoolAnswer& answer) {
                                                 if (!descriptors.empty())
                                                   OnPoolAnswer(answer, descriptors.front());
                                               }},
                           message);
              })) {}

Status PoolMember::Open(const std::vector<std::string>& urls) {
  if (!is_in_pool()) return {};
  urls_ = options_.advertise.empty() ? urls : options_.advertise;
  return StartAgent();
}

Status PoolMember::StartAgent() {
  std::vector<std::string> arguments = {"farcall-pool", "agent", "--pool=" + options_.url};
  for (const auto& [flag, file] : {std::pair("--ca=", options_.tls.authorities),
                                   {"--cert=", options_.tls.certificate},
                                   {"--key=", options_.tls.key}})
    if (!file.empty()) arguments.push_back(flag + file);
  // Not on its command line, where others could read it.
  auto bytes = std::as_bytes(std::span(options_.join_token));
  int token = MakeMemoryFile("farcall-join", {bytes.begin(), bytes.end()});
  if (token < 0) return {Code::kUnavailable, "no memory for the join token"};
  Status started = agent_.Start(std::move(arguments), token);
  close(token);
  return started;
}

bool PoolMember::OnReadable(int fd) {
  HelperProcess::Read read = agent_.OnReadable(fd);
  if (read != HelperProcess::Read::kEnded) return read == HelperProcess::Read::kAnswered;
  spdlog::warn("the pool's agent has ended; sessions go on, it is started again");
  start_again_ = Clock::now() + kRestartPause;
  return true;
}

// What the report says and the moment from which its answer's hold counts are of one instant.
void PoolMember::Report(const control::PoolBeat& question) {
  ledger_.Beat(question.beat, SteadyNow());
  std::string text = ReportJson();
  auto bytes = std::as_bytes(std::span(text));
  int file = MakeMemoryFile("farcall-report", {bytes.begin(), bytes.end()});
  if (file < 0) return;  // it asks again
  agent_.Send(control::PoolReport{.beat = question.beat}, {file});
  close(file);
}

std::string PoolMember::ReportJson() {
  Json report = {{"host", NameOf(options_)},
                 {"incarnation", std::to_string(incarnation_)},
                 {"draining", is_draining_},
                 {"endpoints", urls_},
                 {"net_bytes_per_s", std::to_string(bounds_.net_ceiling)},
                 {"park_bytes", std::to_string(bounds_.park_bytes)},
                 {"oversubscribe_milli", bounds_.oversubscribe_milli},
                 {"gpus", Json::array()},
                 {"claims", Json::array()}};
  for (size_t i = 0; i < devices_.devices.size(); ++i) {
    const DeviceSnapshot& device = devices_.devices[i];
    Json gpu = {{"name", device.name},
                {"uuid", UuidText(device.uuid)},
                {"memory_bytes", std::to_string(device.total_bytes)}};
    if (numa_nodes_[i]) gpu["numa_node"] = *numa_nodes_[i];
    if (link_groups_[i]) gpu["nvlink_group"] = *link_groups_[i];
    report["gpus"].push_back(std::move(gpu));
  }
  for (const auto& [name, held] : ledger_.held())
    report["claims"].push_back({{"claim", name},
                                {"epoch", std::to_string(held.grant.epoch)},
                                {"sessions", held.sessions},
                                {"ending", held.is_ending},
                                {"devices", held.grant.devices},
                                {"memory_bytes", std::to_string(held.grant.memory_bytes)},
                                {"share_milli", held.grant.share_milli},
                                {"limit_milli", held.grant.limit_milli},
                                {"priority", held.grant.priority},
                                {"seats", held.grant.seats},
                                {"net_bytes_per_s", std::to_string(held.grant.net_bytes_per_s)},
                                {"quota", std::to_string(held.grant.quota_revision)},
                                {"refused_quota", std::to_string(held.refused_revision)},
                                {"change_refused", held.change_refused},
                                {"parked", held.is_parked},
                                {"park_refused", held.park_refused}});
  for (const auto& [name, refusal] : ledger_.refused())
    report["claims"].push_back(
        {{"claim", name}, {"epoch", std::to_string(refusal.epoch)}, {"refused", refusal.why}});
  // For whoever asks the pool what runs; not with each of many reports in a row, which claims wait
  // for.
  if (Clock::now() >= next_status_) {
    next_status_ = Clock::now() + kStatusPause;
    Json status = calls_.status();
    // What does not fit beside the claims stays here: the report itself must come through.
    if (status.dump(-1, ' ', false, Json::error_handler_t::replace).size() <= kMaxStatusBytes)
      report["status"] = std::move(status);
  }
  return report.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void PoolMember::OnPoolAnswer(const control::PoolAnswer& message, int file) {
  Result<std::vector<std::byte>> bytes = ReadMemoryFile(file, kMaxAnswerBytes);
  if (!bytes.ok()) return;
  Json answer =
      Json::parse(reinterpret_cast<const char*>(bytes->data()),
                  reinterpret_cast<const char*>(bytes->data() + bytes->size()), nullptr, false);
  if (!answer.is_object()) return;
  std::vector<quota::ClaimGrant> grants;
  if (auto told = answer.find("grants"); told != answer.end() && told->is_array())
    for (const Json& grant : *told)
      if (grant.is_object()) grants.push_back(GrantOf(grant));
  Placements held_before = PlacementsIn(ledger_);
  Result<std::vector<std::string>> ends = ledger_.Answer(
      message.beat, Number(answer, "number"), Number(answer, "term"), grants, SteadyNow());
  if (!ends.ok()) {
    // That a report and an answer to the one before it cross is nothing to be told of.
    const bool is_crossing = ends.status().code() == Code::kInvalid;
    const auto level = is_crossing ? spdlog::level::debug : spdlog::level::warn;
    return spdlog::log(level, "pool: {}", ends.status().message());
  }
  std::string key = Text(answer, "key");  // hexadecimal
  LeasePublicKey read{};
  bool is_key = key.size() == 2 * read.size();
  for (size_t i = 0; is_key && i < read.size(); ++i)
    read[i] = static_cast<uint8_t>(std::strtoul(key.substr(2 * i, 2).c_str(), nullptr, 16));
  if (is_key) leases_.SetPool(Text(answer, "pool"), read);
  const std::map<std::string, std::string> reasons = ReasonsIn(answer);
  for (const std::string& claim : *ends) {
    auto ended = reasons.find(claim);
    calls_.end_sessions(claim, ended == reasons.end()
                                   ? "the pool has released claim " + claim
                                   : "the pool has ended claim " + claim + ": " + ended->second);
  }
  for (const std::string& claim : ledger_.TakeChanges()) {
    auto held = ledger_.held().find(claim);
    if (held == ledger_.held().end() || !held->second.wanted) continue;
    quota::ClaimGrant from = held->second.grant, to = *held->second.wanted;
    calls_.change(from, to);
  }
  for (const quota::ClaimLedger::Parking& parking : ledger_.TakeParkings()) {
    spdlog::info("pool: claim {} {}", parking.claim,
                 parking.leaves ? "leaves its devices" : "has its devices again");
    calls_.park(parking);
  }
  for (const auto& [name, refusal] : ledger_.refused())
    spdlog::warn("pool: claim {} refused: {}", name, refusal.why);
  bool tells_refusal = !ledger_.refused().empty() && Clock::now() >= next_refusal_;
  if (tells_refusal) next_refusal_ = Clock::now() + kRefusalPause;
  if (!ends->empty() || held_before != PlacementsIn(ledger_) || tells_refusal) Changed();
}

Result<quota::ClaimGrant> PoolMember::Admit(const std::string& token) {
  Result<Lease> lease = leases_.Check(token, UnixSeconds());
  if (!lease.ok()) return lease.status();
  Status opened = ledger_.OpenSeat(lease->claim, lease->epoch, SteadyNow());
  if (!opened.ok()) return opened;
  leases_.Use(*lease);
  Changed();
  return ledger_.held().at(lease->claim).grant;
}

void PoolMember::FinishChange(const std::string& claim, uint64_t revision,
                              const std::string& refused) {
  if (!refused.empty()) spdlog::warn("pool: change of claim {} refused: {}", claim, refused);
  ledger_.FinishChange(claim, revision, refused);
  Changed();
}

void PoolMember::FinishParking(const std::string& claim, const std::string& refused) {
  if (!refused.empty()) spdlog::warn("pool: claim {} is not parked: {}", claim, refused);
  ledger_.FinishParking(claim, refused);
  Changed();
}

void PoolMember::Leave(const std::string& claim) {
  ledger_.CloseSeat(claim);
  Changed();
}

void PoolMember::Drain() {
  is_draining_ = true;
  Changed();
}

void PoolMember::Changed() {
  agent_.Send(control::PoolChanged{});
}

void PoolMember::Tick() {
  if (!is_in_pool()) return;
  for (const std::string& claim : ledger_.Expire(SteadyNow())) {
    calls_.end_sessions(claim,
                        "claim " + claim + ": nothing was heard of the pool for its hold time");
    Changed();
  }
  if (!agent_.runs() && Clock::now() >= start_again_) {
    start_again_ = Clock::now() + kRestartPause;
    Status started = StartAgent();
    if (!started.ok()) spdlog::error("pool: {}", started.message());
  }
}

}  // namespace farcall::server
