// SPDX-License-Identifier: Apache-2.0
#include "pool/core/model/types.h"

#include <map>

#include "pool/core/model/tflops.h"
#include "settings/byte_rate.h"

namespace farcall::pool {

namespace {

constexpr uint32_t Bit(ClaimState state) {
  return 1u << static_cast<uint32_t>(state);
}
constexpr uint32_t Bit(HostState state) {
  return 1u << static_cast<uint32_t>(state);
}

// [from] = the states it may become.
constexpr std::array<uint32_t, kClaimStates> ClaimTable() {
  using enum ClaimState;
  std::array<uint32_t, kClaimStates> table{};
  auto row = [&](ClaimState from, uint32_t to) { table[static_cast<size_t>(from)] = to; };
  row(kPending, Bit(kReserved) | Bit(kReleased) | Bit(kExpired) | Bit(kFailed));
  row(kReserved, Bit(kPending) | Bit(kBound) | Bit(kActive) | Bit(kReleasing) | Bit(kReleased) |
                     Bit(kExpired) | Bit(kFailed));
  row(kBound, Bit(kActive) | Bit(kPreempting) | Bit(kReleasing) | Bit(kFailed));
  row(kActive, Bit(kIdle) | Bit(kPreempting) | Bit(kParked) | Bit(kReleasing) | Bit(kFailed));
  row(kIdle, Bit(kActive) | Bit(kPreempting) | Bit(kParked) | Bit(kReleasing) | Bit(kFailed));
  row(kPreempting, Bit(kActive) | Bit(kIdle) | Bit(kParked) | Bit(kReleasing) | Bit(kFailed));
  row(kParked, Bit(kActive) | Bit(kIdle) | Bit(kPending) | Bit(kReleasing) | Bit(kFailed));
  row(kReleasing, Bit(kPending) | Bit(kReleased) | Bit(kExpired) | Bit(kFailed));
  return table;
}

constexpr std::array<uint32_t, kHostStates> HostTable() {
  using enum HostState;
  std::array<uint32_t, kHostStates> table{};
  auto row = [&](HostState from, uint32_t to) { table[static_cast<size_t>(from)] = to; };
  row(kJoining, Bit(kReady) | Bit(kDraining) | Bit(kDrained) | Bit(kSuspect));
  row(kReady, Bit(kDraining) | Bit(kDrained) | Bit(kSuspect));
  row(kDraining, Bit(kReady) | Bit(kDrained) | Bit(kSuspect));
  row(kDrained, Bit(kReady) | Bit(kDraining) | Bit(kSuspect));
  row(kSuspect, Bit(kReady) | Bit(kDraining) | Bit(kDrained) | Bit(kLost));
  row(kLost, Bit(kJoining));
  return table;
}

constexpr auto kClaimTable = ClaimTable();
constexpr auto kHostTable = HostTable();

}  // namespace

std::string_view ToText(ClaimState state) {
  constexpr std::array<std::string_view, kClaimStates> kNames = {
      "pending", "reserved",  "bound",    "active",  "idle",  "preempting",
      "parked",  "releasing", "released", "expired", "failed"};
  return kNames[static_cast<size_t>(state)];
}

std::string_view ToText(HostState state) {
  constexpr std::array<std::string_view, kHostStates> kNames = {"joining", "ready",   "draining",
                                                                "drained", "suspect", "lost"};
  return kNames[static_cast<size_t>(state)];
}

void Ask::Choose(uint32_t which) {
  if (which >= sizes.size()) return;
  choice = which;
  const Size& size = sizes[which];
  count = size.count;
  memory_bytes = size.memory_bytes;
  share_milli = size.share_milli;
  gflops = size.gflops;
  model = size.model;
}

uint32_t ShareOn(const Host& host, const std::vector<uint32_t>& devices, const Ask& ask) {
  if (ask.gflops == 0) return ask.share_milli;
  uint32_t most = 0;
  for (uint32_t device : devices)
    if (device < host.gpus.size()) most = std::max(most, ShareOn(host.gpus[device], ask));
  return std::min(most, kWholeMilli);
}

bool MayBecome(ClaimState from, ClaimState to) {
  return (kClaimTable[static_cast<size_t>(from)] & Bit(to)) != 0;
}

bool MayBecome(HostState from, HostState to) {
  return (kHostTable[static_cast<size_t>(from)] & Bit(to)) != 0;
}

void Host::Summarise() {
  most_free_bytes = most_free_milli = empty_gpus = 0;
  for (const Gpu& gpu : gpus) {
    most_free_bytes = std::max(most_free_bytes, gpu.free_bytes());
    most_free_milli = std::max(most_free_milli, gpu.free_milli());
    empty_gpus += gpu.claims == 0 ? 1 : 0;
  }
}

// A label of one GPU has its number behind a dot; what labels say comes before what is reported.
void Host::Arrange() {
  std::map<std::string, uint32_t> links, nodes;
  auto number = [](std::map<std::string, uint32_t>* known, const std::string& place) {
    if (place.empty()) return 0u;
    return known->try_emplace(place, static_cast<uint32_t>(known->size()) + 1).first->second;
  };
  auto label = [this](const char* key, size_t index) {
    const std::string all = key;
    auto found = labels.find(all + "." + std::to_string(index));
    if (found == labels.end()) found = labels.find(all);
    return found == labels.end() ? std::string() : found->second;
  };
  for (size_t i = 0; i < gpus.size(); ++i) {
    Gpu& gpu = gpus[i];
    auto place = [&](const char* key, const std::optional<uint32_t>& reported) {
      std::string told = label(key, i);
      return told.empty() && reported ? std::to_string(*reported) : told;
    };
    gpu.link = number(&links, place("nvlink-group", gpu.nvlink_group));
    gpu.node = number(&nodes, place("numa-node", gpu.numa_node));
  }
}

bool IsHostName(std::string_view name) {
  constexpr size_t kMax = 64;
  constexpr std::string_view kGood =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !name.empty() && name.size() <= kMax &&
         name.find_first_not_of(kGood) == std::string_view::npos;
}

namespace {

constexpr uint32_t kMaxCount = 64, kMaxSeats = 4096;

}  // namespace

std::pair<std::string, std::string> FaultOf(const Ask& ask) {
  if (ask.sizes.size() > kMaxSizes)
    return {std::to_string(ask.sizes.size() - 1) + " alternatives: at most " +
                std::to_string(kMaxSizes - 1),
            "alternatives"};
  for (uint32_t i = 1; i < ask.sizes.size(); ++i) {
    Ask other = ask;
    other.Choose(i);
    other.sizes.clear();
    if (auto [wrong, field] = FaultOf(other); !wrong.empty())
      return {"alternative " + std::to_string(i) + ": " + wrong, "alternatives"};
  }
  auto text = [](uint64_t value) { return std::to_string(value); };
  if (ask.count < 1 || ask.count > kMaxCount)
    return {"count " + text(ask.count) + ": 1 to " + text(kMaxCount), "count"};
  if (ask.share_milli > kWholeMilli)
    return {"share " + text(ask.share_milli) + ": 0 to 1000 thousandths of a GPU", "share_milli"};
  if (ask.limit_milli > kWholeMilli)
    return {"limit " + text(ask.limit_milli) + ": 0 to 1000 thousandths of a GPU", "limit_milli"};
  if (ask.limit_milli != 0 && ask.share_milli > ask.limit_milli)
    return {"share " + text(ask.share_milli) + " above its limit " + text(ask.limit_milli),
            "share_milli"};
  if (ask.gflops > kMaxGflops) return {TflopsText(ask.gflops) + ": 0.001 to 100000", "tflops"};
  if (ask.gflops != 0 && ask.share_milli != 0)
    return {"share " + text(ask.share_milli) + " and " + TflopsText(ask.gflops) +
                ": give one of them, the share follows from the GPU",
            "tflops"};
  if (ask.gflops != 0 && ask.limit_milli != 0)
    return {"limit " + text(ask.limit_milli) + " and " + TflopsText(ask.gflops) +
                ": leave the limit out, the share follows from the GPU",
            "limit_milli"};
  if (ask.net_bytes_per_s != 0 &&
      (ask.net_bytes_per_s < kLeastBytesPerSecond || ask.net_bytes_per_s > kMaxBytesPerSecond))
    return {"network " + text(ask.net_bytes_per_s) + " bytes a second: " +
                text(kLeastBytesPerSecond) + " to " + text(kMaxBytesPerSecond),
            "net_bytes_per_s"};
  if (ask.priority > 2) return {"class " + text(ask.priority) + ": normal, high or low", "class"};
  if (ask.queue_priority < -kMaxQueuePriority || ask.queue_priority > kMaxQueuePriority)
    return {"queue_priority " + std::to_string(ask.queue_priority) + ": " +
                std::to_string(-kMaxQueuePriority) + " to " + std::to_string(kMaxQueuePriority),
            "queue_priority"};
  if (ask.seats < 1 || ask.seats > kMaxSeats)
    return {"max_sessions " + text(ask.seats) + ": 1 to " + text(kMaxSeats), "max_sessions"};
  if (std::string wrong = FaultOf(ask.labels); !wrong.empty()) return {wrong, "labels"};
  for (auto [value, name] : {std::pair(ask.queue_ms, "queue_ms"),
                             {ask.lifetime_ms, "lifetime_ms"},
                             {ask.on_disconnect_ms, "on_disconnect_ms"},
                             {ask.hold_ms, "hold_ms"}})
    if (value < 0)
      return {std::string(name) + " " + std::to_string(value) + ": not negative", name};
  return {};
}

}  // namespace farcall::pool
