// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/dra/resource_claim.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "pool/k8s/api/object_fields.h"
#include "pool/k8s/dra/device_slices.h"
#include "pool/k8s/pods/pod.h"
#include "proto/printable.h"

namespace farcall::k8s {

namespace {

using Json = nlohmann::json;

constexpr size_t kMaxDevices = 64;  // of one claim of the pool; Kubernetes allows 32
constexpr uint32_t kWhole = 100;

Status ReadCapacity(const Json& consumed, GivenDevice* given) {
  if (const std::string memory = Text(consumed, "memory"); !memory.empty())
    if (!ReadQuantity(memory, &given->memory_bytes) || given->memory_bytes == 0)
      return {Code::kRefused, "device " + Quoted(given->device) + ": memory " + Quoted(memory)};
  if (const std::string cores = Text(consumed, "cores"); !cores.empty()) {
    auto [end, error] = std::from_chars(cores.data(), cores.data() + cores.size(), given->cores);
    if (error != std::errc() || end != cores.data() + cores.size() || given->cores > kWhole)
      return {Code::kRefused,
              "device " + Quoted(given->device) + ": cores " + Quoted(cores) + ": write 0 to 100"};
  }
  return {};
}

const Json& List(const Json& object, const char* name) {
  static const Json none = Json::array();
  auto at = object.find(name);
  return at == object.end() || !at->is_array() ? none : *at;
}

}  // namespace

Result<ResourceClaim> ReadResourceClaim(const Json& object) {
  Result<ObjectMeta> meta = ReadMeta(object, "ResourceClaim");
  if (!meta.ok()) return meta.status();
  ResourceClaim claim{meta->space, meta->name, meta->uid, {}, {}};
  const Json& status = Member(object, "status");
  const std::string who = "ResourceClaim " + claim.space + "/" + claim.name;
  if (Member(status, "allocation").empty())
    return Status(Code::kRefused, who + " is not allocated");
  for (const Json& result : List(Member(Member(status, "allocation"), "devices"), "results")) {
    if (Text(result, "driver") != kDraDriver) continue;
    GivenDevice given{Text(result, "request"), Text(result, "pool"), Text(result, "device")};
    if (given.request.empty() || !IsName(given.pool) || !IsName(given.device))
      return Status(Code::kMalformed, who + ": a device without request, pool or name");
    auto admin = result.find("adminAccess");
    given.is_admin = admin != result.end() && admin->is_boolean() && admin->get<bool>();
    if (Status read = ReadCapacity(Member(result, "consumedCapacity"), &given); !read.ok())
      return Status(read.code(), who + ": " + read.message());
    claim.devices.push_back(std::move(given));
    if (claim.devices.size() > kMaxDevices)
      return Status(Code::kRefused, who + ": more than 64 devices");
  }
  for (const Json& user : List(status, "reservedFor"))
    if (Text(user, "resource") == "pods" && IsName(Text(user, "name")))
      claim.pods.emplace_back(Text(user, "name"), Text(user, "uid"));
  return claim;
}

Result<std::optional<DeviceAsk>> AskOf(const ResourceClaim& claim) {
  std::optional<DeviceAsk> ask;
  for (const GivenDevice& given : claim.devices) {
    if (given.is_admin) continue;
    if (!ask) ask = DeviceAsk{0, given.memory_bytes, given.cores};
    if (ask->memory_bytes != given.memory_bytes || ask->cores != given.cores)
      return Status(Code::kRefused, "ResourceClaim " + claim.space + "/" + claim.name +
                                        ": its devices ask for different memory or cores: make "
                                        "a claim for each");
    ++ask->count;
  }
  return ask;
}

}  // namespace farcall::k8s
