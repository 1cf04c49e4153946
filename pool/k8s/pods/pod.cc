// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/pods/pod.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "pool/core/model/placers.h"
#include "proto/printable.h"
#include "settings/byte_count.h"
#include "settings/decimal.h"
#include "settings/percent.h"

namespace farcall::k8s {

namespace {

using Json = nlohmann::json;

constexpr char kPrefix[] = "farcall.io/";
constexpr size_t kMaxModel = 256;  // the pool's
constexpr std::string_view kWords[] = {"mem",   "share",  "limit", "priority",
                                       "model", "placer", "tflops"};

void ReadContainers(const Json& spec, const char* list, Pod* pod) {
  auto containers = spec.find(list);
  if (containers == spec.end() || !containers->is_array()) return;
  for (const Json& container : *containers) {
    if (!container.is_object()) continue;
    const std::string limit = Text(Member(Member(container, "resources"), "limits"), kResource);
    if (const std::string name = Text(container, "name"); !name.empty() && !limit.empty())
      pod->asked[name] = limit;
  }
}

// elasticgpu.io/egpuc-CONTAINER and egpuc.elasticgpu.io/CONTAINER name an ElasticGPUClaim.
void ReadElasticWords(const Json& annotations, Pod* pod) {
  for (const auto& [name, value] : annotations.items())
    if (const std::string container = ElasticContainer(name);
        value.is_string() && pod->asked.count(container) != 0)
      pod->annotations.emplace("claim." + container, kElasticClaim + value.get<std::string>());
}

Status Wrong(const std::string& name, const std::string& value, const std::string& right) {
  return {Code::kInvalid, Printable(name) + " " + Quoted(value) + ": " + right};
}

std::string Annotation(const std::string& name) {
  return std::string("annotation ") + kPrefix + name;
}

Status ReadPart(const std::string& name, const std::string& value, uint32_t* milli) {
  if (!ParseMilli(value, milli) || *milli == 0)
    return Wrong(name, value, "write a part of a device such as 30%, at most 100%");
  return {};
}

Status ReadMemory(const std::string& name, const std::string& value, Ask* ask) {
  if (!value.empty() && value.back() == '%') {
    FARCALL_TRY(ReadPart(name, value, &ask->memory_milli));
    if (ask->memory_milli == 1000) ask->memory_milli = 0;  // a whole device
    return {};
  }
  uint64_t bytes = 0;
  if (!ReadQuantity(value, &bytes))
    return Wrong(name, value, "write a quantity such as 4Gi or 512Mi, or a part such as 50%");
  if (bytes == 0)
    return Wrong(name, value, "write a quantity such as 4Gi; leave it out for whole GPUs");
  if (bytes < kLeastMemoryBytes) return Wrong(name, value, "less than 64Ki; write 4Gi for 4 GiB");
  ask->request.set_memory_bytes(bytes);
  return {};
}

}  // namespace

std::string ElasticContainer(const std::string& annotation) {
  for (const std::string_view start : {"elasticgpu.io/egpuc-", "egpuc.elasticgpu.io/"})
    if (annotation.rfind(start, 0) == 0) return annotation.substr(start.size());
  return "";
}

Result<Pod> ReadPod(const Json& object) {
  Result<ObjectMeta> meta = ReadMeta(object, "pod");
  if (!meta.ok()) return meta.status();
  const Json& spec = Member(object, "spec");
  Pod pod;
  pod.space = std::move(meta->space);
  pod.name = std::move(meta->name);
  pod.uid = std::move(meta->uid);
  pod.resource_version = std::move(meta->version);
  pod.created = std::move(meta->created);
  pod.node = Text(spec, "nodeName");
  const std::string phase = Text(Member(object, "status"), "phase");
  pod.is_over = phase == "Succeeded" || phase == "Failed";
  ReadPodWords(object, &pod);
  return pod;
}

void ReadPodWords(const Json& object, Pod* pod) {
  const Json& annotations = Member(Member(object, "metadata"), "annotations");
  const Json& spec = Member(object, "spec");
  for (const auto& [name, value] : annotations.items())
    if (name.rfind(kPrefix, 0) == 0 && value.is_string())
      pod->annotations[name.substr(sizeof(kPrefix) - 1)] = value.get<std::string>();
  pod->has_allocation = annotations.contains(kAllocation);
  if (spec.is_object()) {
    const Json none;
    for (const Json& gate : spec.value("schedulingGates", none))
      pod->is_gated = pod->is_gated || Text(gate, "name") == kClaimGate;
    pod->has_init = !spec.value("initContainers", none).empty();
  }
  ReadContainers(spec, "initContainers", pod);
  ReadContainers(spec, "containers", pod);
  ReadElasticWords(annotations, pod);
}

uint32_t DeviceCount(const std::string& limit) {
  uint32_t count = 0;
  auto [end, error] = std::from_chars(limit.data(), limit.data() + limit.size(), count);
  return error == std::errc() && end == limit.data() + limit.size() ? count : 0;
}

std::map<std::string, std::string> OwnWords(const Pod& pod, const std::string& container) {
  std::map<std::string, std::string> words;
  for (const std::string_view word : kWords) {
    const std::string name(word);
    auto at = pod.annotations.find(name + "." + container);
    if (at == pod.annotations.end()) at = pod.annotations.find(name);
    if (at != pod.annotations.end()) words[name] = at->second;
  }
  return words;
}

bool MayBeGated(const Pod& pod) {
  return !pod.asked.empty() &&
         std::all_of(pod.asked.begin(), pod.asked.end(), [&](const auto& asked) {
           Result<Ask> ask = ReadAsk(pod, asked.first);
           return DeviceCount(asked.second) != 0 && ask.ok() &&
                  (!pod.has_init || !ask->claim.empty());
         });
}

std::set<std::string> NamedClaims(const Pod& pod) {
  std::set<std::string> names;
  for (const auto& [container, limit] : pod.asked)
    if (Result<Ask> ask = ReadAsk(pod, container); ask.ok() && !ask->claim.empty())
      names.insert(ask->claim);
  return names;
}

bool ReadQuantity(std::string_view text, uint64_t* bytes) {
  struct Unit {
    std::string_view name;
    uint64_t bytes;
  };
  constexpr Unit kUnits[] = {{"", 1},
                             {"k", 1000},
                             {"M", 1000 * 1000},
                             {"G", kBillion},
                             {"T", uint64_t{1000} * kBillion},
                             {"Ki", uint64_t{1} << 10},
                             {"Mi", uint64_t{1} << 20},
                             {"Gi", uint64_t{1} << 30},
                             {"Ti", uint64_t{1} << 40},
                             {"KiB", uint64_t{1} << 10},
                             {"MiB", uint64_t{1} << 20},
                             {"GiB", uint64_t{1} << 30},
                             {"TiB", uint64_t{1} << 40}};
  Decimal number;
  if (!ReadDecimal(text, &number)) return false;
  for (const Unit& unit : kUnits) {
    if (number.rest != unit.name) continue;
    __extension__ using Wide = unsigned __int128;
    const Wide all =
        Wide{unit.bytes} * number.whole + Wide{unit.bytes} * number.billionths / kBillion;
    if (all > UINT64_MAX) return false;
    *bytes = static_cast<uint64_t>(all);
    return true;
  }
  return false;
}

Status ReadAskWord(const std::string& name, const std::string& key, const std::string& value,
                   Ask* ask) {
  uint32_t milli = 0;
  if (key == "mem") return ReadMemory(name, value, ask);
  if (key == "share" || key == "limit") {
    FARCALL_TRY(ReadPart(name, value, &milli));
    key == "share" ? ask->request.set_share_milli(milli) : ask->request.set_limit_milli(milli);
  } else if (key == "priority") {
    if (value != "high" && value != "normal" && value != "low")
      return Wrong(name, value, "write high, normal or low");
    ask->request.set_class_(value);
  } else if (key == "model") {
    if (value.empty() || value.size() > kMaxModel || !IsUtf8(value))
      return Wrong(name, value, "write a part of the GPU's name, such as A100");
    ask->request.set_model(value);
  } else if (key == "tflops") {
    double tflops = 0;
    const char* const end = value.data() + value.size();
    const auto [at, error] = std::from_chars(value.data(), end, tflops);
    if (error != std::errc() || at != end || !(tflops >= 0.001) || tflops > 100'000)
      return Wrong(name, value, "write TFLOPS of each GPU, 0.001 to 100000");
    ask->request.set_tflops(tflops);
  } else if (key == "placer") {
    const std::optional<pool::Placer> placer = pool::PlacerOf(value);
    if (!placer || *placer == pool::Placer::kUnnamed)
      return Wrong(name, value, "write " + pool::PlacersText());
    ask->request.set_placer(value);
  } else {
    return Wrong(
        name, value,
        "there is no such word; there are mem, share, tflops, limit, priority, model and placer");
  }
  return {};
}

Result<Ask> ReadAsk(const Pod& pod, const std::string& container) {
  // The container's own words first: the pod's are of those that have none.
  std::map<std::string, std::string> names;  // mem -> mem.CONTAINER, or mem
  for (const auto& [name, value] : pod.annotations) {
    const size_t dot = name.find('.');
    const std::string key = name.substr(0, dot);
    const std::string of = dot == std::string::npos ? "" : name.substr(dot + 1);
    if (dot != std::string::npos && pod.asked.count(of) == 0)
      return Wrong(Annotation(name), value,
                   "no container " + Quoted(of) + " of the pod asks for " + kResource);
    if (of == container)
      names[key] = name;
    else if (of.empty())
      names.emplace(key, name);
  }
  Ask ask;
  if (auto named = names.find("claim"); named != names.end()) {
    const std::string& claim = pod.annotations.at(named->second);
    // A name alone: what it names is of the pod's own namespace, whatever the pod says.
    const bool is_elastic = claim.rfind(kElasticClaim, 0) == 0;
    if (!IsName(is_elastic ? claim.substr(sizeof(kElasticClaim) - 1) : claim))
      return Wrong(Annotation(named->second), claim,
                   "write the name of a VGPUClaim of the pod's namespace");
    for (const auto& [key, name] : names)
      if (key != "claim")
        return Wrong(Annotation(name), pod.annotations.at(name),
                     "leave it out: VGPUClaim " + Quoted(claim) + " says it");
    ask.claim = claim;
    return ask;
  }
  for (const auto& [key, name] : names) {
    if (std::find(std::begin(kWords), std::end(kWords), key) == std::end(kWords))
      return Wrong(Annotation(name), pod.annotations.at(name),
                   "no such annotation; there are farcall.io/mem, share, tflops, limit, priority, "
                   "model, placer and claim");
    FARCALL_TRY(ReadAskWord(Annotation(name), key, pod.annotations.at(name), &ask));
  }
  const pool::v1::ClaimRequest& request = ask.request;
  if (request.tflops() != 0 && (request.share_milli() != 0 || request.limit_milli() != 0))
    return Wrong(Annotation(names.at("tflops")), pod.annotations.at(names.at("tflops")),
                 "leave farcall.io/share and limit out: the share follows from the GPU's model");
  if (request.limit_milli() != 0 && request.share_milli() > request.limit_milli())
    return Wrong(Annotation(names.at("limit")), pod.annotations.at(names.at("limit")),
                 "less than farcall.io/share " + Quoted(pod.annotations.at(names.at("share"))));
  return ask;
}

}  // namespace farcall::k8s
