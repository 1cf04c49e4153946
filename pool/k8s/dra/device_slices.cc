// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/dra/device_slices.h"

#include <openssl/sha.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string_view>

#include "pool/k8s/api/object_fields.h"
#include "pool/k8s/claims/claim_object.h"

namespace farcall::k8s {

namespace {

namespace pb = farcall::pool::v1;
using Json = nlohmann::json;

constexpr std::string_view kSlice = "farcall-gpus-";
constexpr size_t kMaxLabel = 63, kMaxText = 64, kKeptOfName = 32;

bool IsLabel(std::string_view text) {
  auto is_alphanumeric = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !text.empty() && text.size() <= kMaxLabel && is_alphanumeric(text.front()) &&
         is_alphanumeric(text.back()) && std::all_of(text.begin(), text.end(), [&](char c) {
           return is_alphanumeric(c) || c == '-';
         });
}

// "9.0" as "9.0.0"; "": it is no version.
std::string SemanticVersion(const std::string& text) {
  int parts = 1;
  bool has_digit = false;
  for (char c : text) {
    if (c == '.') {
      if (!has_digit) return "";
      ++parts;
      has_digit = false;
    } else if (c < '0' || c > '9') {
      return "";
    } else {
      has_digit = true;
    }
  }
  if (!has_digit || parts > 3 || text.size() > 16) return "";
  return text + (parts == 1 ? ".0.0" : parts == 2 ? ".0" : "");
}

void AddText(Json* attributes, const char* name, const std::string& text) {
  if (!text.empty()) (*attributes)[name] = {{"string", text.substr(0, kMaxText)}};
}

Json TaintsOf(const pb::Host& host) {
  Json taints = Json::array();
  auto add = [&](const char* key, const char* effect) {
    taints.push_back({{"key", std::string(kDraDriver) + "/" + key}, {"effect", effect}});
  };
  if (host.cordoned()) add("cordoned", "NoSchedule");
  if (host.state() == "draining" || host.state() == "drained") add("draining", "NoSchedule");
  if (host.state() == "joining" || host.state() == "suspect")
    add(host.state().c_str(), "NoSchedule");
  if (host.state() == "lost") add("lost", "NoExecute");
  return taints;
}

// The API server adds when a taint came.
Json Comparable(Json devices) {
  if (!devices.is_array()) return Json::array();
  for (Json& device : devices)
    if (auto taints = device.find("taints"); taints != device.end() && taints->is_array())
      for (Json& taint : *taints)
        if (taint.is_object()) taint.erase("timeAdded");
  return devices;
}

}  // namespace

std::string DeviceName(const std::string& host, uint32_t index) {
  const std::string end = "-gpu-" + std::to_string(index);
  if (IsLabel(host) && host.size() + end.size() <= kMaxLabel) return host + end;
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(host.data()), host.size(), digest);
  std::string name = "x-";
  for (int i = 0; i < 6; ++i) {
    char byte[3];
    std::snprintf(byte, sizeof(byte), "%02x", digest[i]);
    name += byte;
  }
  name += "-";
  for (char c : host.substr(0, kKeptOfName)) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    name += (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '-';
  }
  return name + end;
}

Json DeviceOf(const pb::Host& host, const pb::Gpu& gpu) {
  const uint64_t memory = gpu.memory_bytes() / kMemoryStep * kMemoryStep;
  const uint64_t lent = std::max(memory, gpu.lendable_bytes() / kMemoryStep * kMemoryStep);
  auto label = [&](const char* name) {
    auto at = host.labels().find(name);
    return at == host.labels().end() ? std::string() : at->second;
  };
  Json attributes = Json::object();
  AddText(&attributes, "model", gpu.name());
  AddText(&attributes, "host", host.name());
  AddText(&attributes, "uuid", gpu.uuid());
  AddText(&attributes, "zone", label("zone"));
  AddText(&attributes, "tier", label("tier"));
  if (const std::string version = SemanticVersion(label("compute-capability")); !version.empty())
    attributes["computeCapability"] = {{"version", version}};
  Json device = {
      {"name", DeviceName(host.name(), gpu.index())},
      {"allowMultipleAllocations", true},
      {"attributes", std::move(attributes)},
      {"capacity",
       {{"memory",
         {{"value", QuantityOf(lent)},
          {"requestPolicy",
           {{"default", QuantityOf(memory)},
            {"validRange",
             {{"min", QuantityOf(kMemoryStep)},
              {"max", QuantityOf(memory)},
              {"step", QuantityOf(kMemoryStep)}}}}}}},
        {"cores",
         {{"value", "100"},
          {"requestPolicy",
           {{"default", "0"}, {"validRange", {{"min", "0"}, {"max", "100"}, {"step", "1"}}}}}}}}}};
  if (Json taints = TaintsOf(host); !taints.empty()) device["taints"] = std::move(taints);
  return device;
}

void DeviceSlices::Adopt(const Json& object) {
  const std::string name = TextAt(object, "metadata", "name");
  size_t number = 0;
  if (name.rfind(kSlice, 0) != 0) return;
  const char* end = name.data() + name.size();
  auto [at, error] = std::from_chars(name.data() + kSlice.size(), end, number);
  if (error != std::errc() || at != end) return;
  const Json& spec = Member(object, "spec");
  Slice& slice = slices_[number];
  changed_.insert(number);
  auto devices = spec.find("devices");
  slice.written = devices == spec.end() ? Json::array() : Comparable(*devices);
  slice.generation = static_cast<uint64_t>(Number(Member(spec, "pool"), "generation"));
  for (const Json& device : slice.written) {
    const std::string device_name = Text(device, "name");
    if (device_name.empty() || slice.devices.size() >= kDevicesOfSlice) continue;
    if (place_.emplace(device_name, number).second) slice.devices[device_name] = device;
  }
}

void DeviceSlices::Update(const pb::HostList& hosts) {
  std::map<std::string, Json> wanted;
  for (const pb::Host& host : hosts.hosts())
    for (const pb::Gpu& gpu : host.gpus())
      // One with less memory than a step can be no claim's.
      if (gpu.memory_bytes() >= 2 * kMemoryStep) {
        Json device = DeviceOf(host, gpu);
        std::string name = device["name"];
        wanted.emplace(std::move(name), std::move(device));
      }
  for (auto at = place_.begin(); at != place_.end();) {
    if (wanted.count(at->first) != 0) {
      ++at;
      continue;
    }
    slices_[at->second].devices.erase(at->first);
    changed_.insert(at->second);
    at = place_.erase(at);
  }
  size_t number = 0;
  for (auto& [name, device] : wanted) {
    auto at = place_.find(name);
    if (at == place_.end()) {
      while (slices_[number].devices.size() >= kDevicesOfSlice) ++number;
      at = place_.emplace(name, number).first;
    }
    Json& now = slices_[at->second].devices[name];
    if (now == device) continue;
    now = std::move(device);
    changed_.insert(at->second);
  }
}

std::optional<DeviceSlices::Change> DeviceSlices::Next() {
  while (!changed_.empty()) {
    const size_t number = *changed_.begin();
    const Slice& slice = slices_[number];
    Json devices = Json::array();
    for (const auto& [name, device] : slice.devices) devices.push_back(device);
    if (devices == slice.written || (devices.empty() && slice.written.is_null())) {
      changed_.erase(changed_.begin());
      continue;
    }
    const std::string name = std::string(kSlice) + std::to_string(number);
    if (devices.empty()) return Change{name, nullptr, number, 0, nullptr};
    Json object = {
        {"apiVersion", "resource.k8s.io/v1"},
        {"kind", "ResourceSlice"},
        {"metadata", {{"name", name}}},
        {"spec",
         {{"driver", kDraDriver},
          {"pool",
           {{"name", name}, {"generation", slice.generation + 1}, {"resourceSliceCount", 1}}},
          {"allNodes", true},
          {"devices", devices}}}};
    return Change{name, std::move(object), number, slice.generation + 1, std::move(devices)};
  }
  return std::nullopt;
}

void DeviceSlices::Done(const Change& change) {
  Slice& slice = slices_[change.number];
  slice.written = change.devices;
  slice.generation = change.object.is_null() ? slice.generation : change.generation;
}

}  // namespace farcall::k8s
