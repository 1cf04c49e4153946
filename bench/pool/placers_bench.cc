// SPDX-License-Identifier: Apache-2.0
// pool-placers [RUNS] [HOSTS]: how much of a pool each placer hands out, without the core's queue.
// Claims of a synthetic trace come until they have asked for 1.3 times what there is; none ends,
// and what finds no room is gone, as in the simulations of "Beware of Fragmentation" (Weng et al.,
// USENIX ATC 2023). All placers get the same claims in the same order; run N has seed N.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "bench/pool/trace_shapes.h"
#include "pool/core/placing/placer.h"

namespace farcall::pool {
namespace {

constexpr uint64_t kGiB = 1ull << 30;
constexpr double kAsked = 1.3;  // of what there is
constexpr double kMarks[] = {0.9, 1.0, 1.1, 1.3};

// GPUs of a host, and how many such hosts of 1,213 there are.
struct Kind {
  uint32_t gpus = 0, weight = 0;
};
constexpr Kind kHosts[] = {{8, 617}, {2, 518}, {4, 54}, {1, 24}};

enum class Load { kOneResource, kTwoResources, kSharing };

template <typename Row, size_t N>
const Row& Any(const Row (&rows)[N], std::mt19937_64& random) {
  uint32_t all = 0;
  for (const Row& row : rows) all += row.weight;
  uint64_t at = random() % all;
  for (const Row& row : rows) {
    if (at < row.weight) return row;
    at -= row.weight;
  }
  return rows[0];
}

Hosts MakeHosts(size_t count, std::mt19937_64& random) {
  Hosts hosts;
  for (size_t i = 0; i < count; ++i) {
    Host host;
    host.name = "host-" + std::to_string(10'000 + i);
    host.state = HostState::kReady;
    host.gpus.resize(Any(kHosts, random).gpus);
    for (Gpu& gpu : host.gpus) {
      gpu.name = "GPU";
      gpu.memory_bytes = 80 * kGiB;
    }
    host.Summarise();
    hosts[host.name] = std::move(host);
  }
  return hosts;
}

Ask AnyAsk(Load load, std::mt19937_64& random) {
  const Shape* shape = &Any(kShapes, random);
  // Of a cluster whose claims all share GPUs.
  while (load == Load::kSharing && shape->milli == kWholeMilli) shape = &Any(kShapes, random);
  Ask ask;
  ask.count = shape->count;
  ask.share_milli = shape->milli;
  uint32_t memory_milli = shape->milli;
  if (load == Load::kTwoResources && shape->milli != kWholeMilli)
    memory_milli = std::min<uint32_t>(
        950, static_cast<uint32_t>(shape->milli / 2 + random() % (shape->milli + 1)));
  ask.memory_bytes = shape->milli == kWholeMilli ? 0 : 80 * kGiB / 1000 * memory_milli;
  return ask;
}

void Put(const Place& place, const Ask& ask, Hosts* hosts) {
  Host& host = hosts->at(place.host);
  for (uint32_t device : place.devices) {
    Gpu& gpu = host.gpus[device];
    const bool is_whole = ask.memory_bytes == 0;
    gpu.used_bytes += is_whole ? gpu.memory_bytes : ask.memory_bytes;
    gpu.used_milli += is_whole ? kWholeMilli : ask.share_milli;
    gpu.claims += 1;
    gpu.exclusive += is_whole ? 1 : 0;
  }
  host.Summarise();
}

struct Outcome {
  double handed_out[std::size(kMarks)] = {};  // of all GPUs' time, when so much had been asked for
  double ms = 0;                              // for one decision, in the mean
};

Outcome Run(Placer placer, const Hosts& empty, const std::vector<Ask>& asks) {
  Hosts hosts = empty;
  double all = 0, asked = 0, placed = 0;
  for (const auto& [name, host] : hosts) all += static_cast<double>(host.gpus.size());
  // The sizes that are typical are known beforehand, from the same trace, as in the publication.
  Demand demand;
  for (const Ask& ask : asks) demand.Add(ask);
  Outcome outcome;
  size_t mark = 0;
  const auto begun = std::chrono::steady_clock::now();
  for (const Ask& ask : asks) {
    Claim claim;
    claim.ask = ask;
    claim.ask.placer = placer;
    const double size = ask.count * ask.share_milli / 1000.0;
    asked += size;
    if (const std::optional<Place> place = FindPlace(hosts, claim, &demand)) {
      placed += size;
      Put(*place, ask, &hosts);
    }
    while (mark < std::size(kMarks) && asked >= kMarks[mark] * all)
      outcome.handed_out[mark++] = placed / all;
  }
  outcome.ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count() /
      static_cast<double>(asks.size());
  return outcome;
}

void Compare(const char* name, Load load, uint64_t runs, size_t hosts) {
  std::printf("%s\n%-8s %10s %10s %10s %10s %12s\n", name, "placer", "at 0.9", "at 1.0", "at 1.1",
              "at 1.3", "ms/decision");
  for (Placer placer : {Placer::kPack, Placer::kFgd, Placer::kSpread}) {
    Outcome sum;
    for (uint64_t seed = 1; seed <= runs; ++seed) {
      std::mt19937_64 random(seed);
      const Hosts empty = MakeHosts(hosts, random);
      double all = 0, asked = 0;
      for (const auto& [host, one] : empty) all += static_cast<double>(one.gpus.size());
      std::vector<Ask> asks;
      while (asked < kAsked * all) {
        asks.push_back(AnyAsk(load, random));
        asked += asks.back().count * asks.back().share_milli / 1000.0;
      }
      const Outcome one = Run(placer, empty, asks);
      for (size_t i = 0; i < std::size(kMarks); ++i) sum.handed_out[i] += one.handed_out[i];
      sum.ms += one.ms;
    }
    const auto n = static_cast<double>(runs);
    std::printf("%-8s", std::string(ToText(placer)).c_str());
    for (double part : sum.handed_out) std::printf(" %9.2f%%", 100 * part / n);
    std::printf(" %12.3f\n", sum.ms / n);
  }
}

}  // namespace
}  // namespace farcall::pool

int main(int argc, char** argv) {
  using namespace farcall::pool;
  const uint64_t runs = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10;
  const size_t hosts = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 150;
  std::printf(
      "%zu hosts, the mean of %llu runs, seeds 1 to %llu; of the GPUs' time, handed out when "
      "so much had been asked for\n",
      hosts, static_cast<unsigned long long>(runs), static_cast<unsigned long long>(runs));
  Compare("memory in proportion to time", Load::kOneResource, runs, hosts);
  Compare("memory apart from time", Load::kTwoResources, runs, hosts);
  Compare("parts of GPUs alone", Load::kSharing, runs, hosts);
  return 0;
}
