// SPDX-License-Identifier: Apache-2.0
// What each name of another GPU-sharing scheme becomes, and what is said of a wrong one.
#include "pool/k8s/pods/aliases.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "pool/k8s/claims/owner.h"
#include "pool/k8s/pods/pod.h"
#include "pool/k8s/process/serving_certificate.h"
#include "pool/k8s/webhook/webhook.h"
#include "transport/tls/certificates.h"

namespace farcall::k8s {
namespace {

using Json = nlohmann::json;
using Limits = std::map<std::string, std::string>;

Json Container(const std::string& name, const Limits& limits) {
  Json container = {{"name", name}, {"resources", {{"limits", Json::object()}}}};
  for (const auto& [resource, value] : limits) container["resources"]["limits"][resource] = value;
  return container;
}

Json PodOf(const Json& containers) {
  return {{"metadata", {{"name", "p"}, {"namespace", "n"}, {"uid", "u-1"}}},
          {"spec", {{"containers", containers}}}};
}

Json PodWith(const Limits& limits) {
  return PodOf(Json::array({Container("main", limits)}));
}

// The pod as the API server makes it of the patch.
Json Patched(const Json& pod, bool takes_native = false, uint64_t unit = kGib) {
  Result<Translation> done = TranslatePod(pod, {takes_native, unit});
  EXPECT_TRUE(done.ok()) << done.status().message();
  return done.ok() ? pod.patch(done->patch) : pod;
}

std::string Refused(const Json& pod) {
  Result<Translation> done = TranslatePod(pod, {});
  EXPECT_FALSE(done.ok()) << done->patch.dump();
  return done.ok() ? "" : done.status().message();
}

std::string RefusedLimits(const Limits& limits) {
  return Refused(PodWith(limits));
}

// What the device plugin asks of the pool for it.
Ask AskOf(const Json& patched, const std::string& container = "main") {
  Result<Pod> pod = ReadPod(patched);
  EXPECT_TRUE(pod.ok());
  Result<Ask> ask = ReadAsk(*pod, container);
  EXPECT_TRUE(ask.ok()) << ask.status().message();
  if (!ask.ok()) return {};
  if (pod->asked.count(container) != 0)
    ask->request.set_count(static_cast<uint32_t>(std::stoul(pod->asked.at(container))));
  return *ask;
}

struct Want {
  Limits limits;
  uint32_t count;
  uint64_t memory_bytes;
  uint32_t memory_milli, share, limit;
  std::string priority;
};

// Long: a table.
TEST(K8sAliases, each_scheme_s_names_become_a_claim) {
  const Want wants[] = {
      {{{"aliyun.com/gpu-mem", "3"}}, 1, 3 * kGib, 0, 0, 0, ""},
      {{{"aliyun.com/gpu-mem", "4"}, {"aliyun.com/gpu-core.percentage", "30"}},
       1,
       4 * kGib,
       0,
       300,
       300,
       ""},
      {{{"aliyun.com/gpu-mem", "8"}, {"aliyun.com/gpu-count", "2"}}, 2, 4 * kGib, 0, 0, 0, ""},
      {{{"tke.cloud.tencent.com/qgpu-core", "25"}, {"tke.cloud.tencent.com/qgpu-memory", "4"}},
       1,
       4 * kGib,
       0,
       250,
       250,
       ""},
      {{{"tke.cloud.tencent.com/qgpu-core", "25"}, {"tke.cloud.tencent.com/qgpu-memory", "4Gi"}},
       1,
       4 * kGib,
       0,
       250,
       250,
       ""},
      {{{"tke.cloud.tencent.com/qgpu-core", "200"}}, 2, 0, 0, 0, 0, ""},
      {{{"tke.cloud.tencent.com/qgpu-core-greedy", "50"},
        {"tke.cloud.tencent.com/qgpu-memory", "2"}},
       1,
       2 * kGib,
       0,
       0,
       500,
       "low"},
      {{{"nvidia.com/gpu", "2"}, {"nvidia.com/gpumem", "3k"}, {"nvidia.com/gpucores", "30"}},
       2,
       3000 * kMib,
       0,
       300,
       300,
       ""},
      {{{"nvidia.com/gpumem", "1024"}}, 1, kGib, 0, 0, 0, ""},
      {{{"nvidia.com/gpu", "1"}, {"nvidia.com/gpumem-percentage", "50"}}, 1, 0, 500, 0, 0, ""},
      {{{"nvidia.com/gpu", "1"}, {"nvidia.com/gpumem", "512"}, {"nvidia.com/priority", "0"}},
       1,
       512 * kMib,
       0,
       0,
       0,
       "high"},
      {{{"nvidia.com/gpu", "1"}, {"nvidia.com/priority", "1"}}, 1, 0, 0, 0, 0, "low"},
      {{{"tencent.com/vcuda-core", "30"}, {"tencent.com/vcuda-memory", "8"}},
       1,
       2 * kGib,
       0,
       300,
       300,
       ""},
      {{{"tencent.com/vcuda-core", "100"}}, 1, 0, 0, 0, 0, ""},
      {{{"elasticgpu.io/gpu-core", "10"}, {"elasticgpu.io/gpu-memory", "256"}},
       1,
       256 * kMib,
       0,
       100,
       100,
       ""},
      {{{"elasticgpu.com/gpu-core", "400"}}, 4, 0, 0, 0, 0, ""},
  };
  for (const Want& want : wants) {
    const Json pod = Patched(PodWith(want.limits));
    const Json& limits = pod.at("/spec/containers/0/resources/limits"_json_pointer);
    SCOPED_TRACE(pod.dump());
    EXPECT_EQ(limits, (Json{{"farcall.io/vgpu", std::to_string(want.count)}}));
    const Ask ask = AskOf(pod);
    EXPECT_EQ(ask.request.count(), want.count);
    EXPECT_EQ(ask.request.memory_bytes(), want.memory_bytes);
    EXPECT_EQ(ask.memory_milli, want.memory_milli);
    EXPECT_EQ(ask.request.share_milli(), want.share);
    EXPECT_EQ(ask.request.limit_milli(), want.limit);
    EXPECT_EQ(ask.request.class_(), want.priority);
  }
}

TEST(K8sAliases, a_translated_pod_stays_as_it_is) {
  const Json once = Patched(PodWith({{"nvidia.com/gpumem", "512"}}));
  EXPECT_EQ(Patched(once), once);
}

TEST(K8sAliases, a_pod_that_asks_for_the_nodes_own_gpu_is_untouched) {
  const Json native = PodWith({{"nvidia.com/gpu", "1"}, {"cpu", "1"}});
  EXPECT_EQ(Patched(native), native);
  EXPECT_EQ(AskOf(Patched(native, true)).request.count(), 1U);  // its namespace says otherwise
  const Json plain = PodWith({{"cpu", "1"}});
  EXPECT_EQ(Patched(plain, true), plain);
}

TEST(K8sAliases, zero_of_everything_asks_for_nothing) {
  for (const Limits& limits : {Limits{{"nvidia.com/gpu", "0"}, {"nvidia.com/gpumem", "0"}},
                               Limits{{"aliyun.com/gpu-mem", "0"}}}) {
    const Json pod = PodWith(limits);
    EXPECT_EQ(Patched(pod), pod);
  }
}

TEST(K8sAliases, a_wrong_quantity_is_told_what_would_be_right) {
  const std::pair<Limits, const char*> wrongs[] = {
      {{{"aliyun.com/gpu-mem", "-1"}}, "aliyun.com/gpu-mem '-1': write a number above 0"},
      {{{"aliyun.com/gpu-mem", "1E"}},
       "it counts GiB, and no GPU has that many; write 4 for 4 GiB"},
      {{{"aliyun.com/gpu-mem", "99999999999999999999"}}, "no GPU has that many"},
      {{{"aliyun.com/gpu-mem", "4Gi"}}, "'4Gi': it counts GiB; write 4"},
      {{{"aliyun.com/gpu-mem", "4G"}}, "it counts GiB, and no GPU has that many; write 4 for 4"},
      {{{"aliyun.com/gpu-mem", "2500m"}}, "write a whole number of GiB"},
      {{{"aliyun.com/gpu-mem", "x"}}, "write a whole number"},
      {{{"aliyun.com/gpu-mem", "0"}, {"aliyun.com/gpu-count", "1"}}, "write how much memory"},
      {{{"aliyun.com/gpu-mem", "7"}, {"aliyun.com/gpu-count", "2"}},
       "cannot be divided among 2 GPUs; write 8"},
      {{{"nvidia.com/gpumem", "4Gi"}}, "it counts MiB; write 4096"},
      {{{"nvidia.com/gpumem", "2500m"}}, "write a whole number of MiB"},
      {{{"nvidia.com/gpumem", "4G"}}, "write 4096 for 4 GiB"},
      {{{"nvidia.com/gpu", "1"}, {"nvidia.com/gpumem", "0"}}, "leave it out for whole GPUs"},
      {{{"nvidia.com/gpu", "65"}, {"nvidia.com/gpumem", "1"}}, "at most 64 GPUs"},
      {{{"nvidia.com/gpumem", "1"}, {"nvidia.com/gpucores", "101"}}, "write at most 100"},
      {{{"nvidia.com/gpumem", "1"}, {"nvidia.com/gpumem-percentage", "1"}}, "write one of them"},
      {{{"nvidia.com/gpu", "1"}, {"nvidia.com/gpumem-percentage", "101"}}, "write 1 to 100"},
      {{{"nvidia.com/gpu", "1"}, {"nvidia.com/priority", "2"}}, "write 0 (high) or 1 (low)"},
      {{{"tke.cloud.tencent.com/qgpu-core", "7"}, {"tke.cloud.tencent.com/qgpu-memory", "4"}},
       "tke.cloud.tencent.com/qgpu-core '7': it goes in steps of 5; write 5 or 10"},
      {{{"tke.cloud.tencent.com/qgpu-core", "150"}}, "whole GPUs; write 100 or 200"},
      {{{"tke.cloud.tencent.com/qgpu-core", "10"}},
       "needs tke.cloud.tencent.com/qgpu-memory as well"},
      {{{"tke.cloud.tencent.com/qgpu-core", "1E"}}, "at most 6400"},
      {{{"tencent.com/vcuda-core", "30"}}, "needs tencent.com/vcuda-memory as well"},
      {{{"elasticgpu.io/gpu-memory", "1"}, {"elasticgpu.com/gpu-memory", "1"}}, "asked for twice"},
  };
  for (const auto& [limits, told] : wrongs) {
    const std::string said = RefusedLimits(limits);
    EXPECT_NE(said.find(told), std::string::npos) << said << "\n  wanted: " << told;
    EXPECT_EQ(said.find("container main: "), 0U) << said;
  }
}

TEST(K8sAliases, two_schemes_in_one_container_are_refused) {
  EXPECT_EQ(RefusedLimits({{"aliyun.com/gpu-mem", "4"}, {"nvidia.com/gpucores", "30"}}),
            "container main: it asks by names of gpushare and of HAMi; use those of one");
  EXPECT_NE(RefusedLimits({{"farcall.io/vgpu", "1"}, {"aliyun.com/gpu-mem", "4"}}).find("use one"),
            std::string::npos);
  Json pod = PodWith({{"aliyun.com/gpu-mem", "4"}});
  pod["metadata"]["annotations"]["farcall.io/mem"] = "1Gi";
  EXPECT_NE(Refused(pod).find("annotation farcall.io/mem, and container main"), std::string::npos);
  Json half = PodWith({});
  half["spec"]["containers"][0]["resources"]["requests"]["aliyun.com/gpu-mem"] = "4";
  EXPECT_NE(Refused(half).find("write it under limits"), std::string::npos);
}

TEST(K8sAliases, containers_have_claims_of_their_own) {
  Json pod =
      PodOf(Json::array({Container("a", {{"aliyun.com/gpu-mem", "1"}}), Container("plain", {}),
                         Container("b", {{"tke.cloud.tencent.com/qgpu-memory", "2"}})}));
  pod = Patched(pod);
  EXPECT_EQ(AskOf(pod, "a").request.memory_bytes(), kGib);
  EXPECT_EQ(AskOf(pod, "b").request.memory_bytes(), 2 * kGib);
  EXPECT_EQ(pod["metadata"]["annotations"]["farcall.io/mem.b"], "2Gi");
  EXPECT_EQ(pod["spec"]["containers"][1], Container("plain", {}));
}

TEST(K8sAliases, an_init_container_asks_for_what_the_first_container_does) {
  Json pod = PodWith({{"aliyun.com/gpu-mem", "3"}});
  pod["spec"]["initContainers"] = Json::array({Container("load", {{"aliyun.com/gpu-mem", "3"}})});
  EXPECT_EQ(AskOf(Patched(pod), "load").request.memory_bytes(), 3 * kGib);
  pod["spec"]["containers"] = Json::array({Container("main", {{"aliyun.com/gpu-mem", "1"}})});
  EXPECT_EQ(Refused(pod),
            "init container load: it uses the claim of container main; ask for the same there");
  pod["spec"]["containers"] = Json::array({Container("main", {})});
  EXPECT_NE(Refused(pod).find("a container of the pod has to ask for the same"), std::string::npos);
}

TEST(K8sAliases, requests_move_with_limits) {
  Json pod = PodWith({{"nvidia.com/gpumem", "512"}, {"cpu", "1"}});
  pod["spec"]["containers"][0]["resources"]["requests"] = {{"nvidia.com/gpumem", "512"},
                                                           {"cpu", "1"}};
  pod = Patched(pod);
  const Json wanted = {{"farcall.io/vgpu", "1"}, {"cpu", "1"}};
  EXPECT_EQ(pod["spec"]["containers"][0]["resources"]["limits"], wanted);
  EXPECT_EQ(pod["spec"]["containers"][0]["resources"]["requests"], wanted);
}

TEST(K8sAliases, kai_asks_by_annotations) {
  Json pod = PodOf(Json::array({Json{{"name", "side"}}, Json{{"name", "main"}}}));
  pod["metadata"]["annotations"] = {{"gpu-fraction", "0.5"},
                                    {"gpu-fraction-container-name", "main"}};
  const Json done = Patched(pod);
  EXPECT_EQ(AskOf(done).memory_milli, 500U);
  EXPECT_EQ(AskOf(done).request.share_milli(), 500U);
  EXPECT_EQ(AskOf(done).request.count(), 1U);
  EXPECT_FALSE(done["metadata"]["annotations"].contains("gpu-fraction"));
  EXPECT_EQ(Patched(done), done);
  pod["metadata"]["annotations"] = {{"gpu-memory", "2048"}};
  EXPECT_EQ(AskOf(Patched(pod), "side").request.memory_bytes(), 2 * kGib);
  pod["metadata"]["annotations"] = {{"gpu-fraction", "1.5"}};
  EXPECT_NE(Refused(pod).find("write a fraction such as 0.5"), std::string::npos);
  pod["metadata"]["annotations"] = {{"gpu-fraction", "0.5"}, {"gpu-fraction-container-name", "x"}};
  EXPECT_NE(Refused(pod).find("no such container"), std::string::npos);
}

TEST(K8sAliases, words_of_the_pod_are_taken_or_told_of) {
  Json pod = PodWith({{"nvidia.com/gpu", "1"}, {"nvidia.com/gpumem", "512"}});
  pod["metadata"]["annotations"] = {{"nvidia.com/use-gputype", "A100"},
                                    {"hami.io/gpu-scheduler-policy", "spread"},
                                    {"nvidia.com/numa-bind", "true"}};
  pod["spec"]["schedulerName"] = "hami-scheduler";
  pod["spec"]["runtimeClassName"] = "nvidia";
  pod["spec"]["nodeSelector"] = {{"ack.node.gpu.schedule", "cgpu"}, {"zone", "a"}};
  Result<Translation> done = TranslatePod(pod, {});
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->warnings.size(), 4U);
  const Json patched = pod.patch(done->patch);
  EXPECT_EQ(AskOf(patched).request.model(), "A100");
  EXPECT_EQ(AskOf(patched).request.placer(), "spread");
  for (const auto& [word, placer] : {std::pair("topology-aware", "topology"),
                                     {"binpack", "pack"},
                                     {"near", "near"},
                                     {"fgd", "fgd"},
                                     {"best", ""}}) {
    Json other = PodWith({{"nvidia.com/gpu", "1"}, {"nvidia.com/gpumem", "512"}});
    other["metadata"]["annotations"] = {{"hami.io/gpu-scheduler-policy", word}};
    Result<Translation> translated = TranslatePod(other, {});
    ASSERT_TRUE(translated.ok());
    EXPECT_EQ(AskOf(other.patch(translated->patch)).request.placer(), placer);
  }
  EXPECT_EQ(patched["spec"]["schedulerName"], "default-scheduler");
  EXPECT_EQ(patched["spec"]["nodeSelector"], (Json{{"zone", "a"}}));
  EXPECT_FALSE(patched["spec"].contains("runtimeClassName"));
  pod["metadata"]["annotations"] = {{"nvidia.com/use-gpuuuid", "GPU-1"}};
  EXPECT_NE(Refused(pod).find("the pool chooses the GPU"), std::string::npos);
  Json tencent = PodWith({{"tencent.com/vcuda-core", "30"}, {"tencent.com/vcuda-memory", "8"}});
  tencent["metadata"]["annotations"]["tencent.com/vcuda-core-limit"] = "60";
  EXPECT_EQ(AskOf(Patched(tencent)).request.limit_milli(), 600U);
  tencent["metadata"]["annotations"]["tencent.com/vcuda-core-limit"] = "20";
  EXPECT_NE(Refused(tencent).find("write 30 to 100"), std::string::npos);
  Json label = PodWith({{"aliyun.com/gpu-mem", "8"}});
  label["metadata"]["labels"]["aliyun.com/gpu-count"] = "2";
  EXPECT_EQ(AskOf(Patched(label)).request.count(), 2U);
}

TEST(K8sAliases, gpu_mem_counts_what_the_setting_says) {
  const Json pod = Patched(PodWith({{"aliyun.com/gpu-mem", "16276"}}), false, kMib);
  EXPECT_EQ(AskOf(pod).request.memory_bytes(), 16276 * kMib);
}

TEST(K8sAliases, a_review_is_answered_whatever_it_holds) {
  EXPECT_FALSE(Review(Json(), {}).ok());
  EXPECT_FALSE(Review(Json::array({1}), {}).ok());
  EXPECT_FALSE(Review(Json{{"kind", "AdmissionReview"}, {"request", {{"uid", 7}}}}, {}).ok());
  auto review = [](const Json& object) {
    return Json{
        {"kind", "AdmissionReview"},
        {"request",
         {{"uid", "u"}, {"operation", "CREATE"}, {"kind", {{"kind", "Pod"}}}, {"object", object}}}};
  };
  for (const Json& object :
       {Json(), Json::array(), Json{{"spec", 3}}, Json{{"spec", {{"containers", {1, "a"}}}}},
        Json{{"spec", {{"containers", {{{"resources", 1}}}}}}},
        Json{{"metadata", {{"annotations", {{"gpu-fraction", 1}}}}}}}) {
    Result<Json> answer = Review(review(object), {});
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ((*answer)["response"]["uid"], "u");
  }
  Result<Json> answer = Review(review(PodWith({{"nvidia.com/gpumem", "512"}})), {});
  ASSERT_TRUE(answer.ok());
  const Json patch = Json::parse(FromBase64((*answer)["response"]["patch"].get<std::string>()));
  EXPECT_EQ(patch, TranslatePod(PodWith({{"nvidia.com/gpumem", "512"}}), {})->patch);
}

TEST(K8sAliases, a_certificate_is_replaced_while_a_third_of_its_life_is_left) {
  Result<PemPair> authority = MakeAuthority("test", 90);
  ASSERT_TRUE(authority.ok());
  auto made = [&](int days) {
    return IssueCertificate(*authority, {"a.b.svc", {"a.b.svc", "10.0.0.1"}, {}, days})
        ->certificate;
  };
  EXPECT_TRUE(IsGoodFor(made(90), {"a.b.svc", "10.0.0.1"}, 90));
  EXPECT_FALSE(IsGoodFor(made(90), {"other.svc"}, 90));
  EXPECT_FALSE(IsGoodFor(made(30), {"a.b.svc"}, 90));
  EXPECT_FALSE(IsGoodFor("", {"a.b.svc"}, 90));
  EXPECT_EQ(FromBase64(Base64("abcd")), "abcd");
  EXPECT_EQ(FromBase64("a"), "");
}

TEST(K8sAsk, a_container_s_own_annotation_goes_before_the_pod_s) {
  Json pod = PodOf(Json::array(
      {Container("a", {{"farcall.io/vgpu", "1"}}), Container("b", {{"farcall.io/vgpu", "1"}})}));
  pod["metadata"]["annotations"] = {{"farcall.io/mem", "1Gi"}, {"farcall.io/mem.b", "2Gi"}};
  EXPECT_EQ(AskOf(pod, "a").request.memory_bytes(), kGib);
  EXPECT_EQ(AskOf(pod, "b").request.memory_bytes(), 2 * kGib);
  pod["metadata"]["annotations"]["farcall.io/mem.c"] = "2Gi";
  Result<Ask> wrong = ReadAsk(*ReadPod(pod), "a");
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.status().message().find("no container 'c'"), std::string::npos);
}

TEST(K8sOwner, an_owner_tells_pod_container_and_node) {
  std::optional<ClaimOwner> read = ReadOwner("k8s:0123:u-1:main:" + OwnerEnd("team-a", "p", "n1"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->space, "team-a");
  EXPECT_EQ(read->pod, "p");
  EXPECT_EQ(read->container, "main");
  EXPECT_EQ(read->node, "n1");
  EXPECT_EQ(ReadOwner("k8s:0123:u-1:main:team-a/p")->node, "");
  for (const char* other : {"", "alice", "k8s:", "k8s:1:2", "k8s:1:2:3:nothing"})
    EXPECT_FALSE(ReadOwner(other)) << other;
}

}  // namespace
}  // namespace farcall::k8s
