// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "pool/k8s/claims/owner.h"
#include "pool/k8s/claims/pool_claims.h"
#include "pool/k8s/metrics/external_metrics.h"

namespace farcall::k8s {
namespace {

namespace pb = farcall::pool::v1;
using Json = nlohmann::json;

constexpr char kCluster[] = "cluster-uid";
constexpr int64_t kNow = 1'000'000;

pb::Claim ClaimOf(const std::string& id, const std::string& owner, const std::string& state) {
  pb::Claim claim;
  claim.set_id(id);
  claim.set_owner(owner);
  claim.set_state(state);
  claim.set_created(kNow - 90);
  if (state != "pending") {
    claim.add_devices(0);
    claim.add_devices(1);
    claim.set_memory_bytes(1 << 20);
  }
  return claim;
}

class K8sMetrics : public ::testing::Test {
 protected:
  K8sMetrics() {
    pods_["uid-1"] = {"team", "train-0", "node-1", {{"app", "train"}}};
    const std::string of_node = OwnerPrefix(kCluster, "node-1");
    claims_ = {
        ClaimOf("c-1", of_node + "uid-1:main:" + OwnerEnd("team", "train-0", "node-1"), "active"),
        ClaimOf("c-2", OwnerPrefix(kCluster, "") + "uid-2:vgpuclaim:team/data@", "pending"),
        // Of another cluster, of a pod that is no longer there, and of nobody.
        ClaimOf("c-3", OwnerPrefix("other", "") + "uid-3:vgpuclaim:team/data@", "pending"),
        ClaimOf("c-4", of_node + "uid-4:main:team/gone@node-1", "active"),
        ClaimOf("c-5", "somebody", "active"),
        // It names a pod of this cluster, but none of its plugins made it.
        ClaimOf("c-6", OwnerPrefix("other", "node-1") + "uid-1:main:team/train-0@node-1", "active"),
        ClaimOf("c-7", "k8s:uid-1", "active"), ClaimOf("c-8", "k8s:", "active")};
    control::v1::Vgpu* vgpu = status_.add_hosts()->mutable_status()->add_vgpus();
    vgpu->set_id("c-1");
    for (int i = 0; i < 2; ++i) {
      control::v1::VgpuDevice* device = vgpu->add_devices();
      device->set_used_bytes(1000);
      device->set_share_got_milli(350);
    }
    uses_ = UseOf(claims_, status_, pods_, kCluster, kNow);
  }
  Json Items(const std::string& metric, const std::string& selector = "",
             const std::string& space = "team") {
    Result<Json> told = MetricValues(metric, space, selector, uses_, kNow);
    EXPECT_TRUE(told.ok()) << told.status().message();
    return told->at("items");
  }
  std::string Only(const std::string& metric, const std::string& selector = "",
                   const std::string& space = "team") {
    const Json items = Items(metric, selector, space);
    EXPECT_EQ(items.size(), 1u) << items;
    return items.at(0).at("value");
  }

  std::map<std::string, LabelledPod> pods_;
  std::vector<pb::Claim> claims_;
  pb::PoolStatus status_;
  std::vector<ClaimUse> uses_;
};

TEST_F(K8sMetrics, ClaimsOfThisClusterAloneCount) {
  ASSERT_EQ(uses_.size(), 2u);
  EXPECT_EQ(uses_[0].claim, "c-1");
  EXPECT_EQ(uses_[1].claim, "c-2");
}

TEST_F(K8sMetrics, AClaimsFiguresAreOfAllItsGpus) {
  EXPECT_EQ(Only("farcall_vgpu_use"), "700m");
  EXPECT_EQ(Only("farcall_vgpu_memory_bytes"), "2000");
  EXPECT_EQ(Only("farcall_vgpu_memory_quota_bytes"), std::to_string(2 << 20));
  EXPECT_EQ(Only("farcall_vgpus"), "2");
  const Json labels = Items("farcall_vgpus").at(0).at("metricLabels");
  EXPECT_EQ(labels,
            (Json{{"app", "train"}, {"pod", "train-0"}, {"container", "main"}, {"claim", "c-1"}}));
}

TEST_F(K8sMetrics, HowLongTheLongestWaitsIsOneValue) {
  EXPECT_EQ(Only("farcall_queue_length"), "1");
  EXPECT_EQ(Only("farcall_queue_wait_seconds"), "90");
  claims_.push_back(ClaimOf("c-9", OwnerPrefix(kCluster, "") + "u:vgpuclaim:team/b@", "pending"));
  uses_ = UseOf(claims_, status_, pods_, kCluster, kNow + 10);
  EXPECT_EQ(Items("farcall_queue_length").size(), 2u);
  EXPECT_EQ(Only("farcall_queue_wait_seconds"), "100");
}

TEST_F(K8sMetrics, NothingIsZeroAndNotNoValue) {
  EXPECT_EQ(Only("farcall_vgpus", "", "elsewhere"), "0");
  EXPECT_EQ(Only("farcall_vgpu_use", "app=other"), "0");
  EXPECT_EQ(Only("farcall_queue_wait_seconds", "vgpuclaim=none"), "0");
}

TEST_F(K8sMetrics, SelectorsOfKubernetesAreTaken) {
  for (const char* takes : {"app", "app=train", "app==train", "app in (train,serve)", "!tier",
                            "tier!=gold", "app=train,pod notin (x)", "container=main"})
    EXPECT_EQ(Only("farcall_vgpus", takes), "2") << takes;
  for (const char* leaves : {"!app", "app!=train", "app notin (train)", "tier", "tier=gold"})
    EXPECT_EQ(Only("farcall_vgpus", leaves), "0") << leaves;
  EXPECT_EQ(MetricValues("farcall_vgpus", "team", "a in (", uses_, kNow).status().code(),
            Code::kInvalid);
}

TEST_F(K8sMetrics, EveryMetricIsListed) {
  const Json list = MetricList();
  for (const Json& metric : list.at("resources"))
    EXPECT_EQ(Items(metric.at("name")).size(), 1u) << metric;
  EXPECT_FALSE(MetricValues("farcall_nothing", "team", "", uses_, kNow).ok());
}

}  // namespace
}  // namespace farcall::k8s
