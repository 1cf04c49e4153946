// SPDX-License-Identifier: Apache-2.0
// Claims that are made before a kubelet asks for them.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "pool/k8s/plugin/early_claims.h"

namespace farcall::k8s {
namespace {

using Json = nlohmann::json;

const auto kNever = [] { return false; };

Pod PodOf(const std::string& uid, const Json& annotations = Json::object(),
          const Json& spec = Json::object()) {
  Json object = {
      {"metadata",
       {{"name", "train"}, {"namespace", "default"}, {"uid", uid}, {"annotations", annotations}}},
      {"spec",
       {{"nodeName", "node-1"},
        {"containers",
         Json::array({{{"name", "main"}, {"resources", {{"limits", {{kResource, "2"}}}}}}})}}},
      {"status", Json::object()}};
  object["spec"].update(spec);
  Result<Pod> pod = ReadPod(object);
  EXPECT_TRUE(pod.ok()) << pod.status().message();
  return *pod;
}

PodContainer ContainerOf(const std::string& uid) {
  return {"default", "train", uid, "main"};
}

EarlyClaims::Clock::time_point InAMinute() {
  return EarlyClaims::Clock::now() + std::chrono::minutes(1);
}

TEST(K8sEarly, WhoeverComesWhileAClaimIsMadeWaitsForItAndHasItOnce) {
  std::promise<void> may_end, has_begun;
  EarlyClaims early("node-1", [&](const PodContainer&, const pool::v1::ClaimRequest& ask) {
    has_begun.set_value();
    may_end.get_future().wait();
    return Result<ContainerClaim>(
        ContainerClaim{"c-1", "token of " + std::to_string(ask.count()) + " GPUs"});
  });
  early.Start();
  early.Begin(PodOf("a"));
  has_begun.get_future().wait();
  auto taken = std::async(std::launch::async,
                          [&] { return early.Take(ContainerOf("a"), InAMinute(), kNever); });
  may_end.set_value();
  const std::optional<ContainerClaim> claim = taken.get();
  ASSERT_TRUE(claim.has_value());
  EXPECT_EQ(claim->claim, "c-1");
  EXPECT_EQ(claim->token, "token of 2 GPUs");
  EXPECT_FALSE(early.Take(ContainerOf("a"), InAMinute(), kNever).has_value());
}

TEST(K8sEarly, AClaimThatCannotBeMadeIsLeftToWhoeverComes) {
  EarlyClaims early("node-1", [&](const PodContainer&, const pool::v1::ClaimRequest&) {
    return Result<ContainerClaim>(Status(Code::kUnavailable, "the pool is away"));
  });
  early.Start();
  early.Begin(PodOf("a"));
  EXPECT_FALSE(early.Take(ContainerOf("a"), InAMinute(), kNever).has_value());
}

// Which pods' claims were made by the time that pod "last" has its own.
std::set<std::string> MadeWithLast(const std::function<void(EarlyClaims&)>& before) {
  std::mutex mutex;
  std::set<std::string> made;
  std::promise<void> is_last;
  EarlyClaims early("node-1", [&](const PodContainer& container, const pool::v1::ClaimRequest&) {
    std::lock_guard lock(mutex);
    made.insert(container.uid);
    if (container.uid == "last") is_last.set_value();
    return Result<ContainerClaim>(ContainerClaim{"c-1", ""});
  });
  before(early);
  early.Begin(PodOf("last"));
  early.Start();
  is_last.get_future().wait();
  early.Stop();
  return made;
}

TEST(K8sEarly, WhatIsNotBegunYetIsLeftToWhoeverComes) {
  const std::set<std::string> made = MadeWithLast([](EarlyClaims& early) {
    early.Begin(PodOf("a"));
    EXPECT_FALSE(early.Take(ContainerOf("a"), InAMinute(), kNever).has_value());
    early.Begin(PodOf("b"));
  });
  EXPECT_EQ(made, (std::set<std::string>{"b", "last"}));
}

TEST(K8sEarly, AContainerThatHasAskedIsNotBegunLater) {
  const std::set<std::string> made = MadeWithLast([](EarlyClaims& early) {
    EXPECT_FALSE(early.Take(ContainerOf("a"), InAMinute(), kNever).has_value());
    early.Begin(PodOf("a"));
  });
  EXPECT_EQ(made, std::set<std::string>{"last"});
}

TEST(K8sEarly, PodsWhoseClaimsAreMadeLaterOrByOthersAreLeftAlone) {
  const std::set<std::string> made = MadeWithLast([](EarlyClaims& early) {
    early.Begin(PodOf("a", {{kAllocation, "{}"}}));
    early.Begin(PodOf("b", Json::object(), {{"initContainers", Json::array({{{"name", "x"}}})}}));
    early.Begin(PodOf("c", Json::object(), {{"nodeName", "node-2"}}));
    early.Begin(PodOf("d", {{"farcall.io/claim", "training"}}));
    early.Begin(PodOf("e", {{"farcall.io/mem", "50%"}}));
    early.Begin(PodOf("f", {{"farcall.io/mem", "none"}}));
  });
  EXPECT_EQ(made, std::set<std::string>{"last"});
}

}  // namespace
}  // namespace farcall::k8s
