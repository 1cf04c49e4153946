// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/pool_world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "generated/proto/pool.pb.h"
#include "proto/handshake/handshake.h"
#include "proto/hex.h"
#include "tests/fuzz/scratch_folder.h"

namespace farcall::fuzz {

namespace {

using namespace farcall::pool;
namespace v1 = farcall::pool::v1;

constexpr uint64_t kGib = uint64_t{1} << 30;
constexpr uint64_t kMoreThanAnyGpu = uint64_t{1} << 47;
constexpr Limits kLimits{};

std::string StorePath() {
  return ScratchFolder() + "/pool.db";
}

Caller Known(const char* token) {
  return *PoolWorld::callers().Recognise("Bearer " + std::string(token), "");
}

HostReport MakeHost(const std::string& name, std::vector<uint64_t> gpus) {
  HostReport report;
  report.host = name;
  report.incarnation = 1;
  report.endpoints = {"tcp://" + name + ":7717"};
  for (uint64_t bytes : gpus) {
    Gpu gpu;
    gpu.name = "GPU of " + name;
    gpu.uuid = "GPU-" + std::to_string(report.gpus.size());
    gpu.memory_bytes = bytes;
    report.gpus.push_back(gpu);
  }
  return report;
}

std::vector<ReportedClaim> Held(const std::vector<Grant>& grants) {
  std::vector<ReportedClaim> held;
  for (const Grant& grant : grants) {
    ReportedClaim claim;
    claim.claim = grant.claim;
    claim.epoch = grant.epoch;
    claim.devices = grant.devices;
    claim.memory_bytes = grant.memory_bytes;
    claim.share_milli = grant.share_milli;
    claim.limit_milli = grant.limit_milli;
    claim.priority = grant.priority;
    claim.seats = grant.seats;
    claim.net_bytes_per_s = grant.net_bytes_per_s;
    claim.quota_revision = grant.quota_revision;
    held.push_back(claim);
  }
  return held;
}

// Whoever gets a place gets what is there. What a host says later of its GPUs is its own affair.
void CheckPlace(const Host& host, const Claim& claim) {
  for (uint32_t device : claim.devices) {
    if (device >= host.gpus.size()) Fail("claim " + claim.id + " was placed on no GPU");
    const Gpu& gpu = host.gpus[device];
    if (gpu.used_bytes > gpu.memory_bytes || gpu.used_milli > kWholeMilli)
      Fail("claim " + claim.id + " was placed where there is no room");
    if (claim.is_exclusive() && gpu.claims != 1) Fail("claim " + claim.id + " shares a whole GPU");
  }
}

}  // namespace

void Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

const Callers& PoolWorld::callers() {
  static const auto* callers =
      new Callers(kOperatorToken, {TokenKeys(kTokenA).verifier(), TokenKeys(kTokenB).verifier()});
  return *callers;
}

Caller PoolWorld::tenant_a() {
  static const auto* caller = new Caller(Known(kTokenA));
  return *caller;
}

Caller PoolWorld::tenant_b() {
  static const auto* caller = new Caller(Known(kTokenB));
  return *caller;
}

PoolWorld::PoolWorld() {
  for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(StorePath() + end);
  Loaded loaded;
  auto store = Store::Open(StorePath(), &loaded);
  if (!store.ok()) Fail(store.status().message());
  controller_ = std::make_unique<Controller>(std::move(*store), loaded, Timing{}, kLimits);
  controller_->Start();
  ServiceOptions options;
  options.pool = loaded.pool;
  options.key = loaded.key;
  options.longest_wait = 1;
  service_ = std::make_unique<Service>(controller_.get(), options);
  std::array<uint8_t, 16> random;
  RandomBytes(random);
  secret_ = HexOf(random);
  hosts_ = {MakeHost("gpu1", {8 * kGib, 8 * kGib}), MakeHost("gpu2", {4 * kGib})};
  Beat();
  Request(tenant_a(), kGib, "a");
  Request(tenant_b(), 2 * kGib, secret_);
  Request(tenant_b(), kMoreThanAnyGpu, secret_);
  Request(tenant_a(), kMoreThanAnyGpu, "a");
  Beat();  // they are granted
  Beat();  // and held
  Check(false);
}

PoolWorld::~PoolWorld() {
  size_t claims = 0;
  controller_->Read([&](const Core& core, Ms) { claims = core.claims().size(); });
  controller_.reset();
  CheckStore(claims);
}

void PoolWorld::Request(const Caller& caller, uint64_t memory_bytes, const std::string& owner) {
  v1::ClaimRequest request;
  v1::Claim claim;
  request.set_memory_bytes(memory_bytes);
  request.set_owner(owner);
  Outcome outcome = service_->Request(caller, request, &claim);
  if (!outcome.ok()) Fail("the world's own claim: " + outcome.error.message());
}

void PoolWorld::Beat() {
  for (HostReport& report : hosts_) {
    ++report.beat;
    Effects effects = controller_->Apply(report);
    if (!effects.answer) Fail("a host that does as it is told got no answer");
    report.claims = Held(effects.answer->grants);
  }
}

std::string PoolWorld::WithClaims(std::string bytes) {
  constexpr std::string_view kNumber = "-000000000000000";  // and a digit
  size_t at = bytes.find(kNumber);
  if (at == bytes.npos) return bytes;
  std::map<std::string, std::string> ids;  // by what stands for it
  controller_->Read([&](const Core& core, Ms) {
    for (const auto& [id, claim] : core.claims()) {
      const std::string number = std::string(kNumber) + std::to_string(claim.order);
      ids["c" + number] = id;
      if (!claim.gang.empty()) ids["g" + number] = claim.gang;
    }
  });
  for (; at != bytes.npos; at = bytes.find(kNumber, at + 1)) {
    if (at == 0) continue;
    auto found = ids.find(bytes.substr(at - 1, kNumber.size() + 2));
    if (found != ids.end() && found->second.size() == found->first.size())
      bytes.replace(at - 1, found->second.size(), found->second);
  }
  return bytes;
}

void PoolWorld::Check(bool a_alone) {
  std::map<std::string, std::string> claims_b;
  std::string wrong;
  controller_->Read([&](const Core& core, Ms) {
    wrong = core.Broken();
    std::map<std::string, uint32_t> claims;
    for (const auto& [id, claim] : core.claims()) {
      if (!claim.tenant.empty() && !IsOver(claim.state)) ++claims[claim.tenant];
      if (claim.tenant == tenant_b().tenant)
        claims_b[id] = ToProto(claim, nullptr).SerializeAsString();
      uint64_t& epoch = placed_[id];
      if (claim.state == ClaimState::kReserved && epoch != claim.epoch)
        CheckPlace(core.hosts().at(claim.host), claim);
      epoch = claim.epoch;
    }
    for (const auto& [tenant, count] : claims)
      if (count > kLimits.tenant_claims) wrong = "a tenant has more claims than it may";
    for (const HostReport& honest : hosts_)
      for (const Gpu& gpu : core.hosts().at(honest.host).gpus)
        if (gpu.used_bytes > gpu.memory_bytes || gpu.used_milli > kWholeMilli ||
            (gpu.exclusive != 0 && gpu.claims != 1))
          wrong = "host " + honest.host + " has more on a GPU than there is";
  });
  if (!wrong.empty()) Fail(wrong);
  if (a_alone && claims_b != claims_b_) Fail("tenant a changed a claim of tenant b");
  claims_b_ = std::move(claims_b);
}

void PoolWorld::CheckStore(size_t claims) {
  Loaded loaded;
  auto store = Store::Open(StorePath(), &loaded);
  if (!store.ok()) Fail(store.status().message());
  size_t read = 0;
  for (const std::string& value : loaded.claims) read += v1::Claim().ParseFromString(value) ? 1 : 0;
  if (read != claims)
    Fail("the next controller reads " + std::to_string(read) + " of " + std::to_string(claims) +
         " claims");
  for (const std::string& value : loaded.hosts)
    if (!v1::Host().ParseFromString(value)) Fail("the next controller cannot read a host");
}

}  // namespace farcall::fuzz
