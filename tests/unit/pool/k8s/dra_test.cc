// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "pool/k8s/dra/device_slices.h"
#include "pool/k8s/dra/resource_claim.h"

namespace farcall::k8s {
namespace {

using Json = nlohmann::json;

void AddHost(pool::v1::HostList* hosts, const std::string& name, uint32_t gpus,
             const std::string& state = "ready") {
  pool::v1::Host* host = hosts->add_hosts();
  host->set_name(name);
  host->set_state(state);
  for (uint32_t i = 0; i < gpus; ++i) {
    pool::v1::Gpu* gpu = host->add_gpus();
    gpu->set_index(i);
    gpu->set_name("NVIDIA A100");
    gpu->set_memory_bytes((uint64_t{80} << 30) - 1);
  }
}

// Writes all that is to be written, as the API server has it then.
size_t WriteAll(DeviceSlices* slices, std::map<std::string, Json>* server) {
  size_t writes = 0;
  while (auto change = slices->Next()) {
    ++writes;
    if (change->object.is_null())
      server->erase(change->name);
    else
      (*server)[change->name] = change->object;
    slices->Done(*change);
  }
  return writes;
}

// To all claims together; none has more than the GPU.
TEST(DeviceSlices, OfferWhatTheGroupLends) {
  pool::v1::HostList hosts;
  AddHost(&hosts, "h", 1);
  pool::v1::Gpu* gpu = hosts.mutable_hosts(0)->mutable_gpus(0);
  gpu->set_lendable_bytes((uint64_t{120} << 30) + 5);
  const Json memory = DeviceOf(hosts.hosts(0), *gpu)["capacity"]["memory"];
  EXPECT_EQ(memory["value"], "120Gi");
  EXPECT_EQ(memory["requestPolicy"]["default"], "81664Mi");
  EXPECT_EQ(memory["requestPolicy"]["validRange"]["max"], "81664Mi");
  gpu->set_lendable_bytes(0);
  EXPECT_EQ(DeviceOf(hosts.hosts(0), *gpu)["capacity"]["memory"]["value"], "81664Mi");
}

TEST(DeviceSlices, TenThousandGpusAreAtMost160Objects) {
  pool::v1::HostList hosts;
  for (int i = 0; i < 1250; ++i) AddHost(&hosts, "gpu-host-" + std::to_string(i), 8);
  DeviceSlices slices;
  std::map<std::string, Json> server;
  slices.Update(hosts);
  EXPECT_LE(WriteAll(&slices, &server), 160u);
  std::set<std::string> names;
  for (const auto& [name, slice] : server) {
    EXPECT_LE(slice["spec"]["devices"].size(), kDevicesOfSlice);
    EXPECT_EQ(slice["spec"]["pool"]["resourceSliceCount"], 1);
    for (const Json& device : slice["spec"]["devices"]) names.insert(device["name"]);
  }
  EXPECT_EQ(names.size(), 10'000u);
}

TEST(DeviceSlices, AChangeIsOneWriteAndOthersKeepTheirPlace) {
  pool::v1::HostList hosts;
  for (int i = 0; i < 40; ++i) AddHost(&hosts, "host-" + std::to_string(i), 8);
  DeviceSlices slices;
  std::map<std::string, Json> server;
  slices.Update(hosts);
  WriteAll(&slices, &server);
  const std::map<std::string, Json> before = server;
  hosts.mutable_hosts(17)->set_state("draining");
  slices.Update(hosts);
  const size_t writes = WriteAll(&slices, &server);
  EXPECT_GE(writes, 1u);
  EXPECT_LE(writes, 2u);  // a host's GPUs may be in two
  size_t tainted = 0;
  for (const auto& [name, slice] : server) {
    const bool is_other = slice != before.at(name);
    EXPECT_EQ(slice["spec"]["pool"]["generation"], is_other ? 2 : 1);
    for (const Json& device : slice["spec"]["devices"])
      if (device.contains("taints")) {
        ++tainted;
        EXPECT_EQ(device["taints"][0],
                  (Json{{"key", "farcall.io/draining"}, {"effect", "NoSchedule"}}));
      }
  }
  EXPECT_EQ(tainted, 8u);
}

TEST(DeviceSlices, WhoFollowsFindsAllAsItIs) {
  pool::v1::HostList hosts;
  AddHost(&hosts, "a", 8);
  AddHost(&hosts, "b", 8, "lost");
  DeviceSlices first;
  std::map<std::string, Json> server;
  first.Update(hosts);
  WriteAll(&first, &server);
  for (Json& device : server.begin()->second["spec"]["devices"])
    if (device.contains("taints")) {
      EXPECT_EQ(device["taints"][0]["effect"], "NoExecute");
      device["taints"][0]["timeAdded"] = "2026-01-01T00:00:00Z";  // as the API server does
    }
  DeviceSlices second;
  for (const auto& [name, slice] : server) second.Adopt(slice);
  second.Adopt({{"metadata", {{"name", "farcall-gpus-x"}}}});
  second.Update(hosts);
  EXPECT_FALSE(second.Next().has_value());
  second.Update({});
  EXPECT_EQ(WriteAll(&second, &server), 1u);
  EXPECT_TRUE(server.empty());
}

TEST(DeviceSlices, ADeviceIsSharedInSteps) {
  pool::v1::HostList hosts;
  AddHost(&hosts, "gpu-17", 1);
  (*hosts.mutable_hosts(0)->mutable_labels())["zone"] = "z1";
  (*hosts.mutable_hosts(0)->mutable_labels())["compute-capability"] = "8.0";
  const Json device = DeviceOf(hosts.hosts(0), hosts.hosts(0).gpus(0));
  EXPECT_EQ(device["name"], "gpu-17-gpu-0");
  EXPECT_EQ(device["allowMultipleAllocations"], true);
  const Json& memory = device["capacity"]["memory"];
  EXPECT_EQ(memory["value"], "81664Mi");  // whole steps
  EXPECT_EQ(memory["requestPolicy"]["validRange"],
            (Json{{"min", "256Mi"}, {"max", "81664Mi"}, {"step", "256Mi"}}));
  EXPECT_EQ(device["capacity"]["cores"]["requestPolicy"]["default"], "0");
  EXPECT_EQ(device["attributes"]["zone"], (Json{{"string", "z1"}}));
  EXPECT_EQ(device["attributes"]["computeCapability"], (Json{{"version", "8.0.0"}}));
  EXPECT_FALSE(device.contains("taints"));
}

TEST(DeviceSlices, NamesAreLabelsAndNoTwoHostsShareOne) {
  const std::string longest(200, 'a');
  std::set<std::string> names;
  for (const std::string& host : {std::string("gpu.example.org"), std::string("gpu-example-org"),
                                  std::string("GPU"), longest, longest + "b", std::string("ü")}) {
    const std::string name = DeviceName(host, 7);
    EXPECT_LE(name.size(), 63u);
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string::npos);
    names.insert(name);
  }
  EXPECT_EQ(names.size(), 6u);
}

Json Allocated(Json results) {
  return {{"metadata", {{"namespace", "team"}, {"name", "train"}, {"uid", "u-1"}}},
          {"status",
           {{"allocation", {{"devices", {{"results", std::move(results)}}}}},
            {"reservedFor", {{{"resource", "pods"}, {"name", "p"}, {"uid", "u-2"}}}}}}};
}

Json Result1(const char* device, Json more = Json::object()) {
  Json result = {{"request", "gpu"}, {"driver", "farcall.io"}, {"pool", "farcall-gpus-0"}};
  result["device"] = device;
  result.update(more);
  return result;
}

TEST(ResourceClaims, WhatTheSchedulerGaveIsOneClaimOfThePool) {
  const Json consumed = {{"consumedCapacity", {{"memory", "4352Mi"}, {"cores", "25"}}}};
  Json foreign = Result1("x", {{"driver", "gpu.nvidia.com"}});
  const auto claim = ReadResourceClaim(
      Allocated({Result1("a-gpu-0", consumed), foreign, Result1("a-gpu-1", consumed)}));
  ASSERT_TRUE(claim.ok()) << claim.status().message();
  ASSERT_EQ(claim->devices.size(), 2u);
  EXPECT_EQ(claim->pods, (std::vector<std::pair<std::string, std::string>>{{"p", "u-2"}}));
  const auto ask = AskOf(*claim);
  ASSERT_TRUE(ask.ok() && ask->has_value());
  EXPECT_EQ((*ask)->count, 2u);
  EXPECT_EQ((*ask)->memory_bytes, uint64_t{4352} << 20);
  EXPECT_EQ((*ask)->cores, 25u);
}

TEST(ResourceClaims, AnAdministratorTakesNothing) {
  const auto claim = ReadResourceClaim(Allocated({Result1("a-gpu-0", {{"adminAccess", true}})}));
  ASSERT_TRUE(claim.ok());
  const auto ask = AskOf(*claim);
  ASSERT_TRUE(ask.ok());
  EXPECT_FALSE(ask->has_value());
}

TEST(ResourceClaims, WhatIsWrongIsRefused) {
  EXPECT_FALSE(ReadResourceClaim(nullptr).ok());
  EXPECT_FALSE(ReadResourceClaim(Allocated(nullptr)["metadata"]).ok());
  Json pending = Allocated(Json::array());
  pending["status"].erase("allocation");
  EXPECT_EQ(ReadResourceClaim(pending).status().code(), Code::kRefused);
  for (const Json& capacity : {Json{{"memory", "0"}}, Json{{"memory", "lots"}},
                               Json{{"cores", "101"}}, Json{{"cores", "-1"}}})
    EXPECT_FALSE(
        ReadResourceClaim(Allocated({Result1("a-gpu-0", {{"consumedCapacity", capacity}})})).ok());
  EXPECT_FALSE(ReadResourceClaim(Allocated({Result1("../a")})).ok());
  const auto mixed = ReadResourceClaim(
      Allocated({Result1("a-gpu-0", {{"consumedCapacity", {{"memory", "1Gi"}}}}),
                 Result1("a-gpu-1", {{"consumedCapacity", {{"memory", "2Gi"}}}})}));
  ASSERT_TRUE(mixed.ok());
  EXPECT_NE(AskOf(*mixed).status().message().find("make a claim for each"), std::string::npos);
}

}  // namespace
}  // namespace farcall::k8s
