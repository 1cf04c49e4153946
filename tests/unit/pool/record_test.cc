// SPDX-License-Identifier: Apache-2.0
// Records of a pool's core, played back.
#include "pool/record/record.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "pool/convert/convert.h"
#include "pool/record/replay.h"

namespace farcall::pool {
namespace {

constexpr uint64_t kGiB = 1ull << 30;

// A number below the one given, at random.
using Below = std::function<uint64_t(uint64_t)>;
using Apply = std::function<void(const Event&)>;

RequestClaim AnyRequest(const Below& below, uint64_t number) {
  RequestClaim request;
  request.id = "c" + std::to_string(number);
  request.tenant = below(2) == 0 ? "" : "t";
  request.owner = "somebody \\ \n";
  request.idempotency_key = below(3) == 0 ? "k" + std::to_string(below(9)) : "";
  request.is_run = below(2) == 0;
  if (below(4) == 0) request.members = 1 + static_cast<uint32_t>(below(3));
  request.now_unix = 7;
  request.ask.memory_bytes = below(3) * kGiB;
  request.ask.share_milli = static_cast<uint32_t>(below(3) * 250);
  request.ask.priority = static_cast<uint8_t>(below(3));
  request.ask.queue_priority = static_cast<int32_t>(below(3)) - 1;
  request.ask.preemptible = below(2) == 0;
  request.ask.placer = static_cast<Placer>(below(4));
  request.ask.labels = {{"team", "vision"}, {"a", ""}};
  if (below(4) == 0) {
    request.ask.sizes = {{1, 16 * kGiB, 0, ""}, {2, below(3) * kGiB, 250, "H100"}};
    request.ask.Choose(0);
  }
  if (below(4) == 0) request.ask.group = "g";
  if (below(3) == 0)
    (void)ParseSelector(below(2) == 0 ? "zone=a, !spot" : "model in (H100,A)",
                        &request.ask.selector);
  request.ask.project = below(4) == 0 ? "nobody" : "p";
  request.ask.lifetime_ms = static_cast<Ms>(below(2) * 5000);
  return request;
}

// Of a host that holds what it is granted.
HostReport AnyReport(const Below& below, const Core& core, uint64_t beat) {
  HostReport report;
  report.host = below(2) == 0 ? "a" : "b";
  report.incarnation = 1;
  report.beat = beat;
  report.endpoints = {"tcp://host:1"};
  report.park_bytes = below(2) * 8 * kGiB;
  report.oversubscribe_milli = 1000 + static_cast<uint32_t>(below(2)) * 500;
  report.gpus.resize(2);
  for (Gpu& gpu : report.gpus) {
    gpu.name = "NVIDIA \\ \x01 H100";
    gpu.memory_bytes = 4 * kGiB;
    if (below(2) == 0) gpu.numa_node = static_cast<uint32_t>(below(2));
    if (below(2) == 0) gpu.nvlink_group = static_cast<uint32_t>(below(2));
  }
  if (auto host = core.hosts().find(report.host); host != core.hosts().end())
    for (const std::string& id : host->second.claims) {
      ReportedClaim told;
      told.claim = id;
      told.epoch = core.Find(id)->epoch;
      told.sessions = static_cast<uint32_t>(below(2));
      told.quota_revision = core.Find(id)->quota_revision;
      if (below(9) == 0) told.refused = "no room";
      told.is_parked = below(2) == 0;
      if (below(9) == 0) told.park_refused = "its work does not end";
      report.claims.push_back(told);
    }
  return report;
}

void ApplyConfiguration(const Below& below, const Apply& apply) {
  SetProject set;
  set.project.name = "p";
  set.project.weight = 1 + static_cast<uint32_t>(below(3));
  set.project.deserved.gpus = below(3);
  set.project.models = {{"H100", {}, {{}, {}, 3}}};
  apply(set);
  apply(DeleteProject{"q", {}});
  SetGroup group;
  group.group.name = below(3) == 0 ? "default" : "g";
  if (group.group.name == "g") (void)ParseSelector("zone=a", &group.group.selector);
  group.group.projects = {"p"};
  group.group.sequencer = below(2) == 0 ? "" : "drf";
  group.group.placer = static_cast<Placer>(below(4));
  group.group.oversubscribe_milli = 1000 + static_cast<uint32_t>(below(3)) * 250;
  group.group.max_claims = static_cast<uint32_t>(below(4));
  apply(group);
  if (below(3) == 0) apply(DeleteGroup{"g", {}});
  apply(SetLabels{"a", {{"zone", below(2) == 0 ? "a" : "b"}, {"x", ""}, {"y", "z"}}, {}});
  ApplyConfig config;
  config.projects = {set.project};
  config.users = {{"bob", "tenant", {{Role::kViewer, "p"}}, true, 0, 0}};
  config.groups = {group.group};
  config.hosts = {{"b", {{"spot", ""}, {"zone", "a"}}}};
  config.is_dry_run = below(2) == 0;
  apply(config);
}

void ApplyAccounts(const Below& below, const Apply& apply,
                   const std::function<std::string()>& any_claim) {
  User user{"ann", "t", {{Role::kUser, ""}}, false, 7, 0};
  apply(AccountEvent{AddUser{user}, 7});
  const bool is_taken = below(2) == 0;
  apply(AccountEvent{SetRole{"ann", {Role::kAdmin, "p"}, is_taken}, 7});
  AccessToken token;
  token.id = "0123456789abcde" + std::to_string(below(3));
  token.user = "ann";
  token.verifier = "v";
  if (below(2) == 0) token.claim = any_claim();
  apply(AccountEvent{AddToken{token}, 7});
  if (below(3) == 0) apply(AccountEvent{RevokeToken{token.id}, 7});
  if (below(9) == 0) apply(AccountEvent{RemoveUser{"ann"}, 7});
}

constexpr int64_t kUnixMs = 1'790'000'000'000;

void ApplyReservations(const Below& below, const Apply& apply, int64_t now_unix) {
  MakeReservation make;
  make.now_unix = now_unix;
  make.reservation.name = "r" + std::to_string(below(3));
  make.reservation.begin_unix = now_unix + static_cast<int64_t>(below(30));
  make.reservation.end_unix = make.reservation.begin_unix + static_cast<int64_t>(below(60));
  apply(make);
  RequestClaim request;
  request.id = "of-r" + std::to_string(now_unix);
  request.now_unix = now_unix;
  request.ask.memory_bytes = 1u << 30;
  request.ask.reservation = below(2) == 0 ? "" : "r" + std::to_string(below(3));
  if (below(2) == 0) request.ask.begin_unix = now_unix + static_cast<int64_t>(below(30));
  if (below(2) == 0) request.ask.lifetime_ms = static_cast<Ms>(below(40'000));
  apply(request);
  if (below(5) == 0) apply(EndReservation{"r" + std::to_string(below(3))});
}

class PoolRecord : public testing::Test {
 protected:
  PoolRecord() { std::filesystem::remove(path_); }
  ~PoolRecord() override { std::filesystem::remove(path_); }

  // Whatever may come to a core, at random, of hosts that hold what they are granted.
  void RecordRandomly(uint64_t seed, int steps, const std::string& sequencer) {
    const v1::Snapshot snapshot = SnapshotOf(Loaded{}, {.settle = 0}, {}, {sequencer}, 1000);
    Core core = CoreOf(snapshot);
    auto writer = RecordWriter::Open(path_, snapshot);
    ASSERT_TRUE(writer.ok());
    std::mt19937_64 random(seed);
    auto below = [&](uint64_t n) { return random() % n; };
    Ms now = 1000;
    uint64_t beat = 0, made = 0;
    auto apply = [&](const Event& event) {
      const Effects effects = core.Apply(event, now);
      (*writer)->Write(event, effects, core, now);
    };
    auto any_claim = [&] {
      return core.claims().empty()
                 ? "none"
                 : std::next(core.claims().begin(), static_cast<long>(below(core.claims().size())))
                       ->first;
    };
    for (int i = 0; i < steps; ++i) {
      now += static_cast<Ms>(below(2000));
      switch (below(14)) {
        case 0:
        case 1:
        case 2:
          apply(AnyRequest(below, ++made));
          break;
        case 3:
          apply(ReleaseClaim{any_claim(),
                             "asked for",
                             {},
                             below(2) == 0 ? std::optional<std::string>("t") : std::nullopt});
          break;
        case 4:
          apply(RenewClaim{any_claim()});
          break;
        case 5: {
          ChangeClaim change;
          change.id = any_claim();
          if (below(2) == 0) change.memory_bytes = below(3) * kGiB;
          if (below(2) == 0) change.priority = static_cast<uint8_t>(below(3));
          if (below(2) == 0) change.preemptible = false;
          if (below(4) == 0) change.if_revision = below(100);
          apply(change);
          break;
        }
        case 6:
        case 7:
        case 8:
          apply(AnyReport(below, core, ++beat));
          break;
        case 9:
          apply(HostClosed{below(2) == 0 ? "a" : "b", 1});
          break;
        case 10:
          apply(MakeJoinToken{"hash" + std::to_string(below(3)),
                              {"", 100, 1 + static_cast<uint32_t>(below(2))},
                              7});
          if (below(3) == 0) apply(RevokeJoinToken{"j-hash" + std::to_string(below(3)), 8});
          apply(JoinHost{"c", "credential", "hash" + std::to_string(below(3)), 8});
          apply(SetHost{"a", static_cast<SetHost::Verb>(below(3)), {}});
          break;
        case 11:
          ApplyConfiguration(below, apply);
          break;
        case 12:
          ApplyAccounts(below, apply, any_claim);
          break;
        case 13:
          apply(Regranted{{"a"}});
          apply(Tick{kUnixMs + now});
          ApplyReservations(below, apply, (kUnixMs + now) / 1000);
          break;
      }
    }
    ASSERT_TRUE((*writer)->Close().ok());
  }
  std::string Bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Put(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

  const std::string path_ =
      std::filesystem::temp_directory_path() / ("farcall-record-" + std::to_string(getpid()));
};

TEST_F(PoolRecord, WhatFollowedFollowsAgainByteForByte) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::filesystem::remove(path_);
    RecordRandomly(seed, 200, SequencerNames()[seed % 4]);
    auto reader = RecordReader::Open(path_);
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    const Result<Replayed> replayed = Replay(**reader);
    ASSERT_TRUE(replayed.ok()) << replayed.status().message();
    EXPECT_GE(replayed->events, 200u);
    ASSERT_EQ(replayed->differs, 0u) << "seed " << seed << ", " << replayed->how;
    EXPECT_FALSE((*reader)->is_cut_off());
  }
}

TEST_F(PoolRecord, WhatTenantsHaveUsedOutlivesAController) {
  Core core({.settle = 0}, {}, {"fair", 3'600'000});
  core.Load({}, {}, 0);
  HostReport report;
  report.host = "a";
  report.incarnation = report.beat = 1;
  report.gpus.resize(1);
  report.gpus[0].memory_bytes = 4 * kGiB;
  core.Apply(report, 1000);
  RequestClaim request;
  request.id = "first";
  request.tenant = "ann";
  request.ask.memory_bytes = 4 * kGiB;
  core.Apply(request, 1000);
  ASSERT_EQ(core.Find("first")->host, "a");
  core.Apply(ReleaseClaim{"first", "done", {}}, 1'801'000);
  report.beat = 2;
  core.Apply(report, 1'801'000);
  const double used = core.FindProject("default")->tenants.at("ann").usage_ms;
  ASSERT_GT(used, 1'000'000);

  Core next = CoreOf(SnapshotOf(core, 1'801'000));
  EXPECT_EQ(next.Broken(), "");
  EXPECT_EQ(next.FindProject("default")->tenants.at("ann").usage_ms, used);
  for (const char* tenant : {"ann", "ben"}) {
    request.id = std::string("of-") + tenant;
    request.tenant = tenant;
    next.Apply(request, 1'801'000);
  }
  const std::vector<Waiting> order = next.InOrder(2);
  ASSERT_EQ(order.size(), 2u);
  EXPECT_EQ(order[0].claim->id, "of-ben") << "who came second has used nothing";
  // Nobody is told what others have used.
  EXPECT_EQ(pool::ToProto(*next.FindProject("default")).tenant_usage_ms_size(), 0);
}

TEST_F(PoolRecord, AnotherEffectIsFound) {
  RecordRandomly(1, 100, "fifo");
  auto reader = RecordReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  v1::Snapshot snapshot = (*reader)->snapshot();
  std::vector<v1::RecordedEvent> events = ReadAll(**reader)->events;
  std::filesystem::remove(path_);
  // The same events, of a pool that had been told another minimal time.
  Core core = CoreOf(snapshot);
  auto writer = RecordWriter::Open(path_, snapshot);
  ASSERT_TRUE(writer.ok());
  for (size_t i = 0; i < events.size(); ++i) {
    Effects effects = core.Apply(*FromProto(events[i]), events[i].now_ms());
    if (i == 41) effects.log_entries.push_back({"claim_moved", "c1", "a", ""});
    (*writer)->Write(*FromProto(events[i]), effects, core, events[i].now_ms());
  }
  ASSERT_TRUE((*writer)->Close().ok());
  reader = RecordReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  const Result<Replayed> replayed = Replay(**reader);
  ASSERT_TRUE(replayed.ok());
  EXPECT_EQ(replayed->differs, 42u);
  EXPECT_NE(replayed->how.find("claim_moved"), std::string::npos);
}

TEST_F(PoolRecord, AFileThatIsNoneOrIsCutOffIsSaidToBe) {
  EXPECT_EQ(RecordReader::Open("/nowhere/record").status().code(), Code::kUnavailable);
  Put("a text file");
  EXPECT_EQ(RecordReader::Open(path_).status().code(), Code::kInvalid);
  EXPECT_FALSE(RecordWriter::Open(path_, {}).ok());  // there is one already
  std::filesystem::remove(path_);
  RecordRandomly(2, 50, "drf");
  const std::string whole = Bytes();
  Put(whole.substr(0, whole.size() - 3));
  auto reader = RecordReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  ASSERT_TRUE(Replay(**reader).ok());
  EXPECT_TRUE((*reader)->is_cut_off());
  // A length that lies, and whatever bytes.
  std::mt19937_64 random(3);
  for (int i = 0; i < 300; ++i) {
    std::string wrong = whole;
    wrong[random() % wrong.size()] = static_cast<char>(random());
    Put(wrong);
    reader = RecordReader::Open(path_);
    if (!reader.ok()) continue;
    const Result<Recorded> record = ReadAll(**reader);
    if (!record.ok()) EXPECT_EQ(record.status().code(), Code::kInvalid);
  }
}

// One GPU and two projects, of which the first has asked for it three times before the second.
TEST_F(PoolRecord, AWhatIfTellsHowClaimsWouldHaveFared) {
  const v1::Snapshot snapshot = SnapshotOf(Loaded{}, {.settle = 0}, {}, {"fifo"}, 0);
  Core core = CoreOf(snapshot);
  auto writer = RecordWriter::Open(path_, snapshot);
  ASSERT_TRUE(writer.ok());
  Ms now = 0;
  HostReport report;
  report.host = "a";
  report.incarnation = 1;
  report.gpus.resize(1);
  report.gpus[0].memory_bytes = 4 * kGiB;
  auto apply = [&](const Event& event) {
    const Effects effects = core.Apply(event, now);
    (*writer)->Write(event, effects, core, now);
  };
  auto beat = [&] {
    report.claims.clear();
    for (const std::string& id :
         core.hosts().count("a") != 0 ? core.hosts().at("a").claims : std::set<std::string>()) {
      if (!IsGranted(core.Find(id)->state)) continue;
      report.claims.push_back({});
      report.claims.back().claim = id;
      report.claims.back().epoch = core.Find(id)->epoch;
      report.claims.back().sessions = 1;
    }
    ++report.beat;
    apply(report);
  };
  for (const char* name : {"first", "second"}) {
    SetProject set;
    set.project.name = name;
    apply(set);
  }
  beat();
  for (const char* id : {"f1", "f2", "f3", "s1"}) {
    RequestClaim request;
    request.id = id;
    request.ask.memory_bytes = 4 * kGiB;
    request.ask.project = id[0] == 'f' ? "first" : "second";
    apply(request);
  }
  for (const char* id : {"f1", "f2", "f3", "s1"}) {
    beat();
    now += 100'000;
    apply(ReleaseClaim{id, "done", {}});
    beat();
  }
  ASSERT_TRUE((*writer)->Close().ok());
  auto reader = RecordReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  const Result<Recorded> record = ReadAll(**reader);
  ASSERT_TRUE(record.ok());
  const Fared as_it_was = *Simulate(*record, {});
  EXPECT_EQ(as_it_was.claims, 4u);
  EXPECT_EQ(as_it_was.placed, 4u);
  EXPECT_EQ(as_it_was.waits, (std::vector<Ms>{0, 100'000, 200'000, 300'000}));
  EXPECT_GT(as_it_was.used_part, 0.99);
  Result<Fared> fair = Simulate(*record, {"drf", "spread"});
  ASSERT_TRUE(fair.ok());
  EXPECT_EQ(fair->sequencer, "drf");
  EXPECT_EQ(fair->placed, 4u);
  EXPECT_EQ(Simulate(*record, {"sjf", ""}).status().message(),
            "sequencer 'sjf': fifo, lifo, drf or fair");
  EXPECT_EQ(Simulate(*record, {"", "best"}).status().message(),
            "placer 'best': pack, spread, fgd, near or topology");
}

TEST_F(PoolRecord, ASnapshotRunsOnUnderAnotherRule) {
  Core core({.settle = 0}, {}, {});
  core.Load({}, {}, 0);
  HostReport report;
  report.host = "a";
  report.incarnation = 3;
  report.beat = 1;
  report.gpus.resize(1);
  report.gpus[0].memory_bytes = 4 * kGiB;
  core.Apply(report, 1);
  for (const char* name : {"crowd", "lab"}) {
    SetProject set;
    set.project.name = name;
    core.Apply(set, 1);
  }
  for (const char* id : {"c1", "c2", "c3", "c4", "lab"}) {
    RequestClaim request;
    request.id = id;
    request.ask.memory_bytes = 2 * kGiB;
    request.ask.project = id[0] == 'c' ? "crowd" : "lab";
    core.Apply(request, 1);
  }
  Recorded record{SnapshotOf(core, 3), {}};
  const Fared fifo = *Simulate(record, {"", "", 100'000});
  EXPECT_EQ(fifo.claims, 3u);  // two run
  EXPECT_EQ(fifo.placed, 3u);
  EXPECT_EQ(fifo.waits, (std::vector<Ms>{100'000, 100'000, 200'000}));
  const Fared fair = *Simulate(record, {"drf", "spread", 50'000});
  EXPECT_EQ(fair.waits, (std::vector<Ms>{50'000, 50'000, 100'000}));
  EXPECT_EQ(fair.sequencer + fair.placer, "drfspread");
  EXPECT_FALSE(Simulate(record, {"", "", 1}).ok());
  // A host that is silent runs nothing.
  core.Apply(Tick{}, 20'000);
  record.snapshot = SnapshotOf(core, 20'000);
  EXPECT_EQ(Simulate(record, {})->placed, 0u);
}

}  // namespace
}  // namespace farcall::pool
