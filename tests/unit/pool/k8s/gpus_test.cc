// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "pool/k8s/controller/gpu_objects.h"

namespace farcall::k8s {
namespace {

using Json = nlohmann::json;

pool::v1::HostList OneHost(const std::string& name, const std::string& state, uint32_t claims) {
  pool::v1::HostList hosts;
  pool::v1::Host* host = hosts.add_hosts();
  host->set_name(name);
  host->set_state(state);
  for (uint32_t i = 0; i < 2; ++i) {
    pool::v1::Gpu* gpu = host->add_gpus();
    gpu->set_index(i);
    gpu->set_name("GPU");
    gpu->set_memory_bytes(uint64_t{8} << 30);
    gpu->set_used_bytes(i == 0 ? uint64_t{1} << 30 : 0);
    gpu->set_used_milli(i == 0 ? 255 : 0);
    gpu->set_claims(i == 0 ? claims : 0);
  }
  return hosts;
}

ClaimObject BoundClaim() {
  ClaimObject claim;
  claim.space = "team";
  claim.name = "elasticgpuclaim/data";
  claim.uid = "uid-1";
  claim.status.phase = "Bound";
  claim.status.claim = "c-1";
  claim.status.host = "gpu-17";
  claim.status.gpus = {0, 1};
  claim.status.memory_bytes = uint64_t{512} << 20;
  claim.status.pod = "train-0";
  return claim;
}

TEST(GpuObjects, EachCardIsOneAndSaysWhatIsTaken) {
  const auto objects = GpuObjects(OneHost("gpu-17", "ready", 2), {});
  ASSERT_EQ(objects.size(), 2u);
  const Json& taken = objects.at("gpu-17-gpu-0");
  EXPECT_EQ(taken["spec"]["capacity"],
            (Json{{"elasticgpu.io/gpu-core", "100"}, {"elasticgpu.io/gpu-memory", "8Gi"}}));
  EXPECT_EQ(taken["status"]["phase"], "Bound");
  EXPECT_EQ(taken["status"]["used"],
            (Json{{"elasticgpu.io/gpu-core", "26"}, {"elasticgpu.io/gpu-memory", "1Gi"}}));
  EXPECT_EQ(objects.at("gpu-17-gpu-1")["status"]["phase"], "Available");
}

TEST(GpuObjects, ACardOfALostHostHasFailed) {
  const auto objects = GpuObjects(OneHost("gpu-17", "lost", 1), {});
  EXPECT_EQ(objects.at("gpu-17-gpu-0")["status"]["phase"], "Failed");
  EXPECT_EQ(objects.at("gpu-17-gpu-0")["status"]["reason"], "host gpu-17 is lost");
}

TEST(GpuObjects, EachGpuOfABoundClaimIsASliceThatRefersToIt) {
  ClaimObject waiting = BoundClaim();
  waiting.status.phase = "Pending";
  waiting.status.claim = "c-2";
  const auto objects = GpuObjects(OneHost("gpu-17", "ready", 1), {BoundClaim(), waiting});
  ASSERT_EQ(objects.size(), 4u);
  const Json& slice = objects.at("c-1-1");
  EXPECT_EQ(slice["spec"]["elasticGPUSource"], (Json{{"gpuShare", {{"gpu", "gpu-17-gpu-1"}}}}));
  EXPECT_EQ(slice["spec"]["claimRef"], (Json{{"apiVersion", "elasticgpu.io/v1alpha1"},
                                             {"kind", "ElasticGPUClaim"},
                                             {"namespace", "team"},
                                             {"name", "data"},
                                             {"uid", "uid-1"}}));
  EXPECT_EQ(slice["status"], (Json{{"phase", "Bound"}, {"pod", "train-0"}}));
}

TEST(GpuObjects, HostsWhoseNamesAreNoObjectsHaveObjectsOfTheirOwn) {
  pool::v1::HostList hosts = OneHost("GPU_17", "ready", 0);
  hosts.MergeFrom(OneHost("gpu-17", "ready", 0));
  hosts.MergeFrom(OneHost("gpu 17", "ready", 0));
  const auto objects = GpuObjects(hosts, {});
  EXPECT_EQ(objects.size(), 6u);
  for (const auto& [name, object] : objects) EXPECT_TRUE(IsName(name)) << name;
}

}  // namespace
}  // namespace farcall::k8s
