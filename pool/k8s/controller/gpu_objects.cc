// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/controller/gpu_objects.h"

#include <openssl/sha.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "pool/k8s/api/list_watch.h"
#include "pool/k8s/process/process.h"

namespace farcall::k8s {

namespace {

constexpr Process kProcess{"controller"};
namespace pb = farcall::pool::v1;
using Json = nlohmann::json;
using std::chrono::seconds;

constexpr char kPath[] = "/apis/elasticgpu.io/v1alpha1/elasticgpus";
constexpr char kManagedBy[] = "app.kubernetes.io/managed-by";
constexpr char kMemory[] = "elasticgpu.io/gpu-memory", kCore[] = "elasticgpu.io/gpu-core";
constexpr seconds kPause{5};  // between two looks at what has changed: what is told adds up
constexpr seconds kRetryPause{15};
constexpr int kAskSeconds = 10;
constexpr int kHttpNotFound = 404;
constexpr size_t kMaxNamePart = 200;

// A host's name as part of an object's: what Kubernetes does not allow is replaced, and then the
// name has a digest, so that two hosts never share one.
std::string NamePart(const std::string& host) {
  if (IsName(host) && host.size() <= kMaxNamePart) return host;
  std::string part = host.substr(0, kMaxNamePart);
  for (char& c : part) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if ((c < 'a' || c > 'z') && (c < '0' || c > '9')) c = '-';
  }
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(host.data()), host.size(), digest);
  char text[16];
  std::snprintf(text, sizeof(text), "x-%02x%02x%02x%02x", digest[0], digest[1], digest[2],
                digest[3]);
  return text + ("-" + part);
}

std::string CardName(const std::string& host, uint32_t index) {
  return NamePart(host) + "-gpu-" + std::to_string(index);
}

Json Object(const std::string& name, Json spec, Json status) {
  return {{"apiVersion", kElasticGroupVersion},
          {"kind", "ElasticGPU"},
          {"metadata", {{"name", name}, {"labels", {{kManagedBy, "farcall"}}}}},
          {"spec", std::move(spec)},
          {"status", std::move(status)}};
}

Json Card(const pb::Host& host, const pb::Gpu& gpu) {
  const bool is_there = host.state() == "ready";
  return Object(CardName(host.name(), gpu.index()),
                {{"capacity", {{kCore, "100"}, {kMemory, QuantityOf(gpu.memory_bytes())}}},
                 {"nodeName", host.name()},
                 {"elasticGPUSource",
                  {{"physicalGPU",
                    {{"index", gpu.index()},
                     {"uuid", gpu.uuid()},
                     {"model", gpu.name()},
                     {"memory", QuantityOf(gpu.memory_bytes())}}}}}},
                {{"phase", !is_there           ? "Failed"
                           : gpu.claims() != 0 ? "Bound"
                                               : "Available"},
                 {"reason", is_there ? "" : "host " + host.name() + " is " + host.state()},
                 {"claims", gpu.claims()},
                 {"used",
                  {{kCore, std::to_string((gpu.used_milli() + 9) / 10)},
                   {kMemory, QuantityOf(gpu.used_bytes())}}}});
}

Json Slice(const ClaimObject& claim, uint32_t index) {
  return Object(
      claim.status.claim + "-" + std::to_string(index),
      {{"capacity", {{kMemory, QuantityOf(claim.status.memory_bytes)}}},
       {"nodeName", claim.status.host},
       {"elasticGPUSource", {{"gpuShare", {{"gpu", CardName(claim.status.host, index)}}}}},
       {"claimRef",
        {{"apiVersion", claim.is_elastic() ? kElasticGroupVersion : kGroupVersion},
         {"kind", claim.is_elastic() ? "ElasticGPUClaim" : "VGPUClaim"},
         {"namespace", claim.space},
         {"name", claim.own_name()},
         {"uid", claim.uid}}}},
      {{"phase", "Bound"}, {"pod", claim.status.pod}});
}

std::string TextOf(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::map<std::string, Json> GpuObjects(const pb::HostList& hosts,
                                       const std::vector<ClaimObject>& claims) {
  std::map<std::string, Json> objects;
  for (const pb::Host& host : hosts.hosts())
    for (const pb::Gpu& gpu : host.gpus())
      objects.emplace(CardName(host.name(), gpu.index()), Card(host, gpu));
  for (const ClaimObject& claim : claims)
    if (claim.status.phase == "Bound" && !claim.status.claim.empty())
      for (const uint32_t index : claim.status.gpus)
        objects.emplace(claim.status.claim + "-" + std::to_string(index), Slice(claim, index));
  return objects;
}

GpuPublisher::GpuPublisher(ApiClient* api, const pool::PoolAddress& pool,
                           std::function<std::vector<ClaimObject>()> claims,
                           std::function<bool()> leads)
    : api_(api),
      pool_(WithPatience(pool, kAskSeconds)),
      claims_(std::move(claims)),
      leads_(std::move(leads)),
      follower_(pool, {kPause, kRetryPause}, [this](bool) { return Work(); }) {}

HostFollower::Next GpuPublisher::Work() {
  if (!leads_()) {
    is_listed_ = false;  // another one writes them
    return HostFollower::Next::kWait;
  }
  const Status done = Publish();
  if (!done.ok()) is_listed_ = false;
  if (!done.ok() && done.message() != said_) kProcess.Warn("ElasticGPUs: " + done.message());
  said_ = done.message();
  return done.ok() ? HostFollower::Next::kWait : HostFollower::Next::kRetry;
}

Status GpuPublisher::ListOurs() {
  written_.clear();
  std::string version;
  FARCALL_TRY(ListObjects(
      api_,
      {kPath, std::string("labelSelector=") + Escaped(std::string(kManagedBy) + "=farcall"),
       "ElasticGPUs"},
      [this](const Json& object) {
        if (const std::string name = TextAt(object, "metadata", "name"); IsName(name))
          written_[name] = "";
        return Status();
      },
      &version));
  is_listed_ = true;
  return {};
}

Status GpuPublisher::Publish() {
  if (!is_listed_) FARCALL_TRY(ListOurs());
  pb::HostList hosts;
  FARCALL_TRY(pool_.Get("/v1/hosts", &hosts));
  const std::map<std::string, Json> wanted = GpuObjects(hosts, claims_());
  for (const auto& [name, object] : wanted) {
    std::string text = TextOf(object);
    if (auto at = written_.find(name); at != written_.end() && at->second == text) continue;
    if (!leads_()) return {};
    ApiAnswer answer;
    FARCALL_TRY(api_->Write(
        "PATCH", std::string(kPath) + "/" + name + "?fieldManager=farcall-controller&force=true",
        object, &answer, "application/apply-patch+yaml"));
    written_[name] = std::move(text);
  }
  for (auto at = written_.begin(); at != written_.end();) {
    if (wanted.count(at->first) != 0) {
      ++at;
      continue;
    }
    if (!leads_()) return {};
    ApiAnswer answer;
    Status done =
        api_->Write("DELETE", std::string(kPath) + "/" + at->first, Json::object(), &answer);
    if (!done.ok() && answer.status != kHttpNotFound) return done;
    at = written_.erase(at);
  }
  return {};
}

}  // namespace farcall::k8s
