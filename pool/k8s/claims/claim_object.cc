// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/claims/claim_object.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "proto/printable.h"

namespace farcall::k8s {

namespace {

using Json = nlohmann::json;

constexpr const char* kWords[] = {"mem", "share", "limit", "priority", "model", "placer", "tflops"};
constexpr size_t kMaxWord = 256;
constexpr size_t kMaxGpus = 1024;

void ReadWords(const Json& from, std::map<std::string, std::string>* words) {
  for (const char* name : kWords)
    if (std::string text = Text(from, name); !text.empty())
      (*words)[name] = text.substr(0, kMaxWord);
}

void ReadStatus(const Json& told, ClaimStatus* status) {
  status->phase = Text(told, "phase");
  status->claim = Text(told, "claim");
  if (!IsName(status->claim)) status->claim.clear();
  status->host = Text(told, "host");
  status->reason = Text(told, "reason");
  uint64_t bytes = 0;
  if (ReadQuantity(Text(told, "mem"), &bytes)) status->memory_bytes = bytes;
  if (auto gpus = told.find("gpus"); gpus != told.end() && gpus->is_array())
    for (const Json& gpu : *gpus)
      if (gpu.is_number_integer() && gpu.get<int64_t>() >= 0 && status->gpus.size() < kMaxGpus)
        status->gpus.push_back(gpu.get<uint32_t>());
  const Json& pod = Member(told, "pod");
  status->pod = Text(pod, "name");
  status->pod_uid = Text(pod, "uid");
  status->bindings = static_cast<uint64_t>(Number(told, "bindings"));
  status->generation = Number(told, "observedGeneration");
}

Json OrNull(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

}  // namespace

bool ClaimObject::has_finalizer() const {
  return std::find(finalizers.begin(), finalizers.end(), kFinalizer) != finalizers.end();
}

std::string ClaimPath(const std::string& space, const std::string& name) {
  const bool is_elastic = name.rfind(kElasticClaim, 0) == 0;
  return std::string("/apis/") + (is_elastic ? kElasticGroupVersion : kGroupVersion) +
         "/namespaces/" + space +
         (is_elastic ? "/elasticgpuclaims/" + name.substr(sizeof(kElasticClaim) - 1)
                     : "/vgpuclaims/" + name);
}

bool IsOlder(const std::string& version, const std::string& than) {
  uint64_t one = 0, other = 0;
  auto read = [](const std::string& text, uint64_t* number) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
    return error == std::errc() && end == text.data() + text.size();
  };
  return read(version, &one) && read(than, &other) && one < other;
}

Result<ClaimObject> ReadClaim(const Json& object) {
  Result<ObjectMeta> meta = ReadMeta(object, "VGPUClaim");
  if (!meta.ok()) return meta.status();
  const Json& spec = Member(object, "spec");
  ClaimObject claim;
  claim.space = std::move(meta->space);
  claim.name = std::move(meta->name);
  claim.uid = std::move(meta->uid);
  claim.version = std::move(meta->version);
  claim.generation = meta->generation;
  claim.is_deleting = meta->is_deleting;
  claim.finalizers = std::move(meta->finalizers);
  claim.class_name = Text(spec, "className");
  ReadWords(spec, &claim.words);
  if (auto count = spec.find("count"); count != spec.end()) {
    const int64_t wanted = Number(spec, "count");
    if (wanted < 1 || wanted > kMaxCount)
      claim.wrong = "spec.count " +
                    Printable(count->dump(-1, ' ', false, Json::error_handler_t::replace), 32) +
                    ": write 1 to 64";
    else
      claim.count = static_cast<uint32_t>(wanted);
  }
  ReadStatus(Member(object, "status"), &claim.status);
  return claim;
}

Result<ClaimClass> ReadClass(const Json& object) {
  if (!object.is_object())
    return Status(Code::kMalformed, "the API server's answer is no VGPUClass");
  const Json& spec = Member(object, "spec");
  ClaimClass read;
  read.name = Text(Member(object, "metadata"), "name");
  if (!IsName(read.name))
    return Status(Code::kMalformed, "a VGPUClass whose metadata.name is " + Quoted(read.name));
  if (std::string text = Text(spec, "provisioner"); !text.empty()) read.provisioner = text;
  const std::string policy = Text(spec, "reclaimPolicy"), mode = Text(spec, "bindingMode");
  read.retains = policy == "Retain";
  read.waits = mode == "WaitForFirstConsumer";
  if (!policy.empty() && policy != "Retain" && policy != "Delete")
    read.wrong = "reclaimPolicy " + Quoted(policy) + ": write Delete or Retain";
  if (!mode.empty() && mode != "WaitForFirstConsumer" && mode != "Immediate")
    read.wrong = "bindingMode " + Quoted(mode) + ": write Immediate or WaitForFirstConsumer";
  ReadWords(Member(spec, "parameters"), &read.words);
  return read;
}

Result<Ask> AskOf(const ClaimObject& claim, const ClaimClass* of_class) {
  if (!claim.wrong.empty()) return Status(Code::kInvalid, claim.wrong);
  if (!claim.class_name.empty() && of_class == nullptr)
    return Status(Code::kInvalid, "there is no VGPUClass " + Quoted(claim.class_name));
  if (of_class != nullptr && !of_class->wrong.empty())
    return Status(Code::kInvalid, "VGPUClass " + of_class->name + ": " + of_class->wrong);
  Ask ask;
  ask.request.set_count(claim.count);
  for (const char* word : kWords) {
    auto own = claim.words.find(word);
    if (own != claim.words.end()) {
      FARCALL_TRY(ReadAskWord(std::string("spec.") + word, word, own->second, &ask));
    } else if (of_class != nullptr) {
      if (auto given = of_class->words.find(word); given != of_class->words.end())
        FARCALL_TRY(ReadAskWord("VGPUClass " + of_class->name + ", parameters." + word, word,
                                given->second, &ask));
    }
  }
  if (ask.request.tflops() != 0 &&
      (ask.request.share_milli() != 0 || ask.request.limit_milli() != 0))
    return Status(Code::kInvalid,
                  "spec.tflops: leave share and limit out, they follow from the GPU's model");
  if (ask.request.limit_milli() != 0 && ask.request.share_milli() > ask.request.limit_milli())
    return Status(Code::kInvalid, "spec.limit: less than the share");
  return ask;
}

std::string QuantityOf(uint64_t bytes) {
  constexpr const char* kUnits[] = {"", "Ki", "Mi", "Gi", "Ti"};
  size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + kUnits[unit];
}

Json StatusPatch(const ClaimObject& claim, const ClaimStatus& status) {
  Json pod;
  if (!status.pod_uid.empty()) pod = {{"name", status.pod}, {"uid", status.pod_uid}};
  Json told = {{"phase", status.phase},
               {"claim", OrNull(status.claim)},
               {"host", OrNull(status.host)},
               {"gpus", status.gpus.empty() ? Json() : Json(status.gpus)},
               {"mem", status.memory_bytes == 0 ? Json() : Json(QuantityOf(status.memory_bytes))},
               {"reason", OrNull(status.reason)},
               {"pod", pod},
               {"bindings", status.bindings},
               {"observedGeneration", status.generation}};
  return {{"metadata", {{"resourceVersion", claim.version}}}, {"status", std::move(told)}};
}

Json FinalizerPatch(const ClaimObject& claim, bool is_there) {
  std::vector<std::string> kept;
  for (const std::string& name : claim.finalizers)
    if (name != kFinalizer) kept.push_back(name);
  if (is_there) kept.emplace_back(kFinalizer);
  return {{"metadata", {{"resourceVersion", claim.version}, {"finalizers", kept}}}};
}

}  // namespace farcall::k8s
