// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/pods/aliases.h"

#include <algorithm>
#include <set>

#include "pool/core/model/placers.h"
#include "pool/k8s/pods/pod.h"
#include "proto/printable.h"
#include "settings/decimal.h"

namespace farcall::k8s {

namespace {

using Json = nlohmann::json;

constexpr size_t kMaxContainers = 1000;
// Annotations' names have 63 characters behind the slash, "priority." included.
constexpr size_t kMaxContainerName = 54;
constexpr const char* kLists[] = {"initContainers", "containers"};

// Where the scheme puts its pods, which have no GPU here. A GPU-less node has no such label.
constexpr const char* kNodeSelectors[] = {
    "ack.node.gpu.schedule", "ack.node.gpu.placement", "aliyun.accelerator/nvidia_name", "gpushare",
    "qgpu-device-enable",    "nvidia-device-enable"};
constexpr const char* kSchedulers[] = {"hami-scheduler", "gpushare-scheduler", "kai-scheduler",
                                       "4pd-scheduler"};

std::string TextOrNumber(const Json& object, const char* name) {
  auto at = object.is_object() ? object.find(name) : object.end();
  if (!object.is_object() || at == object.end()) return "";
  if (at->is_string()) return at->get<std::string>();
  return at->is_number() ? at->dump() : std::string();
}

std::string Pointer(std::string name) {
  for (size_t at = 0; (at = name.find_first_of("~/", at)) != std::string::npos; at += 2)
    name.replace(at, 1, name[at] == '~' ? "~0" : "~1");
  return name;
}

std::string Percent(uint32_t milli) {
  const std::string whole = std::to_string(milli / 10);
  return whole + (milli % 10 != 0 ? "." + std::to_string(milli % 10) : std::string()) + "%";
}

// A container that is to be translated.
struct Found {
  std::string path;  // as RFC 6901 has it
  std::string name;
  VgpuAsk ask;
  std::vector<std::string> limits, requests;  // resources to take away
  bool has_requests = false;
};

// What the pod's annotations ask, for all of its containers.
struct PodAsk {
  std::string model, placer;
  std::set<std::string> spent;  // annotations that would ask again
};

class Translator final {
 public:
  Translator(const Json& pod, const AliasOptions& options)
      : metadata_(Member(pod, "metadata")),
        spec_(Member(pod, "spec")),
        annotations_(Member(metadata_, "annotations")),
        options_(options) {}

  Result<Translation> Run() {
    for (const char* list : kLists)
      if (Status done = ReadList(list); !done.ok()) return done;
    if (Status done = ReadKai(); !done.ok()) return done;
    if (Status done = ReadElasticClaims(); !done.ok()) return done;
    if (found_.empty()) return Translation();
    if (Status done = CheckInitContainers(); !done.ok()) return done;
    if (Status done = CheckOwnWords(); !done.ok()) return done;
    if (Status done = ReadHamiWords(); !done.ok()) return done;
    ReadPlacement();
    for (const Found& found : found_) Move(found);
    Annotate();
    LeavePlaces();
    return std::move(done_);
  }

 private:
  Status ReadList(const char* list) {
    auto containers = spec_.find(list);
    if (containers == spec_.end() || !containers->is_array()) return {};
    if (containers->size() > kMaxContainers)
      return {Code::kInvalid, "a pod of more than 1000 containers"};
    for (size_t i = 0; i < containers->size(); ++i) {
      const Json& container = (*containers)[i];
      const std::string path = std::string("/spec/") + list + "/" + std::to_string(i);
      if (Status read = ReadContainer(container, path); !read.ok())
        return {read.code(),
                "container " + Printable(TextOrNumber(container, "name")) + ": " + read.message()};
    }
    return {};
  }

  Status ReadContainer(const Json& container, const std::string& path) {
    const Json& resources = Member(container, "resources");
    const Json& limits = Member(resources, "limits");
    const Json& requests = Member(resources, "requests");
    std::map<Scheme, std::map<std::string, std::string>> asked;
    Found found{path, TextOrNumber(container, "name"), {}, {}, {}, !requests.empty()};
    for (const auto& [name, value] : requests.items()) {
      if (!SchemeOf(name)) continue;
      found.requests.push_back(name);
      if (TextOrNumber(limits, name.c_str()).empty())
        return {Code::kInvalid, name + ": write it under limits; requests follow from them"};
      if (TextOrNumber(limits, name.c_str()) != TextOrNumber(requests, name.c_str()))
        return {Code::kInvalid, name + ": limits and requests differ; leave it out of requests"};
    }
    for (const auto& [name, value] : limits.items()) {
      std::optional<Scheme> scheme = SchemeOf(name);
      if (!scheme) continue;
      found.limits.push_back(name);
      asked[*scheme][name] = TextOrNumber(limits, name.c_str());
    }
    if (auto hami = asked.find(Scheme::kHami); hami != asked.end() && IsNative(hami->second) &&
                                               (asked.size() > 1 || !options_.takes_native)) {
      if (asked.size() > 1)
        return {Code::kInvalid, std::string(kNativeGpu) + " is a GPU of the node; leave it out"};
      has_native_ = has_native_ || ReadUnits(hami->second.at(kNativeGpu)).value != 0;
      return {};
    }
    const VgpuAsk nothing;
    std::optional<VgpuAsk> ask;
    Scheme by = Scheme::kHami;
    for (const auto& [scheme, words] : asked) {
      Result<std::optional<VgpuAsk>> read =
          ReadAliases(scheme, words,
                      {TextOrNumber(Member(metadata_, "labels"), "aliyun.com/gpu-count"),
                       TextOrNumber(annotations_, "tencent.com/vcuda-core-limit")},
                      options_.gpushare_unit);
      if (!read.ok()) return read.status();
      if (!*read) continue;
      if (ask)
        return {Code::kInvalid, "it asks by names of " + std::string(NameOf(by)) + " and of " +
                                    NameOf(scheme) + "; use those of one"};
      ask = **read;
      by = scheme;
    }
    if (!ask) return {};
    if (!TextOrNumber(limits, kResource).empty())
      return {Code::kInvalid, "it asks for " + std::string(kResource) + " and by names of " +
                                  NameOf(by) + "; use one"};
    if (found.name.size() > kMaxContainerName)
      return {Code::kInvalid, "its name has more than 54 characters; write a shorter one"};
    has_hami_ = has_hami_ || by == Scheme::kHami;
    found.ask = *ask;
    found_.push_back(std::move(found));
    return {};
  }

  static bool IsNative(const std::map<std::string, std::string>& hami) {
    return hami.size() == 1 && hami.begin()->first == kNativeGpu;
  }

  // KAI asks by annotations: for a named container, else for the first.
  Status ReadKai() {
    const std::string part = TextOrNumber(annotations_, "gpu-fraction");
    const std::string memory = TextOrNumber(annotations_, "gpu-memory");
    if (part.empty() && memory.empty()) return {};
    if (!found_.empty())
      return {Code::kInvalid, "annotation gpu-fraction or gpu-memory, and container " +
                                  found_.front().name + " asks as well; use one"};
    if (!part.empty() && !memory.empty())
      return {Code::kInvalid, "annotations gpu-fraction and gpu-memory: write one of them"};
    VgpuAsk ask;
    if (!part.empty() && (!ReadFraction(part, &ask.memory_milli) || ask.memory_milli == 0))
      return {Code::kInvalid,
              "annotation gpu-fraction " + Quoted(part) + ": write a fraction such as 0.5"};
    ask.share_milli = ask.memory_milli;
    if (ask.memory_milli == 1000) ask.memory_milli = ask.share_milli = 0;  // a whole GPU
    const Units units = ReadUnits(memory);
    if (!memory.empty() && (units.kind != Units::Kind::kNumber || units.value == 0 ||
                            units.value > (uint64_t{1} << 26)))
      return {Code::kInvalid,
              "annotation gpu-memory " + Quoted(memory) + ": write MiB, such as 4096"};
    ask.memory_bytes = units.value * kMib;
    const std::string wanted = TextOrNumber(annotations_, "gpu-fraction-container-name");
    auto containers = spec_.find("containers");
    for (size_t i = 0;
         containers != spec_.end() && containers->is_array() && i < containers->size(); ++i) {
      const std::string name = TextOrNumber((*containers)[i], "name");
      if (!wanted.empty() && name != wanted) continue;
      if (!TextOrNumber(Member(Member((*containers)[i], "resources"), "limits"), kResource).empty())
        return {Code::kInvalid, "annotations gpu-fraction or gpu-memory, and container " + name +
                                    " asks for " + kResource + "; use one"};
      found_.push_back({"/spec/containers/" + std::to_string(i),
                        name,
                        ask,
                        {},
                        {},
                        !Member(Member((*containers)[i], "resources"), "requests").empty()});
      for (const char* spent : {"gpu-fraction", "gpu-memory", "gpu-fraction-container-name"})
        if (annotations_.contains(spent)) all_.spent.insert(spent);
      return {};
    }
    return {Code::kInvalid, "annotation gpu-fraction-container-name " + Quoted(wanted) +
                                ": the pod has no such container"};
  }

  // An ElasticGPUClaim that an annotation gives a container, which then asks for nothing itself.
  Status ReadElasticClaims() {
    auto containers = spec_.find("containers");
    for (const auto& [annotation, value] : annotations_.items()) {
      const std::string wanted = ElasticContainer(annotation);
      for (size_t i = 0; !wanted.empty() && containers != spec_.end() && containers->is_array() &&
                         i < containers->size();
           ++i) {
        const Json& container = (*containers)[i];
        const Json& resources = Member(container, "resources");
        if (TextOrNumber(container, "name") != wanted) continue;
        for (const Found& found : found_)
          if (found.name == wanted)
            return {Code::kInvalid, "annotation " + Printable(annotation) + ", and container " +
                                        wanted + " asks as well; use one"};
        if (!TextOrNumber(Member(resources, "limits"), kResource).empty()) continue;
        Found found;
        found.path = "/spec/containers/" + std::to_string(i);
        found.name = wanted;
        found.has_requests = !Member(resources, "requests").empty();
        found_.push_back(std::move(found));
      }
    }
    return {};
  }

  // "0.5" to thousandths, rounded up.
  static bool ReadFraction(const std::string& text, uint32_t* milli) {
    Decimal number;
    if (!ReadDecimal(text, &number) || !number.rest.empty()) return false;
    const uint64_t billionths =
        number.whole > 1 ? UINT64_MAX : number.whole * kBillion + number.billionths;
    if (billionths > kBillion) return false;
    *milli = static_cast<uint32_t>((billionths + 999'999) / 1'000'000);
    return true;
  }

  // Kubelets pass an init container's devices on to the containers that follow, and tell only of
  // those: it uses the claim of the first one that asks.
  Status CheckInitContainers() {
    auto is_init = [](const Found& found) { return found.path.rfind("/spec/init", 0) == 0; };
    auto first = std::find_if_not(found_.begin(), found_.end(), is_init);
    for (const Found& found : found_) {
      if (!is_init(found)) continue;
      if (first == found_.end())
        return {Code::kInvalid, "init container " + found.name +
                                    ": a container of the pod has to ask for the same"};
      if (!(found.ask == first->ask))
        return {Code::kInvalid, "init container " + found.name +
                                    ": it uses the claim of container " + first->name +
                                    "; ask for the same there"};
    }
    return {};
  }

  // The pod's own annotations say how much; beside aliases nobody could tell which of them counts.
  Status CheckOwnWords() {
    for (const auto& [name, value] : annotations_.items())
      for (const char* ours : {"mem", "share", "limit", "claim"})
        if (name == std::string("farcall.io/") + ours ||
            name.rfind(std::string("farcall.io/") + ours + ".", 0) == 0)
          return {Code::kInvalid, "annotation " + Printable(name) + ", and container " +
                                      found_.front().name + " asks by other names; use one"};
    return {};
  }

  Status ReadHamiWords() {
    if (!has_hami_) return {};
    for (const char* name :
         {"nvidia.com/nouse-gputype", "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"})
      if (!TextOrNumber(annotations_, name).empty())
        return {Code::kInvalid, std::string("annotation ") + name +
                                    ": the pool chooses the GPU; write nvidia.com/use-gputype "
                                    "with one model, or leave it out"};
    all_.model = TextOrNumber(annotations_, "nvidia.com/use-gputype");
    if (all_.model.find(',') != std::string::npos)
      return {Code::kInvalid, "annotation nvidia.com/use-gputype " + Quoted(all_.model) +
                                  ": write one model, such as A100"};
    if (const std::string mode = TextOrNumber(annotations_, "nvidia.com/vgpu-mode");
        !mode.empty() && mode != "hami-core")
      return {Code::kInvalid, "annotation nvidia.com/vgpu-mode " + Quoted(mode) +
                                  ": the pool's hosts choose; leave it out"};
    if (!TextOrNumber(annotations_, "nvidia.com/numa-bind").empty())
      Warn("annotation nvidia.com/numa-bind has no meaning for a GPU of another machine");
    return {};
  }

  void ReadPlacement() {
    std::string word = TextOrNumber(annotations_, "hami.io/gpu-scheduler-policy");
    if (word.empty()) word = TextOrNumber(Member(spec_, "nodeSelector"), "ack.node.gpu.placement");
    if (word == "binpack") word = "pack";
    if (word == "topology-aware") word = "topology";
    if (pool::PlacerOf(word)) all_.placer = word;
  }

  void Warn(const std::string& what) { done_.warnings.push_back("farcall: " + what); }

  void Change(const char* operation, const std::string& path) {
    done_.patch.push_back({{"op", operation}, {"path", path}});
  }
  void Add(const std::string& path, Json value) {
    done_.patch.push_back({{"op", "add"}, {"path", path}, {"value", std::move(value)}});
  }

  void Move(const Found& found) {
    const std::string resources = found.path + "/resources";
    if (found.limits.empty() && found.requests.empty()) {  // KAI's
      Need(found.path, "resources");
      Need(found.path + "/resources", "limits");
    }
    for (const std::string& name : found.limits)
      Change("remove", resources + "/limits/" + Pointer(name));
    for (const std::string& name : found.requests)
      Change("remove", resources + "/requests/" + Pointer(name));
    const std::string count = std::to_string(found.ask.count);
    Add(resources + "/limits/" + Pointer(kResource), count);
    if (found.has_requests) Add(resources + "/requests/" + Pointer(kResource), count);
  }

  // An object to add to.
  void Need(const std::string& path, const char* name) {
    const Json whole = {{"metadata", metadata_}, {"spec", spec_}};
    const std::string at = path + "/" + name;
    const Json::json_pointer pointer(at);
    if (!whole.contains(pointer) || !whole.at(pointer).is_object()) Add(at, Json::object());
  }

  void Annotate() {
    std::map<std::string, std::string> words;
    const bool are_alike = std::all_of(found_.begin(), found_.end(), [&](const Found& found) {
      return WordsOf(found.ask) == WordsOf(found_.front().ask);
    });
    for (const Found& found : found_)
      for (const auto& [name, value] : WordsOf(found.ask))
        words[are_alike ? name : name + "." + found.name] = value;
    if (!all_.model.empty()) words["model"] = all_.model;
    if (!all_.placer.empty()) words["placer"] = all_.placer;
    if (!words.empty()) Need("/metadata", "annotations");
    for (const auto& [name, value] : words)
      Add("/metadata/annotations/" + Pointer("farcall.io/" + name), value);
    for (const std::string& name : all_.spent)
      Change("remove", "/metadata/annotations/" + Pointer(name));
  }

  // A pod that still wants a GPU of its node stays where the cluster puts it.
  void LeavePlaces() {
    if (has_native_) return;
    for (const char* name : kNodeSelectors) {
      if (!Member(spec_, "nodeSelector").contains(name)) continue;
      Change("remove", "/spec/nodeSelector/" + Pointer(name));
      Warn(std::string("nodeSelector ") + name + " is left out: the GPU is another machine's");
    }
    const std::string scheduler = TextOrNumber(spec_, "schedulerName");
    if (std::count(std::begin(kSchedulers), std::end(kSchedulers), scheduler) != 0) {
      Add("/spec/schedulerName", "default-scheduler");
      Warn("schedulerName " + scheduler + " is left out: the pool places the claim");
    }
    if (TextOrNumber(spec_, "runtimeClassName") == "nvidia") {
      Change("remove", "/spec/runtimeClassName");
      Warn("runtimeClassName nvidia is left out: the node needs no driver");
    }
  }

  const Json &metadata_, &spec_, &annotations_;
  const AliasOptions& options_;
  std::vector<Found> found_;
  PodAsk all_;
  bool has_native_ = false, has_hami_ = false;
  Translation done_;
};

}  // namespace

std::map<std::string, std::string> WordsOf(const VgpuAsk& ask) {
  std::map<std::string, std::string> words;
  if (ask.memory_milli != 0) words["mem"] = Percent(ask.memory_milli);
  if (ask.memory_bytes != 0)
    words["mem"] = ask.memory_bytes % kGib == 0 ? std::to_string(ask.memory_bytes / kGib) + "Gi"
                                                : std::to_string(ask.memory_bytes / kMib) + "Mi";
  if (ask.share_milli != 0) words["share"] = Percent(ask.share_milli);
  if (ask.limit_milli != 0) words["limit"] = Percent(ask.limit_milli);
  if (!ask.priority.empty()) words["priority"] = ask.priority;
  return words;
}

Result<Translation> TranslatePod(const Json& pod, const AliasOptions& options) {
  if (!pod.is_object()) return Status(Code::kInvalid, "the object is no pod");
  Result<Translation> done = Translator(pod, options).Run();
  if (done.ok() && options.gates) AddGate(pod, &*done);
  return done;
}

void AddGate(const Json& pod, Translation* done) {
  Json after = pod;
  try {
    after.patch_inplace(done->patch);
  } catch (const Json::exception&) {
    return;  // the API server will refuse it
  }
  Pod words;
  ReadPodWords(after, &words);
  const Json& spec = Member(after, "spec");
  if (words.is_gated || !MayBeGated(words) || !Text(spec, "nodeName").empty()) return;
  const Json gate = {{"name", kClaimGate}};
  auto gates = spec.find("schedulingGates");
  const bool has_some = gates != spec.end() && gates->is_array() && !gates->empty();
  done->patch.push_back({{"op", "add"},
                         {"path", std::string("/spec/schedulingGates") + (has_some ? "/-" : "")},
                         {"value", has_some ? gate : Json::array({gate})}});
}

}  // namespace farcall::k8s
