// SPDX-License-Identifier: Apache-2.0
// Labels, selectors, and configuration that is applied as a whole.
#include "pool/core/model/selector.h"

#include <random>

#include "tests/unit/pool/core/pool_core_case.h"

namespace farcall::pool {
namespace {

Selector Read(const std::string& text) {
  Selector selector;
  EXPECT_EQ(ParseSelector(text, &selector), "") << text;
  return selector;
}

bool Takes(const std::string& text, const Labels& labels) {
  return MatchesHost(Read(text), "gpu7", labels);
}

TEST(PoolSelector, EachFormTakesWhatItSays) {
  const Labels labels = {{"zone", "a"}, {"spot", ""}};
  for (const char* good : {"", "zone=a", "zone==a", "zone in (a,b)", " zone = a , spot", "spot",
                           "zone!=b", "zone notin (b, c)", "!disk", "disk!=ssd",
                           "spot=", "host=gpu7", "host in (gpu6,gpu7), zone", "model=H100"})
    EXPECT_TRUE(Takes(good, labels)) << good;
  for (const char* other : {"zone=b", "zone in (b,c)", "!zone", "zone!=a", "zone notin (a)", "disk",
                            "disk=ssd", "spot=yes", "host=gpu8", "zone=a, disk"})
    EXPECT_FALSE(Takes(other, labels)) << other;
  EXPECT_TRUE(MatchesGpu(Read("model in (A100, H100)"), "NVIDIA H100 80GB HBM3"));
  EXPECT_FALSE(MatchesGpu(Read("model!=H100"), "NVIDIA H100 80GB HBM3"));
  EXPECT_FALSE(MatchesGpu(Read("zone=a, model in (A100,L4)"), "NVIDIA H100 80GB HBM3"));
}

TEST(PoolSelector, WhatIsNoneIsRefusedWithTheRightForm) {
  Selector selector;
  for (const char* wrong :
       {"=a", "zone=a,", ",", "zone in a", "zone in (a", "zone in (a,", "zone a", "!zone=a",
        "zone=a b", "-1", "zone=\n", "zone=a;spot", "zone in", "!"})
    EXPECT_NE(ParseSelector(wrong, &selector), "") << wrong;
  EXPECT_NE(ParseSelector(std::string(64 << 10, 'a'), &selector), "");
  std::string terms = "a";
  for (size_t i = 0; i < kMaxTerms; ++i) terms += ",a";
  EXPECT_NE(ParseSelector(terms, &selector), "");
}

TEST(PoolSelector, ItsTextIsReadAsTheSameAgain) {
  for (const char* text : {"zone=a, !spot, model in (A100,H100)", "zone!=a", "zone notin (a,b)",
                           "spot", "spot=", "zone in (,b)"})
    EXPECT_EQ(Read(ToText(Read(text))), Read(text)) << text;
  std::mt19937_64 random(1);
  const std::string letters = "ab=!,() innot-/.";
  for (int i = 0; i < 200'000; ++i) {
    std::string text;
    for (size_t length = random() % 24; text.size() < length;)
      text += letters[random() % letters.size()];
    Selector selector;
    if (ParseSelector(text, &selector).empty()) ASSERT_EQ(Read(ToText(selector)), selector) << text;
  }
}

TEST(PoolSelector, LabelsAreBounded) {
  EXPECT_EQ(FaultOf(Labels{{"zone", "a"}, {"example.com/rack-1", "r_1"}, {"spot", ""}}), "");
  for (const Labels& wrong : std::vector<Labels>{{{"", "a"}},
                                                 {{"-zone", "a"}},
                                                 {{"zone", "a b"}},
                                                 {{"zone", std::string(64, 'a')}},
                                                 {{std::string(64 << 10, 'a'), ""}},
                                                 {{"zone\n", ""}},
                                                 {{"zone", "=1+1"}},
                                                 {{"model", "H100"}},
                                                 {{"host", "a"}}})
    EXPECT_NE(FaultOf(wrong), "");
  Labels many;
  for (int i = 0; i < 10'000; ++i) many["l" + std::to_string(i)] = "";
  EXPECT_EQ(FaultOf(many), "10000 labels: at most 64");
}

class PoolLabels : public PoolCore {
 protected:
  Effects Ask(const std::string& id, const std::string& selector) {
    RequestClaim request;
    request.id = id;
    request.ask.memory_bytes = kGiB;
    request.ask.selector = Read(selector);
    return Do(request);
  }
};

TEST_F(PoolLabels, AClaimWaitsForAHostWithItsLabelsAndGoesThereOnceItHasThem) {
  Ask("c", "zone=a, !spot");
  EXPECT_EQ(State("c"), ClaimState::kPending);
  const Explanation told = core_.Explain(*core_.Find("c"));
  EXPECT_NE(told.why.find("1 on hosts that its selector leaves out"), std::string::npos)
      << told.why;
  EXPECT_FALSE(told.pass.could_ever_fit);
  Do(SetLabels{"h", {{"zone", "a"}, {"spot", ""}}, {}});
  EXPECT_EQ(State("c"), ClaimState::kPending);
  const Effects effects = Do(SetLabels{"h", {{"zone", "a"}}, {}});
  EXPECT_EQ(effects.hosts, std::set<std::string>{"h"});
  EXPECT_EQ(State("c"), ClaimState::kReserved);
  Ask("model", "model=Model");
  EXPECT_EQ(State("model"), ClaimState::kReserved);
  Ask("other", "model in (B,C)");
  EXPECT_EQ(State("other"), ClaimState::kPending);
  // What runs stays, whatever its host is called later.
  Do(SetLabels{"h", {}, {}});
  EXPECT_EQ(State("c"), ClaimState::kReserved);
  EXPECT_EQ(Do(SetLabels{"nobody", {}, {}}).refusal->code, RefusalCode::kNotFound);
  EXPECT_EQ(Do(SetLabels{"h", {{"x y", ""}}, {}}).refusal->field, "labels");
  EXPECT_EQ(Do(SetLabels{"h", {}, 1}).refusal->code, RefusalCode::kConflict);
}

// No place is kept for a claim where its selector does not let it go.
TEST_F(PoolLabels, AgingKeepsNoPlaceOnAHostThatIsLeftOut) {
  Beat(0, "second");
  Do(SetLabels{"h", {{"zone", "a"}}, {}});
  Ask("holds", "zone=a");
  Ask("large", "zone=a");
  RequestClaim whole;
  whole.id = "whole";
  whole.ask.selector = Read("zone=a");
  Do(whole);
  for (int i = 0; i < 10; ++i) {
    Beat(1), Beat(1, "second");
    Wait(8'000);
  }
  EXPECT_EQ(State("whole"), ClaimState::kPending);
  EXPECT_TRUE(core_.IsKeptFor(*core_.Find("whole")));
  EXPECT_NE(core_.Explain(*core_.Find("whole")).why.find("a place on h is kept"),
            std::string::npos);
  Do(SetLabels{"h", {}, {}});
  Wait(1'000);
  EXPECT_FALSE(core_.IsKeptFor(*core_.Find("whole")));
}

ApplyConfig Config() {
  ApplyConfig config;
  Project child, parent;
  child.name = "research/vision";
  child.deserved.gpus = 2;
  parent.name = "research";
  parent.weight = 2;
  config.projects = {child, parent};
  config.users = {{"alice", "user-alice-1", {{Role::kUser, "research"}}, false, 0, 0}};
  config.hosts = {{"h", {{"zone", "a"}}}};
  return config;
}

std::string Text(const Effects& effects) {
  std::string text;
  for (const ConfigChange& change : effects.config) {
    text += change.kind + " " + change.name + " " + change.action;
    for (const ConfigChange::Field& field : change.fields)
      text += " " + field.name + ":" + field.before + ">" + field.after;
    text += "\n";
  }
  return text;
}

class PoolConfig : public PoolCore {};

TEST_F(PoolConfig, WhatIsDeclaredIsMadeOnceAndNothingTheSecondTime) {
  ApplyConfig config = Config();
  config.is_dry_run = true;
  const Effects dry = Do(config);
  EXPECT_EQ(core_.FindProject("research"), nullptr);
  EXPECT_TRUE(dry.projects.empty() && dry.hosts.empty() && dry.accounts.empty());
  config.is_dry_run = false;
  const Effects made = Do(config);
  EXPECT_FALSE(made.refusal);
  EXPECT_EQ(Text(made), Text(dry));
  EXPECT_EQ(Text(made),
            "project research create weight:>2\n"
            "project research/vision create deserved.gpus:>2 weight:>1\n"
            "user alice create role user in research:>yes\n"
            "host h change label zone:>a\n");
  EXPECT_EQ(made.projects, (std::set<std::string>{"research", "research/vision"}));
  const Effects again = Do(config);
  EXPECT_EQ(Text(again),
            "project research none\nproject research/vision none\nuser alice none\nhost h none\n");
  EXPECT_TRUE(again.projects.empty() && again.hosts.empty() && again.accounts.empty());
  // What is not named stays; a user's roles are those that are declared.
  ApplyConfig other;
  other.users = {{"alice", "", {{Role::kAdmin, "research/vision"}}, false, 0, 0}};
  const Effects roles = Do(other);
  EXPECT_EQ(Text(roles),
            "user alice change role admin in research/vision:>yes role user in research:yes>\n");
  EXPECT_EQ(core_.accounts().FindUser("alice")->tenant, "user-alice-1");
  EXPECT_EQ(core_.accounts().FindUser("alice")->roles,
            (std::vector<RoleBinding>{{Role::kAdmin, "research/vision"}}));
  EXPECT_EQ(core_.FindProject("research")->project.weight, 2u);
}

TEST_F(PoolConfig, IfAnythingCannotBeNothingIsDone) {
  using Spoil = std::function<void(ApplyConfig*)>;
  const std::vector<std::pair<Spoil, std::string>> all = {
      {[](ApplyConfig* c) { c->projects[0].weight = 0; }, "project 'research/vision': weight 0"},
      {[](ApplyConfig* c) { c->projects.pop_back(); }, "there is no project 'research' above it"},
      {[](ApplyConfig* c) { c->projects[1].name = "-1"; }, "that begin with a letter or digit"},
      {[](ApplyConfig* c) { c->projects.push_back(c->projects[0]); }, "it is there twice"},
      {[](ApplyConfig* c) { c->users[0].name = "=1"; }, "user '=1': a name has"},
      {[](ApplyConfig* c) { c->users[0].roles[0].project = "sales"; }, "no project 'sales'"},
      {[](ApplyConfig* c) {
         c->users[0].roles[0] = {Role::kOperator, "research"};
       },
       "an operator is one of the whole pool"},
      {[](ApplyConfig* c) { c->hosts["gpu9"] = {}; }, "host 'gpu9': it has not joined the pool"},
      {[](ApplyConfig* c) {
         c->hosts["h"] = {{"a b", ""}};
       },
       "host 'h': label 'a b'"},
  };
  for (const auto& [spoil, words] : all) {
    ApplyConfig config = Config();
    spoil(&config);
    const Effects effects = Do(config);
    ASSERT_TRUE(effects.refusal) << words;
    EXPECT_NE(effects.refusal->message.find(words), std::string::npos) << effects.refusal->message;
    EXPECT_EQ(core_.FindProject("research"), nullptr) << words;
    EXPECT_TRUE(core_.accounts().users().empty());
    EXPECT_TRUE(core_.hosts().at("h").labels.empty());
  }
}

TEST_F(PoolConfig, NoProjectIsCalledLikeAnOptionOrAFormula) {
  for (const char* name : {"-1", "=1+1", "a/-b", ".hidden", "_a", "@x", "a//b"})
    EXPECT_FALSE(IsProjectName(name)) << name;
  for (const char* name : {"a", "1", "a/b-1._", "Research"})
    EXPECT_TRUE(IsProjectName(name)) << name;
}

}  // namespace
}  // namespace farcall::pool
