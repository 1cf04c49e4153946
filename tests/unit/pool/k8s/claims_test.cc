// SPDX-License-Identifier: Apache-2.0
// What the controller does next for a VGPUClaim, and how one is read.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "pool/core/model/placers.h"
#include "pool/k8s/claims/claim_object.h"
#include "pool/k8s/claims/claim_plan.h"
#include "pool/k8s/claims/owner.h"
#include "pool/k8s/claims/pool_claims.h"
#include "pool/k8s/pods/aliases.h"

namespace farcall::k8s {
namespace {

using Json = nlohmann::json;
using What = Step::What;

// A cluster and a pool of one claim: each step of the plan is done to them.
struct World {
  ClaimObject object;
  std::optional<ClaimClass> of_class;
  std::vector<PodUse> pods;
  std::optional<pool::v1::Claim> held;
  int requested = 0;

  World() {
    object.space = "n";
    object.name = "c";
    object.uid = "u-1";
    object.generation = 1;
  }
  Situation Now() const {
    Situation now;
    now.object = &object;
    now.of_class = of_class ? &*of_class : nullptr;
    now.pods = pods;
    now.held = held;
    return now;
  }
  Step Next() const { return NextStep(Now()); }
  void Do(const Step& step) {
    if (step.what == What::kAddFinalizer) object.finalizers.emplace_back(kFinalizer);
    if (step.what == What::kDropFinalizer) object.finalizers.clear();
    if (step.what == What::kReport) object.status = step.status;
    if (step.what == What::kRelease) held.reset();
    if (step.what == What::kChange) object.status.generation = object.generation;
    if (step.what == What::kRequest) {
      ++requested;
      held.emplace();
      held->set_id("c-" + std::to_string(step.status.bindings));
      held->set_state("bound");
      held->set_host("h");
      held->set_memory_bytes(1 << 20);
    }
  }
  // Every step that is left; the steps by their first letters.
  int Settle() {
    for (int steps = 0; steps < 20; ++steps) {
      const Step step = Next();
      if (step.what == What::kNothing) return steps;
      Do(step);
    }
    ADD_FAILURE() << "it never ends; phase " << object.status.phase;
    return -1;
  }
};

TEST(ClaimPlan, AnImmediateClaimIsBoundAtOnceAndReleasedWithItsPod) {
  World world;
  world.Settle();
  EXPECT_EQ(world.object.status.phase, "Bound");
  EXPECT_TRUE(world.object.has_finalizer());
  world.pods = {{"p", "p-1", "1"}};
  world.Settle();
  EXPECT_EQ(world.object.status.pod_uid, "p-1");
  EXPECT_EQ(world.requested, 1);
  world.pods.clear();
  world.Settle();
  EXPECT_EQ(world.object.status.phase, "Released");
  EXPECT_FALSE(world.held);
  EXPECT_EQ(world.requested, 1);
  world.pods = {{"q", "q-1", "2"}};
  world.Settle();
  EXPECT_EQ(world.object.status.claim, "c-1");  // another binding: another claim of the pool
}

TEST(ClaimPlan, AClaimThatWaitsIsRequestedForItsFirstPod) {
  World world;
  world.of_class.emplace();
  world.of_class->waits = true;
  world.object.class_name = "late";
  world.Settle();
  EXPECT_EQ(world.object.status.phase, "Pending");
  EXPECT_EQ(world.requested, 0);
  world.pods = {{"young", "a", "2"}, {"old", "b", "1"}};
  world.Settle();
  EXPECT_EQ(world.object.status.pod, "old");
  EXPECT_EQ(world.object.status.phase, "Bound");
}

TEST(ClaimPlan, ARetainedClaimGoesFromPodToPod) {
  World world;
  world.of_class.emplace();
  world.of_class->retains = true;
  world.object.class_name = "kept";
  for (const char* uid : {"a", "b"}) {
    world.pods = {{uid, uid, "1"}};
    world.Settle();
    EXPECT_EQ(world.object.status.pod_uid, uid);
    world.pods.clear();
    world.Settle();
    EXPECT_EQ(world.object.status.phase, "Bound");
    EXPECT_EQ(world.object.status.pod_uid, "");
  }
  EXPECT_EQ(world.requested, 1);
}

TEST(ClaimPlan, WhoeverDiesBetweenAnyTwoStepsLeaksNothing) {
  // The controller dies after `steps` of them; the pod or the claim ends; another one follows.
  for (int steps = 0; steps < 8; ++steps) {
    for (const bool deletes : {false, true}) {
      World world;
      world.pods = {{"p", "p-1", "1"}};
      for (int i = 0; i < steps; ++i) world.Do(world.Next());
      world.pods.clear();
      world.object.is_deleting = deletes;
      const bool was_given = !world.object.status.pod_uid.empty();
      world.Settle();
      if (deletes) EXPECT_TRUE(world.object.finalizers.empty()) << steps;
      if (deletes || was_given) EXPECT_FALSE(world.held) << steps;
    }
  }
}

TEST(ClaimPlan, NothingIsRequestedBeforeTheFinalizerStands) {
  World world;
  while (world.Next().what != What::kRequest) {
    ASSERT_NE(world.Next().what, What::kNothing);
    world.Do(world.Next());
  }
  EXPECT_TRUE(world.object.has_finalizer());
  EXPECT_EQ(world.object.status.generation, 1);
}

TEST(ClaimPlan, AClaimThatEndedInThePoolIsRequestedAnew) {
  World world;
  world.Settle();
  world.held.reset();
  const Step told = world.Next();
  EXPECT_EQ(told.what, What::kReport);
  EXPECT_EQ(told.status.reason, "the pool's claim c-0 has ended");
  EXPECT_EQ(told.status.bindings, 1u);
  world.Settle();
  EXPECT_EQ(world.object.status.claim, "c-1");
}

TEST(ClaimPlan, AStaleStatusReleasesNoNewerClaim) {
  World world;
  world.pods = {{"q", "q-1", "2"}};
  world.object.status = {"Bound", "c-0", "h",   {}, 0,
                         "",      "p",   "p-1", 0,  1};  // of a pod that is gone
  world.Settle();
  const std::string newer = world.held->id();
  world.object.status.pod = "p";
  world.object.status.pod_uid = "p-1";
  world.object.status.claim = "c-0";  // as a late watch would have it
  EXPECT_NE(world.Next().what, What::kRelease);
  EXPECT_EQ(world.held->id(), newer);
}

TEST(ClaimPlan, AChangedSpecChangesTheClaimOnce) {
  World world;
  world.Settle();
  world.object.generation = 2;
  EXPECT_EQ(world.Next().what, What::kChange);
  world.Settle();
  EXPECT_EQ(world.Next().what, What::kNothing);
}

TEST(ClaimPlan, AWrongSpecOrClassIsSaid) {
  World world;
  world.object.words["mem"] = "4";
  world.Settle();
  EXPECT_EQ(world.object.status.phase, "Failed");
  EXPECT_EQ(world.object.status.reason, "spec.mem '4': less than 64Ki; write 4Gi for 4 GiB");
  world.object.words["mem"] = "4Gi";
  world.Settle();
  EXPECT_EQ(world.object.status.phase, "Bound");
  World other;
  other.of_class.emplace();
  other.of_class->provisioner = "example.com/other";
  EXPECT_EQ(other.Next().what, What::kNothing);
}

Json Object(const Json& spec) {
  return {
      {"metadata", {{"namespace", "n"}, {"name", "c"}, {"uid", "u-1"}, {"resourceVersion", "7"}}},
      {"spec", spec}};
}

TEST(ClaimObjects, AnotherTypeThanTheSchemaHasEndsNothing) {
  for (const Json& wrong :
       {Json(), Json("text"), Json::array(), Json{{"metadata", "none"}},
        Json{{"metadata", {{"name", "../x"}, {"namespace", "n"}, {"uid", "u"}}}}})
    EXPECT_FALSE(ReadClaim(wrong).ok()) << wrong;
  Json odd = Object({{"mem", 4}, {"count", "two"}, {"className", Json::array()}});
  odd["status"] = {
      {"claim", "../../users"}, {"gpus", {-1, "x", 3}}, {"pod", "p"}, {"bindings", -5}};
  Result<ClaimObject> claim = ReadClaim(odd);
  ASSERT_TRUE(claim.ok());
  EXPECT_EQ(claim->wrong, "spec.count \"two\": write 1 to 64");
  EXPECT_EQ(claim->status.claim, "");  // what cannot be part of a path is no name
  EXPECT_EQ(claim->status.gpus, std::vector<uint32_t>{3});
  EXPECT_EQ(claim->status.bindings, 0u);
  EXPECT_FALSE(ReadClaim(Object({{"count", -1}}))->wrong.empty());
  EXPECT_FALSE(ReadClaim(Object({{"count", 65}}))->wrong.empty());
}

TEST(ClaimObjects, ItsOwnWordsComeBeforeItsClasss) {
  Result<ClaimObject> claim = ReadClaim(Object({{"mem", "1Gi"}, {"count", 2}, {"className", "k"}}));
  ASSERT_TRUE(claim.ok());
  ClaimClass of_class;
  of_class.words = {{"mem", "2Gi"}, {"limit", "50%"}};
  Result<Ask> ask = AskOf(*claim, &of_class);
  ASSERT_TRUE(ask.ok());
  EXPECT_EQ(ask->request.memory_bytes(), uint64_t{1} << 30);
  EXPECT_EQ(ask->request.limit_milli(), 500u);
  EXPECT_EQ(ask->request.count(), 2u);
  EXPECT_FALSE(AskOf(*claim, nullptr).ok());  // its class is not there
}

TEST(ClaimObjects, TflopsStandForAShare) {
  Result<ClaimObject> claim = ReadClaim(Object({{"mem", "1Gi"}, {"tflops", "12.5"}}));
  ASSERT_TRUE(claim.ok());
  EXPECT_EQ(AskOf(*claim, nullptr)->request.tflops(), 12.5);
  claim = ReadClaim(Object({{"tflops", "12.5"}, {"share", "30%"}}));
  EXPECT_EQ(AskOf(*claim, nullptr).status().message(),
            "spec.tflops: leave share and limit out, they follow from the GPU's model");
  claim = ReadClaim(Object({{"tflops", "many"}}));
  EXPECT_EQ(AskOf(*claim, nullptr).status().message(),
            "spec.tflops 'many': write TFLOPS of each GPU, 0.001 to 100000");
}

TEST(ClaimObjects, EveryPlacerOfThePoolIsTaken) {
  for (const std::string& placer : pool::PlacerNames()) {
    Result<ClaimObject> claim = ReadClaim(Object({{"placer", placer}}));
    ASSERT_TRUE(claim.ok());
    EXPECT_EQ(AskOf(*claim, nullptr)->request.placer(), placer);
  }
  Result<ClaimObject> claim = ReadClaim(Object({{"placer", "best"}}));
  EXPECT_EQ(AskOf(*claim, nullptr).status().message(),
            "spec.placer 'best': write pack, spread, fgd, near or topology");
}

TEST(ClaimObjects, AStatusIsReadAsItWasWritten) {
  ClaimObject claim = *ReadClaim(Object(Json::object()));
  const ClaimStatus status{"Bound", "c-1", "h", {0, 3}, 300 << 20, "why", "p", "p-1", 4, 2};
  const Json patch = StatusPatch(claim, status);
  EXPECT_EQ(patch["metadata"]["resourceVersion"], "7");
  Json object = Object(Json::object());
  object["status"] = patch["status"];
  EXPECT_EQ(ReadClaim(object)->status, status);
  EXPECT_EQ(QuantityOf(uint64_t{3} << 30), "3Gi");
  EXPECT_EQ(QuantityOf(1000), "1000");
  EXPECT_TRUE(IsOlder("9", "10"));
  EXPECT_FALSE(IsOlder("10", "9"));
  EXPECT_FALSE(IsOlder("a", "b"));
}

TEST(ClaimObjects, NoNodesOwnersAreTheControllers) {
  EXPECT_NE(OwnerPrefix("cluster", ""), OwnerPrefix("cluster", "node"));
  const std::string owner = OwnerPrefix("cluster", "") + "u-1:vgpuclaim:" + OwnerEnd("n", "c", "");
  std::optional<ClaimOwner> read = ReadOwner(owner);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->space + " " + read->pod + " " + read->container, "n c vgpuclaim");
}

TEST(ClaimObjects, APodNamesAClaimOfItsOwnNamespaceOrNone) {
  Pod pod;
  pod.asked = {{"main", "1"}};
  pod.annotations = {{"claim", "data"}};
  EXPECT_EQ(ReadAsk(pod, "main")->claim, "data");
  for (const char* forged : {"other/data", "../other/vgpuclaims/data", "", "Data", "a b"}) {
    pod.annotations = {{"claim", forged}};
    EXPECT_FALSE(ReadAsk(pod, "main").ok()) << forged;
  }
  pod.annotations = {{"claim", "data"}, {"mem", "1Gi"}};
  EXPECT_NE(ReadAsk(pod, "main").status().message().find("leave it out"), std::string::npos);
  pod.annotations = {{"claim.main", "data"}, {"claim", "else"}};
  EXPECT_EQ(ReadAsk(pod, "main")->claim, "data");
}

TEST(ElasticClaims, TflopsStandBesideMemory) {
  for (const char* name :
       {"elasticgpu.io/gpu-tflops", "gpushare.provisioner.elasticgpu.io/gpu-tflops"}) {
    const Json asks = {{"requests", {{"elasticgpu.io/gpu-memory", 256}, {name, 40}}}};
    Result<ClaimObject> claim = ReadElasticClaim(Object({{"resources", asks}}));
    ASSERT_TRUE(claim.ok());
    EXPECT_EQ(claim->wrong, "");
    EXPECT_EQ(AskOf(*claim, nullptr)->request.tflops(), 40) << name;
  }
  const Json alone = {{"requests", {{"elasticgpu.io/gpu-tflops", "40"}}}};
  EXPECT_EQ(ReadElasticClaim(Object({{"resources", alone}}))->wrong,
            "spec.resources: gpu-tflops '40': a part of a GPU needs elasticgpu.io/gpu-memory as "
            "well");
}

TEST(ElasticClaims, EverySpellingIsRead) {
  const Json asks = {{"requests", {{"elasticgpu.io/gpu-memory", 256}}}};
  for (const char* field : {"elasticGPUClassName", "egpuClassName", "storageClassName"}) {
    Result<ClaimObject> claim = ReadElasticClaim(Object({{field, "k"}, {"resources", asks}}));
    ASSERT_TRUE(claim.ok());
    EXPECT_EQ(claim->class_name, "elasticgpuclaim/k") << field;
    EXPECT_EQ(claim->own_name(), "c");
    EXPECT_EQ(claim->words.at("mem"), "256Mi");
  }
  for (const char* field : {"eGPUBindingMode", "egpuBindingMode"}) {
    Result<ClaimClass> read = ReadElasticClass({{"metadata", {{"name", "k"}}},
                                                {"provisioner", "elasticgpu.io/qgpu"},
                                                {"reclaimPolicy", "Retain"},
                                                {field, "WaitForFirstConsumer"}});
    ASSERT_TRUE(read.ok());
    EXPECT_TRUE(read->retains && read->waits) << field;
    EXPECT_EQ(read->provisioner, kProvisioner);
    EXPECT_EQ(read->name, "elasticgpuclaim/k");
  }
  Result<ClaimClass> other =
      ReadElasticClass({{"metadata", {{"name", "k"}}}, {"provisioner", "example.com/other"}});
  EXPECT_EQ(other->provisioner, "example.com/other");
}

TEST(ElasticClaims, ResourcesAreThoseOfTheAliases) {
  auto read = [](const Json& requests) {
    return *ReadElasticClaim(Object({{"resources", {{"requests", requests}}}}));
  };
  const std::string qgpu = "tke.cloud.tencent.com/qgpu-";
  for (const char* memory : {"4", "4Gi", "4GB"}) {
    const ClaimObject claim = read({{qgpu + "core", 10}, {qgpu + "memory", memory}});
    EXPECT_EQ(claim.wrong, "") << memory;
    EXPECT_EQ(claim.words.at("mem"), "4Gi");
    EXPECT_EQ(claim.words.at("limit"), "10%");
  }
  EXPECT_EQ(read({{qgpu + "core", 200}}).count, 2u);
  EXPECT_NE(read({{qgpu + "core", 7}, {qgpu + "memory", 1}}).wrong.find("steps of 5"),
            std::string::npos);
  EXPECT_NE(read(Json::object()).wrong.find("write what it asks"), std::string::npos);
  EXPECT_NE(read({{qgpu + "memory", 1}, {"elasticgpu.io/gpu-memory", 256}}).wrong.find("of one"),
            std::string::npos);
  EXPECT_FALSE(ReadElasticClaim(Json()).ok());
  EXPECT_FALSE(ReadElasticClaim(Object({{"resources", "none"}}))->wrong.empty());
}

TEST(ElasticClaims, APodNamesOneByEitherAnnotation) {
  for (const char* annotation : {"elasticgpu.io/egpuc-main", "egpuc.elasticgpu.io/main"}) {
    Json object = {
        {"metadata",
         {{"namespace", "n"}, {"name", "p"}, {"uid", "p-1"}, {"annotations", {{annotation, "c"}}}}},
        {"spec",
         {{"containers",
           Json::array({{{"name", "main"}, {"resources", {{"limits", {{kResource, "1"}}}}}}})}}}};
    Result<Pod> pod = ReadPod(object);
    ASSERT_TRUE(pod.ok());
    EXPECT_EQ(ReadAsk(*pod, "main")->claim, "elasticgpuclaim/c") << annotation;
    object["metadata"]["annotations"][annotation] = "other/c";
    EXPECT_FALSE(ReadAsk(*ReadPod(object), "main").ok());
    // The webhook gives the container a place.
    object["metadata"]["annotations"][annotation] = "c";
    object["spec"]["containers"][0]["resources"] = Json::object();
    Result<Translation> done = TranslatePod(object, {});
    ASSERT_TRUE(done.ok());
    const Json patched = object.patch(done->patch);
    EXPECT_EQ(patched["spec"]["containers"][0]["resources"]["limits"][kResource], "1");
  }
  EXPECT_EQ(ClaimPath("n", "elasticgpuclaim/c"),
            "/apis/elasticgpu.io/v1alpha1/namespaces/n/elasticgpuclaims/c");
  EXPECT_EQ(ClaimPath("n", "c"), "/apis/farcall.io/v1alpha1/namespaces/n/vgpuclaims/c");
}

}  // namespace
}  // namespace farcall::k8s
