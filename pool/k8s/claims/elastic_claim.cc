// SPDX-License-Identifier: Apache-2.0
// ElasticGPUClaims and ElasticGPUClasses. The published schema, its README and articles about it
// spell fields differently: all of them are read.
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "pool/k8s/claims/claim_object.h"
#include "pool/k8s/pods/aliases.h"
#include "proto/printable.h"

namespace farcall::k8s {

namespace {

using Json = nlohmann::json;

constexpr size_t kMaxResources = 16;
constexpr char kOfProvisioner[] = "gpushare.provisioner.elasticgpu.io/";

// The first text of these members.
std::string TextOf(const Json& object, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (auto at = object.find(name); at != object.end() && at->is_string())
      return at->get<std::string>();
  return "";
}

// "elasticgpu.io/gpu-tflops", which no table of the scheme has, and the provisioner's.
bool IsTflops(const std::string& name) {
  return name == "elasticgpu.io/gpu-tflops" || name == "elasticgpu.com/gpu-tflops" ||
         name == std::string(kOfProvisioner) + "gpu-tflops";
}

// A resource as the table of aliases has it: its name and its quantity.
void AddResource(const std::string& name, const Json& value,
                 std::map<Scheme, std::map<std::string, std::string>>* asked) {
  std::string text = value.is_string()   ? value.get<std::string>()
                     : value.is_number() ? value.dump()
                                         : std::string();
  // "4GB" of an article is what the scheme itself calls 4Gi.
  if (text.size() > 2 && text.substr(text.size() - 2) == "GB")
    text.replace(text.size() - 2, 2, "Gi");
  std::string known = name;
  if (known.rfind(kOfProvisioner, 0) == 0) {
    // It counts as gpushare does: GiB, and per cent.
    known = known.substr(sizeof(kOfProvisioner) - 1) == "gpu-memory"
                ? "aliyun.com/gpu-mem"
                : "aliyun.com/gpu-core.percentage";
  }
  if (std::optional<Scheme> scheme = SchemeOf(known)) (*asked)[*scheme][known] = text;
}

Status ReadResources(const Json& spec, ClaimObject* claim) {
  const Json& resources = Member(spec, "resources");
  std::map<Scheme, std::map<std::string, std::string>> asked;
  std::optional<std::string> tflops;
  for (const char* list : {"limits", "requests"}) {
    const Json& given = Member(resources, list);
    if (given.size() > kMaxResources)
      return {Code::kInvalid, std::string("spec.resources.") + list + ": more than 16 resources"};
    for (const auto& [name, value] : given.items())
      if (IsTflops(name))
        tflops = value.is_string()   ? value.get<std::string>()
                 : value.is_number() ? value.dump()
                                     : "";
      else
        AddResource(name, value, &asked);
  }
  if (tflops && asked.empty())
    return {Code::kInvalid, "spec.resources: gpu-tflops " + Quoted(*tflops) +
                                ": a part of a GPU needs elasticgpu.io/gpu-memory as well"};
  if (asked.empty())
    return {Code::kInvalid,
            "spec.resources.requests: write what it asks, such as elasticgpu.io/gpu-memory: 4096"};
  if (asked.size() > 1)
    return {Code::kInvalid, "spec.resources: it asks by names of " +
                                std::string(NameOf(asked.begin()->first)) + " and of " +
                                NameOf(std::next(asked.begin())->first) + "; use those of one"};
  Result<std::optional<VgpuAsk>> ask =
      ReadAliases(asked.begin()->first, asked.begin()->second, {}, kGib);
  if (!ask.ok()) return {Code::kInvalid, "spec.resources: " + ask.status().message()};
  if (!*ask) return {Code::kInvalid, "spec.resources: it asks for nothing"};
  if ((*ask)->count > kMaxCount)
    return {Code::kInvalid,
            "spec.resources: " + std::to_string((*ask)->count) + " GPUs: a claim has at most 64"};
  claim->count = static_cast<uint32_t>((*ask)->count);
  claim->words = WordsOf(**ask);
  if (tflops) claim->words["tflops"] = *tflops;
  return {};
}

}  // namespace

Result<ClaimObject> ReadElasticClaim(const Json& object) {
  Result<ClaimObject> claim = ReadClaim(object);
  if (!claim.ok()) return claim;
  const Json& spec = Member(object, "spec");
  claim->name = kElasticClaim + claim->name;
  claim->words.clear();
  claim->count = 1;
  const std::string of_class =
      TextOf(spec, {"elasticGPUClassName", "egpuClassName", "storageClassName"});
  claim->class_name = of_class.empty() ? "" : kElasticClaim + of_class;
  claim->wrong = ReadResources(spec, &*claim).message();
  return claim;
}

Result<ClaimClass> ReadElasticClass(const Json& object) {
  if (!object.is_object())
    return Status(Code::kMalformed, "the API server's answer is no ElasticGPUClass");
  // Its fields stand beside `metadata`.
  Json as_ours = {{"metadata", Member(object, "metadata")}};
  Json& spec = as_ours["spec"] = Json::object();
  if (auto policy = TextOf(object, {"reclaimPolicy"}); !policy.empty())
    spec["reclaimPolicy"] = policy;
  if (auto mode = TextOf(object, {"eGPUBindingMode", "egpuBindingMode", "bindingMode"});
      !mode.empty())
    spec["bindingMode"] = mode;
  Result<ClaimClass> read = ReadClass(as_ours);
  if (!read.ok()) return read;
  read->name = kElasticClaim + read->name;
  // elasticgpu.io/qgpu, gpushare.provisioner.elasticgpu.io: the pool stands in for each of them.
  const std::string by = TextOf(object, {"provisioner"});
  if (!by.empty() && by.find("elasticgpu.io") == by.npos) read->provisioner = by;
  return read;
}

}  // namespace farcall::k8s
