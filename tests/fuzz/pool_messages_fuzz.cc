// SPDX-License-Identifier: Apache-2.0
// What a pool's gRPC takes: input items {u8 what, u8 who, u16 bytes, body}. `what` is a call of
// pool.proto or control.proto and the body its message, or the report of a host that lies, or the
// end of its stream; `who` asks. They go to what is behind gRPC. Whatever comes, answers are
// bounded and can be read, claims of tenant b are nobody else's, and nobody gets what is not there.
#include <google/protobuf/message.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "generated/proto/control.pb.h"
#include "generated/proto/pool.pb.h"
#include "pool/access/access.h"
#include "server/control_plane/quota_request.h"
#include "tests/fuzz/pool_world.h"

namespace {

using namespace farcall;
using farcall::fuzz::Fail;
using farcall::fuzz::PoolWorld;
using google::protobuf::Message;
namespace control = farcall::control::v1;

constexpr size_t kMaxItems = 32;
constexpr size_t kMaxAnswerBytes = 4u << 20;  // what a gRPC client takes
constexpr size_t kMaxMessageBytes = 1024;     // of an error: it travels in a header
constexpr size_t kMaxGrants = 8192;

struct Item {
  PoolWorld& world;
  pool::Caller caller;
  const std::string& body;
};

void CheckAnswer(const Item& item, const Message& answer) {
  if (answer.ByteSizeLong() > kMaxAnswerBytes) Fail("an answer that no client takes");
  const std::string bytes = answer.SerializeAsString();
  std::unique_ptr<Message> again(answer.New());
  if (!again->ParseFromString(bytes)) Fail("an answer that no client can read");
  const bool is_b = item.caller.is_operator || item.caller.tenant == PoolWorld::tenant_b().tenant;
  if (!is_b && bytes.find(item.world.secret()) != bytes.npos)
    Fail("a caller sees a claim of tenant b");
}

void CheckOutcome(const Item& item, const pool::Outcome& outcome, const Message& answer) {
  if (outcome.error.message().size() > kMaxMessageBytes) Fail("an error without a bound");
  CheckAnswer(item, outcome.error);
  CheckAnswer(item, answer);
}

template <typename In, typename Out>
std::function<void(const Item&)> Call(pool::Outcome (pool::Service::*call)(const pool::Caller&,
                                                                           const In&, Out*)) {
  return [call](const Item& item) {
    In in;
    Out out;
    if (!in.ParseFromString(item.body)) return;
    CheckOutcome(item, (item.world.service().*call)(item.caller, in, &out), out);
  };
}

template <typename Out>
std::function<void(const Item&)> Call(pool::Outcome (pool::Service::*call)(const pool::Caller&,
                                                                           Out*)) {
  return [call](const Item& item) {
    Out out;
    CheckOutcome(item, (item.world.service().*call)(item.caller, &out), out);
  };
}

std::function<void(const Item&)> Change(pool::SetHost::Verb verb) {
  return [verb](const Item& item) {
    pool::pb::HostName in;
    pool::pb::Host out;
    if (!in.ParseFromString(item.body)) return;
    CheckOutcome(item, item.world.service().ChangeHost(item.caller, in, verb, &out), out);
  };
}

void CheckReport(const pool::HostReport& report) {
  constexpr uint64_t kMaxBytes = uint64_t{1} << 46, kMaxSum = uint64_t{1} << 62;
  uint64_t sum = 0;
  for (const pool::Gpu& gpu : report.gpus)
    if (gpu.memory_bytes > kMaxBytes) Fail("a GPU without a bound");
  for (const pool::ReportedClaim& claim : report.claims) {
    sum += claim.memory_bytes * claim.devices.size();
    if (claim.memory_bytes > kMaxBytes || sum > kMaxSum || claim.share_milli > 1000 ||
        claim.limit_milli > 1000 || claim.priority > 2 || claim.seats < 1 || claim.seats > 4096 ||
        claim.devices.size() > 64)
      Fail("a reported claim without a bound");
  }
}

// As the stream of a host takes it. Each host reports under the name of its credential: this one's
// is "rogue".
void Report(const Item& item) {
  pool::pb::HostReport told;
  if (!told.ParseFromString(item.body)) return;
  told.set_host("rogue");
  Result<pool::HostReport> report = pool::FromProto(told);
  if (!report.ok()) return;
  CheckReport(*report);
  if (told.has_status()) item.world.service().NoteStatus("rogue", told.status());
  pool::Effects effects = item.world.service().controller().Apply(*report);
  if (!effects.answer) return;
  if (effects.answer->grants.size() > kMaxGrants) Fail("an answer that no host takes");
  for (const pool::Grant& grant : effects.answer->grants) CheckAnswer(item, pool::ToProto(grant));
}

void CloseStream(const Item& item) {
  uint64_t incarnation = 0;
  std::memcpy(&incarnation, item.body.data(), std::min(sizeof(incarnation), item.body.size()));
  item.world.service().controller().Apply(pool::HostClosed{"rogue", incarnation});
}

void SetQuota(const Item& item) {
  control::SetQuotaRequest request;
  if (!request.ParseFromString(item.body)) return;
  server::QuotaChange change;
  Status read = control_plane::ReadQuota(request, &change);
  if (read.message().size() > kMaxMessageBytes) Fail("an error without a bound");
  if (!read.ok()) return;
  if (change.share_milli.value_or(0) > 1000 || change.limit_milli.value_or(0) > 1000 ||
      change.priority.value_or(WirePriority::kNormal) > WirePriority::kLow)
    Fail("a quota without a bound");
}

// What may be asked, and its verb in the table of pool/access/access.cc.
struct Question {
  const char* verb;
  std::function<void(const Item&)> ask;
};

const std::vector<Question>& Questions() {
  using pool::Service;
  using Verb = pool::SetHost::Verb;
  static const auto* questions = new std::vector<Question>{
      {"claims.request", Call(&Service::Request)},
      {"claims.get", Call(&Service::Get)},
      {"claims.list", Call(&Service::List)},
      {"claims.update", Call(&Service::Update)},
      {"claims.release", Call(&Service::Release)},
      {"claims.renew", Call(&Service::Renew)},
      {"claims.explain", Call<pool::pb::ClaimName, pool::pb::Explanation>(&Service::Explain)},
      {"claims.connect", Call(&Service::Connect)},
      {"claims.plan", Call(&Service::Plan)},
      {"hosts.list", Call(&Service::ListHosts)},
      {"gpus.list", Call(&Service::ListGpus)},
      {"hosts.status", Call(&Service::GetStatus)},
      {"pool.info", Call(&Service::GetInfo)},
      {"join_tokens.new", Call(&Service::NewJoinToken)},
      {"hosts.join", Call(&Service::Join)},
      {"hosts.drain", Change(Verb::kDrain)},
      {"hosts.cordon", Change(Verb::kCordon)},
      {"hosts.uncordon", Change(Verb::kUncordon)},
      {"hosts.report", Report},
      {"hosts.report", CloseStream},
      {"hosts.report", SetQuota},
      // Seeds name the calls above by their place here.
      {"queue.list", Call(&Service::ListQueue)},
      {"projects.list", Call(&Service::ListProjects)},
      {"projects.get", Call(&Service::GetProject)},
      {"projects.set", Call(&Service::ChangeProject)},
      {"projects.delete", Call(&Service::DeleteProject)},
      {"hosts.label", Call(&Service::SetLabels)},
      {"config.apply", Call(&Service::Apply)},
      {"users.add", Call(&Service::AddUser)},
      {"users.remove", Call(&Service::RemoveUser)},
      {"users.list", Call(&Service::ListUsers)},
      {"roles.grant", Call(&Service::GrantRole)},
      {"roles.revoke", Call(&Service::RevokeRole)},
      {"tokens.new", Call(&Service::NewToken)},
      {"tokens.list", Call(&Service::ListTokens)},
      {"tokens.revoke", Call(&Service::RevokeToken)},
      {"audit.list", Call(&Service::ListAudit)},
      {"whoami", Call(&Service::WhoAmI)},
      {"join_tokens.list", Call(&Service::ListJoinTokens)},
      {"join_tokens.revoke", Call(&Service::RevokeJoinToken)},
      {"reservations.create", Call(&Service::CreateReservation)},
      {"reservations.list", Call(&Service::ListReservations)},
      {"reservations.get", Call(&Service::GetReservation)},
      {"reservations.delete", Call(&Service::DeleteReservation)},
      {"gangs.request", Call(&Service::RequestGang)},
      {"gangs.get", Call(&Service::GetGang)},
      {"gangs.release", Call(&Service::ReleaseGang)},
      {"gangs.plan", Call(&Service::PlanGang)},
      {"groups.list", Call(&Service::ListGroups)},
      {"groups.get", Call(&Service::GetGroup)},
      {"groups.set", Call(&Service::ChangeGroup)},
      {"groups.delete", Call(&Service::DeleteGroup)},
  };
  return *questions;
}

// Nobody in particular, the tenants, and the operator.
pool::Caller CallerOf(uint8_t who) {
  const std::array<pool::Caller, 4> callers = {PoolWorld::tenant_a(), pool::Caller{},
                                               PoolWorld::tenant_b(), pool::Caller{true, ""}};
  return callers[who % callers.size()];
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);  // as `farcall pool serve`
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  PoolWorld world;
  size_t at = 0;
  bool a_alone = true;  // else a host's beat may grant what another asked for
  for (size_t items = 0; size - at >= 4 && items < kMaxItems; ++items) {
    uint16_t bytes = 0;
    std::memcpy(&bytes, data + at + 2, sizeof(bytes));
    const size_t take = std::min<size_t>(bytes, size - at - 4);
    const std::string body =
        world.WithClaims(std::string(reinterpret_cast<const char*>(data + at + 4), take));
    const uint8_t what = data[at], who = data[at + 1];
    const Item item{world, CallerOf(who), body};
    const Question& question = Questions()[what % Questions().size()];
    std::string why;
    if (pool::May(item.caller, pool::RuleOf(question.verb), &why)) question.ask(item);
    world.Check(who % 4 < 2);
    a_alone = a_alone && who % 4 < 2;
    if (who >= 128) {
      world.Beat();
      world.Check(a_alone);
    }
    at += 4 + take;
  }
  world.Beat();
  world.Check(a_alone);
  return 0;
}
