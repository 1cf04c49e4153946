// SPDX-License-Identifier: Apache-2.0
// Projects: the tree, what its nodes count, and its bounds on waiting claims.
#include "tests/unit/pool/core/pool_core_case.h"

namespace farcall::pool {
namespace {

class PoolProjects : public PoolCore {
 protected:
  Effects Make(const std::string& name, const std::function<void(Project&)>& fill = nullptr) {
    SetProject set;
    set.project.name = name;
    if (fill) fill(set.project);
    return Do(set);
  }
  Effects Ask(const std::string& id, uint64_t gib, const std::string& project,
              const std::string& tenant = "") {
    RequestClaim request;
    request.id = id;
    request.tenant = tenant;
    request.ask.memory_bytes = gib * kGiB;
    request.ask.project = project;
    return Do(request);
  }
  const ProjectState& Of(const std::string& name) { return *core_.FindProject(name); }
};

TEST_F(PoolProjects, AClaimThatNamesNoneIsOfTheDefaultProject) {
  Ask("a", 4, "");
  EXPECT_EQ(core_.Find("a")->ask.project, kDefaultProject);
  EXPECT_EQ(Of(kDefaultProject).held, 1u);
  EXPECT_EQ(Of(kDefaultProject).used.memory_bytes, 4 * kGiB);
  EXPECT_EQ(Of(kDefaultProject).used.device_milli, 250u);
}

TEST_F(PoolProjects, AParentCountsWhatItsChildrenUse) {
  Make("research"), Make("research/vision"), Make("research/speech");
  Ask("v", 4, "research/vision"), Ask("s", 8, "research/speech"), Ask("waits", 16, "research");
  EXPECT_EQ(Of("research").used.memory_bytes, 12 * kGiB);
  EXPECT_EQ(Of("research/vision").used.memory_bytes, 4 * kGiB);
  EXPECT_EQ(Of("research").held, 2u);
  EXPECT_EQ(Of("research").pending, 1u);
  Beat(), Beat();
  Do(ReleaseClaim{"v", "asked for", {}});
  Beat(), Beat();
  EXPECT_EQ(Of("research/vision").claims(), 0u);
  EXPECT_EQ(Of("research").used.memory_bytes, 8 * kGiB);
}

TEST_F(PoolProjects, AClaimOfAnUnknownProjectIsRefused) {
  Effects asked = Ask("a", 4, "nobody");
  ASSERT_TRUE(asked.refusal);
  EXPECT_EQ(asked.refusal->field, "project");
  EXPECT_EQ(core_.Find("a"), nullptr);
}

TEST_F(PoolProjects, NamesAreBoundedAndParentsComeFirst) {
  for (const char* name : {"", "/", "a/", "/a", "a//b", "a b", "a\n", "=1+1", "1/2/3/4/5/6/7/8/9"})
    EXPECT_EQ(Make(name).refusal->field, "name") << name;
  EXPECT_EQ(Make(std::string(65, 'a')).refusal->field, "name");
  EXPECT_EQ(Make("none/child").refusal->message, "there is no project 'none' above it");
  EXPECT_FALSE(Make("Team_1.x-y").refusal);
}

TEST_F(PoolProjects, ValuesThatCannotBeAreRefused) {
  EXPECT_EQ(Make("p", [](Project& p) { p.weight = 0; }).refusal->field, "weight");
  EXPECT_EQ(Make("p", [](Project& p) { p.weight = kMaxWeight + 1; }).refusal->field, "weight");
  EXPECT_EQ(Make("p",
                 [](Project& p) {
                   p.deserved.gpus = 3;
                   p.limit.gpus = 2;
                 })
                .refusal->field,
            "deserved");
  EXPECT_EQ(Make("p",
                 [](Project& p) {
                   p.models = {{"A", {}, {}}, {"A", {}, {}}};
                 })
                .refusal->field,
            "models");
}

TEST_F(PoolProjects, AChangeOfAnotherRevisionIsRefused) {
  Make("p");
  SetProject again;
  again.project.name = "p";
  again.if_revision = Of("p").project.revision + 1;
  EXPECT_EQ(Do(again).refusal->code, RefusalCode::kConflict);
  again.if_revision = Of("p").project.revision;
  EXPECT_FALSE(Do(again).refusal);
  again.project.name = "q";
  again.if_revision = 5;
  EXPECT_EQ(Do(again).refusal->field, "If-Match");
}

TEST_F(PoolProjects, OnlyAnEmptyProjectIsDeleted) {
  Make("p"), Make("p-beside"), Make("p/child");
  EXPECT_EQ(Do(DeleteProject{"p", {}}).refusal->code, RefusalCode::kConflict);
  EXPECT_FALSE(Do(DeleteProject{"p/child", {}}).refusal);
  Ask("a", 4, "p");
  EXPECT_EQ(Do(DeleteProject{"p", {}}).refusal->code, RefusalCode::kConflict);
  Do(ReleaseClaim{"a", "asked for", {}});
  Beat(), Beat();
  Effects gone = Do(DeleteProject{"p", {}});
  EXPECT_FALSE(gone.refusal);
  EXPECT_EQ(gone.projects, std::set<std::string>{"p"});
  EXPECT_EQ(Do(DeleteProject{"p", {}}).refusal->code, RefusalCode::kNotFound);
  EXPECT_EQ(Do(DeleteProject{kDefaultProject, {}}).refusal->code, RefusalCode::kConflict);
}

TEST_F(PoolProjects, NoMoreWaitThanMay) {
  Make("p", [](Project& p) { p.max_pending = 2; });
  Make("p/q", [](Project& p) { p.tenant_max_pending = 1; });
  Ask("full", 16, "");
  EXPECT_FALSE(Ask("a1", 8, "p/q", "ann").refusal);
  Effects second = Ask("a2", 8, "p/q", "ann");
  EXPECT_EQ(second.refusal->message, "project 'p/q', this tenant: 1 claims wait, of 1 that may");
  EXPECT_FALSE(Ask("b1", 8, "p/q", "ben").refusal);
  EXPECT_EQ(Ask("c1", 8, "p", "cid").refusal->code, RefusalCode::kTooMany);
  EXPECT_EQ(core_.pending(), 2u);
}

TEST_F(PoolProjects, ANewControllerKnowsThem) {
  Make("p", [](Project& p) { p.weight = 3; });
  Ask("a", 4, "p");
  std::vector<Claim> claims = {*core_.Find("a")};
  std::vector<Host> hosts = {core_.hosts().at("h")};
  Core next;
  next.Load(claims, hosts, now_, {}, {Of("p").project});
  EXPECT_EQ(next.Broken(), "");
  EXPECT_EQ(next.FindProject("p")->project.weight, 3u);
  EXPECT_EQ(next.FindProject("p")->used.memory_bytes, 4 * kGiB);
  // One whose project the store has lost is of the default one.
  Core poorer;
  poorer.Load(claims, hosts, now_);
  EXPECT_EQ(poorer.Broken(), "");
  EXPECT_EQ(poorer.Find("a")->ask.project, kDefaultProject);
}

}  // namespace
}  // namespace farcall::pool
