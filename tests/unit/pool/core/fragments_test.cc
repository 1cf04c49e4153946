// SPDX-License-Identifier: Apache-2.0
// Placement by fragmentation.
#include "pool/core/placing/fragments.h"

#include <gtest/gtest.h>

#include "pool/core/placing/placer.h"

namespace farcall::pool {
namespace {

constexpr uint64_t kGiB = 1ull << 30;

// GPUs of 10 GiB of which so many thousandths of both resources are used.
Host MakeHost(const std::string& name, const std::vector<uint32_t>& used_milli) {
  Host host;
  host.name = name;
  host.state = HostState::kReady;
  for (uint32_t used : used_milli) {
    Gpu gpu;
    gpu.name = "Model A";
    gpu.memory_bytes = 10 * kGiB;
    gpu.used_milli = used;
    gpu.used_bytes = 10 * kGiB / 1000 * used;
    gpu.claims = used != 0 ? 1 : 0;
    host.gpus.push_back(gpu);
  }
  return host;
}

Ask Part(uint32_t milli, uint32_t count = 1) {
  Ask ask;
  ask.count = count;
  ask.memory_bytes = 10 * kGiB / 1000 * milli;
  ask.share_milli = milli;
  return ask;
}

Ask Whole(uint32_t count = 1) {
  Ask ask;
  ask.count = count;
  return ask;
}

// The published definition, as one would write it down.
double ByDefinition(const Host& host, const Demand& demand) {
  double sum = 0;
  for (const Demand::Typical& typical : demand.typical()) {
    double all = 0, useless = 0;
    uint32_t useful = 0;
    for (const Gpu& gpu : host.gpus) {
      const double part =
          (static_cast<double>(gpu.free_bytes()) / (10.0 * kGiB) + gpu.free_milli() / 1000.0) / 2;
      const bool is_useful = typical.size.memory_bytes == 0
                                 ? gpu.claims == 0
                                 : gpu.free_bytes() >= typical.size.memory_bytes &&
                                       gpu.free_milli() >= typical.size.share_milli;
      all += part;
      useful += is_useful ? 1 : 0;
      useless += is_useful ? 0 : part;
    }
    sum += typical.part * (useful < typical.size.count ? all : useless);
  }
  return sum;
}

TEST(Fragments, WhatIsOfNoUseToTheTypicalClaimIsCounted) {
  Demand demand;
  demand.Add(Part(500)), demand.Add(Whole());
  const Host host = MakeHost("a", {0, 600});
  // The half claim cannot use 0.4 of the second GPU, nor can the whole one.
  EXPECT_NEAR(FragmentsOf(host, demand), 0.4, 1e-6);
  // Nor can the whole one use anything of a host that has no empty GPU.
  EXPECT_NEAR(FragmentsOf(MakeHost("b", {100, 600}), demand), 0.5 * 0.4 + 0.5 * 1.3, 1e-6);
  demand.Add(Whole(2)), demand.Add(Whole(2));
  EXPECT_NEAR(FragmentsOf(host, demand), 0.5 * 0.4 + 0.5 * 1.4, 1e-6);
}

TEST(Fragments, TheRaiseIsTheDifferenceOfTwoStates) {
  uint64_t state = 7;
  auto below = [&](uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  };
  for (int round = 0; round < 300; ++round) {
    Demand demand;
    for (int i = 0; i < 6; ++i)
      demand.Add(below(3) == 0 ? Whole(1 + static_cast<uint32_t>(below(3)))
                               : Part(static_cast<uint32_t>(1 + below(9)) * 100,
                                      1 + static_cast<uint32_t>(below(2))));
    std::vector<uint32_t> used;
    for (uint64_t i = 0; i < 1 + below(8); ++i)
      used.push_back(static_cast<uint32_t>(below(10)) * 100);
    Host host = MakeHost("a", used);
    EXPECT_NEAR(FragmentsOf(host, demand), ByDefinition(host, demand), 1e-6);
    Claim claim;
    claim.ask = Part(static_cast<uint32_t>(1 + below(5)) * 100);
    std::vector<Candidate> candidates;
    FindGpus(host, claim, &candidates);
    if (candidates.empty()) continue;
    double least = 1e9;
    for (const Candidate& one : candidates) {
      Host after = host;
      Gpu& gpu = after.gpus[one.device];
      gpu.used_bytes += claim.ask.memory_bytes;
      gpu.used_milli += claim.ask.share_milli;
      gpu.claims += 1;
      least = std::min(least, ByDefinition(after, demand) - ByDefinition(host, demand));
    }
    EXPECT_NEAR(ChooseByFragments(host, claim.ask, demand, &candidates), least, 1e-6);
  }
}

TEST(Fragments, FgdLeavesWhatOthersCanUse) {
  // Claims ask for 0.3 and 0.6: on the first host 0.4 would stay, of no use to the second kind; on
  // the other 0.6 stays, which is just enough for it. The first is the tighter one.
  Hosts hosts = {{"a", MakeHost("a", {300})}, {"b", MakeHost("b", {100})}};
  Demand demand;
  demand.Add(Part(300)), demand.Add(Part(600));
  Claim claim;
  claim.ask = Part(300);
  EXPECT_EQ(FindPlace(hosts, claim, &demand)->host, "a");
  claim.ask.placer = Placer::kFgd;
  EXPECT_EQ(FindPlace(hosts, claim, &demand)->host, "b");
  EXPECT_EQ(FindPlace(hosts, claim)->host, "a");  // nobody has asked yet: as pack
}

TEST(Fragments, OfSeveralGpusEachIsChosenAfterTheOthers) {
  const Host host = MakeHost("a", {0, 500, 0, 500});
  Demand demand;
  demand.Add(Whole(2));
  Claim claim;
  claim.ask = Part(300, 2);
  claim.ask.placer = Placer::kFgd;
  EXPECT_EQ(FindPlace({{"a", host}}, claim, &demand)->devices, (std::vector<uint32_t>{1, 3}));
}

TEST(Fragments, TheMostFrequentSizesAreTypical) {
  Demand demand;
  for (uint32_t i = 1; i <= 40; ++i)
    for (uint32_t n = 0; n < i; ++n) demand.Add(Part(i * 10));
  EXPECT_EQ(demand.typical().size(), 32u);
  EXPECT_EQ(demand.typical().front().size.share_milli, 400u);
  for (uint32_t n = 0; n < 40; ++n) demand.Remove(Part(400));
  EXPECT_EQ(demand.typical().front().size.share_milli, 390u);
}

}  // namespace
}  // namespace farcall::pool
