// SPDX-License-Identifier: Apache-2.0
// The table of verbs against all that gRPC and REST offer.
#include "pool/access/access.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "generated/proto/pool.pb.h"
#include "pool/rest/rest.h"
#include "tests/fuzz/pool_world.h"

namespace farcall::pool {
namespace {

TEST(PoolAccess, has_a_row_for_each_call_and_each_route) {
  std::set<std::string> rows;
  for (const Rule& rule : Rules()) {
    EXPECT_TRUE(rows.insert(std::string(rule.verb)).second) << rule.verb;
    if (!rule.rest.empty()) EXPECT_TRUE(rows.insert(std::string(rule.rest)).second) << rule.rest;
    if (!rule.grpc.empty()) EXPECT_TRUE(rows.insert(std::string(rule.grpc)).second) << rule.grpc;
  }
  const google::protobuf::FileDescriptor* file = v1::Claim::descriptor()->file();
  for (int i = 0; i < file->service_count(); ++i)
    for (int j = 0; j < file->service(i)->method_count(); ++j) {
      const std::string call = file->service(i)->name() + "." + file->service(i)->method(j)->name();
      EXPECT_EQ(rows.count(call), 1u) << call;
    }
  const auto contract = nlohmann::json::parse(OpenApi());
  for (const auto& [path, methods] : contract["paths"].items())
    for (const auto& [method, what] : methods.items()) {
      std::string route = method + " " + path;
      for (char& c : route) {
        if (c == ' ') break;
        c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      }
      EXPECT_EQ(rows.count(route), 1u) << route;
    }
}

TEST(PoolAccess, leaves_what_has_no_row_to_operators) {
  const Caller user{false, "t", "alice", "id", "", {{Role::kAdmin, ""}}};
  std::string why;
  EXPECT_FALSE(May(user, RuleOf("GET /v1/secrets"), &why));
  EXPECT_TRUE(May({true, ""}, RuleOf("GET /v1/secrets"), &why));
}

TEST(PoolAccess, lets_a_claims_token_connect_to_its_claim_alone) {
  const Caller caller{false, "t", "", "id", "c-1", {}};
  size_t let_in = 0;
  for (const Rule& rule : Rules()) {
    std::string why;
    if (rule.lets_in == LetsIn::kAnybody || !May(caller, rule, &why)) continue;
    ++let_in;
    EXPECT_TRUE(rule.verb == "claims.connect" || rule.verb == "whoami") << rule.verb;
  }
  EXPECT_EQ(let_in, 2u);
  const Rule& connect = RuleOf("claims.connect");
  EXPECT_TRUE(MayTo(caller, connect, "c-1", "t", "default"));
  EXPECT_FALSE(MayTo(caller, connect, "c-2", "t", "default"));
  EXPECT_FALSE(MayTo(caller, RuleOf("claims.release"), "c-1", "t", "default"));
}

TEST(PoolAccess, keeps_others_claims_to_admins_of_their_project) {
  auto caller = [](Role role, const char* project) {
    return Caller{false, "t", "alice", "id", "", {{role, project}}};
  };
  const Rule& release = RuleOf("claims.release");
  EXPECT_FALSE(MayTo(caller(Role::kUser, "p"), release, "c", "other", "p"));
  EXPECT_TRUE(MayTo(caller(Role::kAdmin, "p"), release, "c", "other", "p"));
  EXPECT_TRUE(MayTo(caller(Role::kAdmin, "p"), release, "c", "other", "p/q"));
  EXPECT_FALSE(MayTo(caller(Role::kAdmin, "p/q"), release, "c", "other", "p"));
  // Its own: also when its role is gone.
  EXPECT_TRUE(MayTo(caller(Role::kNone, ""), release, "c", "t", "p"));
  EXPECT_FALSE(MayTo(caller(Role::kViewer, ""), RuleOf("claims.connect"), "c", "t", "p"));
}

TEST(PoolAccess, a_tenant_of_a_file_has_claims_in_the_projects_it_was_given) {
  const std::string token = "a token of a file";
  auto tenant = [&](std::vector<std::string> projects) {
    const Callers callers("operator", {TokenKeys(token).verifier()}, false, nullptr, false,
                          std::move(projects));
    return *callers.Recognise("Bearer " + token, "");
  };
  const Caller plain = tenant({"default"});
  EXPECT_EQ(plain.In("default"), Role::kUser);
  EXPECT_EQ(plain.In("research"), Role::kNone);
  EXPECT_EQ(plain.HomeProject(), "");
  const Caller other = tenant({"research", "sales/eu"});
  EXPECT_EQ(other.In("research/vision"), Role::kUser);
  EXPECT_EQ(other.In("sales"), Role::kNone);
  EXPECT_EQ(other.In("default"), Role::kNone);
  EXPECT_EQ(other.HomeProject(), "research");
}

TEST(PoolAccess, the_audit_has_a_claim_that_a_program_made_once_and_a_refused_one) {
  fuzz::PoolWorld world;
  const Caller caller = fuzz::PoolWorld::tenant_a();
  Ask ask;
  std::string id;
  ASSERT_TRUE(world.service().ClaimOfRun("run-1", "a@h", ask, &id, caller, "10.0.0.7:5").ok());
  ASSERT_TRUE(world.service().ClaimOfRun("run-1", "a@h", ask, &id, caller, "10.0.0.7:6").ok());
  ask.project = "research";
  EXPECT_EQ(world.service().ClaimOfRun("run-2", "a@h", ask, &id, caller, "10.0.0.8:1").http, 403);
  world.service().controller().Apply(Tick{});
  pb::AuditPage page;
  ASSERT_TRUE(world.service().ListAudit({true, ""}, {}, &page).ok());
  std::string all;
  size_t made = 0;
  for (const pb::AuditRow& row : page.rows())
    if (row.entry().find("10.0.0.") != std::string::npos) ++made, all += row.entry() + "\n";
  EXPECT_EQ(made, 2u) << all;
  EXPECT_NE(all.find(id), std::string::npos) << all;
  EXPECT_NE(all.find("claims.request"), std::string::npos) << all;
  EXPECT_NE(all.find("403"), std::string::npos) << all;
}

}  // namespace
}  // namespace farcall::pool
