// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/dra/prepared_claims.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "pool/k8s/api/list_watch.h"
#include "pool/k8s/claims/binding.h"
#include "pool/k8s/claims/claim_plan.h"
#include "pool/k8s/claims/owner.h"
#include "pool/k8s/claims/pool_claims.h"
#include "pool/k8s/dra/device_slices.h"
#include "pool/k8s/process/process.h"
#include "proto/printable.h"
#include "proto/text_file.h"

namespace farcall::k8s {

namespace {

constexpr Process kProcess{"dra"};
namespace pb = farcall::pool::v1;
using Json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kPatience{25};  // a kubelet gives up after 45
constexpr milliseconds kLookPause{300};
constexpr seconds kRenewPause{45};
constexpr int kAskSeconds = 10;
constexpr int64_t kFirstWaitMs = 2000;
constexpr char kPart[] = "resourceclaim";  // where an owner of a container has the container's name
constexpr char kSettingsFolder[] = "/etc/farcall", kLibraryFolder[] = "/usr/local/lib/farcall";
constexpr char kCdiKind[] = "farcall.io/vgpu";

// Mounts and environment of the whole file come to a container once, however many of its devices
// it has; a device has to have something of its own.
Json CdiSpec(const std::string& uid, size_t devices, const std::string& folder,
             const std::string& libraries) {
  auto mount = [](const std::string& outside, const char* inside) {
    return Json{{"hostPath", outside},
                {"containerPath", inside},
                {"options", Json::array({"ro", "nosuid", "nodev", "rbind"})}};
  };
  Json list = Json::array();
  for (size_t i = 0; i < devices; ++i)
    list.push_back({{"name", uid + "-" + std::to_string(i)},
                    {"containerEdits", {{"env", Json::array({"FARCALL_DRA_CLAIM=" + uid})}}}});
  return {{"cdiVersion", "0.5.0"},
          {"kind", kCdiKind},
          {"containerEdits",
           {{"env", Json::array({std::string("LD_LIBRARY_PATH=") + kLibraryFolder})},
            {"mounts",
             Json::array({mount(folder, kSettingsFolder), mount(libraries, kLibraryFolder)})}}},
          {"devices", std::move(list)}};
}

}  // namespace

PreparedClaims::PreparedClaims(const pool::PoolAddress& pool, const std::string& project_root,
                               Place place, ApiClient* api)
    : pool_(WithPatience(pool, kAskSeconds)),
      projects_(&pool_, project_root),
      place_(std::move(place)),
      api_(api) {}

void PreparedClaims::Start() {
  thread_ = std::thread([this] { Run(); });
}

void PreparedClaims::Stop() {
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::string PreparedClaims::CdiFile(const std::string& uid) const {
  return place_.cdi + "/farcall.io-vgpu-" + uid + ".json";
}

// Another one than that of the node's device plugin, which releases what is of no pod.
Status PreparedClaims::FindPrefix(std::string* prefix) {
  std::lock_guard lock(mutex_);
  if (prefix_.empty()) {
    std::string cluster;
    FARCALL_TRY(FindCluster(api_, &cluster));
    prefix_ = OwnerPrefix(cluster, place_.node + "/dra");
  }
  *prefix = prefix_;
  return {};
}

Status PreparedClaims::List(const std::string& uid, std::vector<pb::Claim>* claims) {
  std::string prefix;
  FARCALL_TRY(FindPrefix(&prefix));
  return ListOwned(&pool_, prefix + uid + ":", claims);
}

// A node asks only for what its own pods have.
Status PreparedClaims::CheckNode(const ResourceClaim& claim) {
  for (const auto& [name, uid] : claim.pods) {
    ApiAnswer answer;
    Status got = api_->Get("/api/v1/namespaces/" + claim.space + "/pods/" + name, &answer);
    if (got.code() == Code::kUnavailable) return got;
    if (got.ok() && TextAt(answer.body, "metadata", "uid") == uid &&
        TextAt(answer.body, "spec", "nodeName") == place_.node)
      return {};
  }
  return {Code::kRefused, "ResourceClaim " + claim.space + "/" + claim.name +
                              " is reserved for no pod of node " + place_.node};
}

Result<std::string> PreparedClaims::FindHost(const ResourceClaim& claim) {
  pb::HostList hosts;
  FARCALL_TRY(pool_.Get("/v1/hosts", &hosts));
  std::string found;
  for (const GivenDevice& given : claim.devices) {
    std::string host;
    for (const pb::Host& each : hosts.hosts())
      for (const pb::Gpu& gpu : each.gpus())
        if (DeviceName(each.name(), gpu.index()) == given.device) host = each.name();
    if (host.empty())
      return Status(Code::kRefused, "the pool has no device " + Quoted(given.device));
    if (!found.empty() && found != host)
      return Status(Code::kRefused, "ResourceClaim " + claim.space + "/" + claim.name +
                                        " has devices of hosts " + found + " and " + host +
                                        ": constrain them to one (matchAttribute "
                                        "farcall.io/host)");
    found = host;
  }
  return found;
}

Result<std::string> PreparedClaims::Bind(const ResourceClaim& claim, const DeviceAsk& ask) {
  const auto deadline = Clock::now() + kPatience;
  std::vector<pb::Claim> claims;
  FARCALL_TRY(List(claim.uid, &claims));
  pb::Claim own;
  if (!claims.empty()) {
    own = claims.front();
  } else {
    Result<std::string> host = FindHost(claim);
    if (!host.ok()) return host;
    Result<std::string> project = projects_.Of(claim.space);
    if (!project.ok()) return project;
    std::string owner;
    FARCALL_TRY(FindPrefix(&owner));
    owner += claim.uid + ":" + kPart + ":" + OwnerEnd(claim.space, claim.name, place_.node);
    pb::ClaimRequest request;
    request.set_count(ask.count);
    request.set_memory_bytes(ask.memory_bytes);
    request.set_share_milli(ask.cores * 10);
    request.set_host(*host);
    request.set_project(*project);
    request.set_owner(owner.substr(0, kMaxOwner));
    request.set_wait_ms(kFirstWaitMs);
    FARCALL_TRY(pool_.Call("POST", "/v1/claims", &request, &own));
  }
  const std::string id = own.id();
  if (!IsName(id)) return Status(Code::kMalformed, "the pool's claim is called " + Quoted(id));
  while (!IsHeldState(own.state())) {
    if (!IsLiveState(own.state()))
      return Status(Code::kRefused, "the pool's claim " + id + " is " + Printable(own.state()));
    if (Clock::now() + kLookPause >= deadline)
      return Status(Code::kTimeout, "claim " + id + " waits in the pool");
    std::this_thread::sleep_for(kLookPause);
    FARCALL_TRY(pool_.Get("/v1/claims/" + id, &own));
  }
  pb::ClaimName name;
  name.set_id(id);
  FARCALL_TRY(pool_.Call("POST", "/v1/claims/" + id + ":renew", &name, &own));
  return id;
}

Status PreparedClaims::Write(const std::string& uid, const std::string& pool_claim,
                             size_t devices) {
  const std::string folder = Folder(uid);
  FARCALL_TRY(MakeFolder(place_.state, 0700));
  FARCALL_TRY(MakeFolder(place_.state + "/dra", 0755));
  FARCALL_TRY(MakeFolder(folder, 0755));
  // A claim that is prepared again keeps its token: containers may have read it.
  if (BoundClaim(folder) != pool_claim) {
    Binding binding{place_.endpoint, pool_claim, "", ""};
    if (!place_.token.empty()) {
      pb::TokenRequest request;
      request.set_claim(pool_claim);
      request.set_name("k8s");
      pb::Token made;
      FARCALL_TRY(pool_.Call("POST", "/v1/tokens", &request, &made));
      binding.token = made.token();
    }
    if (!place_.authorities.empty()) {
      Result<std::string> ca = ReadTextFile(place_.authorities);
      if (!ca.ok())
        return {Code::kUnavailable, "'" + place_.authorities + "': " + ca.status().message()};
      binding.ca = *ca;
    }
    FARCALL_TRY(WriteBinding(folder, binding));
  }
  FARCALL_TRY(MakeFolder(place_.cdi, 0755));
  return WriteWhole(CdiFile(uid), CdiSpec(uid, devices, folder, place_.libraries).dump(2) + "\n");
}

Result<std::vector<PreparedDevice>> PreparedClaims::Prepare(const std::string& space,
                                                            const std::string& name,
                                                            const std::string& uid) {
  for (const std::string* word : {&space, &name, &uid})
    if (!IsName(*word)) return Status(Code::kMalformed, Quoted(*word) + " is no object's name");
  const auto busy = [&](bool is_on) {
    std::lock_guard lock(mutex_);
    return is_on ? busy_.insert(uid).second : busy_.erase(uid) != 0;
  };
  if (!busy(true))
    return Status(Code::kUnavailable, "an earlier call is still at ResourceClaim " + name);
  const std::shared_ptr<void> done(nullptr, [&](void*) { busy(false); });
  ApiAnswer answer;
  FARCALL_TRY(api_->Get("/apis/resource.k8s.io/v1/namespaces/" + space + "/resourceclaims/" + name,
                        &answer));
  Result<ResourceClaim> claim = ReadResourceClaim(answer.body);
  if (!claim.ok()) return claim.status();
  if (claim->uid != uid)
    return Status(Code::kRefused, "ResourceClaim " + space + "/" + name + " is another one now");
  FARCALL_TRY(CheckNode(*claim));
  Result<std::optional<DeviceAsk>> ask = AskOf(*claim);
  if (!ask.ok()) return ask.status();
  if (*ask) {
    Result<std::string> bound = Bind(*claim, **ask);
    if (!bound.ok()) return bound.status();
    FARCALL_TRY(Write(uid, *bound, claim->devices.size()));
    kProcess.Say("prepared ResourceClaim " + space + "/" + name + ": claim " + *bound);
  }
  std::vector<PreparedDevice> devices;
  for (size_t i = 0; i < claim->devices.size(); ++i) {
    const GivenDevice& given = claim->devices[i];
    const std::string id = std::string(kCdiKind) + "=" + uid + "-" + std::to_string(i);
    devices.push_back({given.request, given.pool, given.device, given.is_admin ? "" : id});
  }
  return devices;
}

Status PreparedClaims::Unprepare(const std::string& uid) {
  if (!IsName(uid)) return {Code::kMalformed, Quoted(uid) + " is no claim's uid"};
  std::vector<pb::Claim> claims;
  FARCALL_TRY(List(uid, &claims));
  for (const pb::Claim& claim : claims) {
    pb::Claim after;
    FARCALL_TRY(pool_.Call("DELETE", "/v1/claims/" + claim.id(), nullptr, &after));
    kProcess.Say("released claim " + claim.id() + ": no pod of the node uses it");
  }
  RemoveBinding(Folder(uid));
  for (const std::string& path : {CdiFile(uid), Folder(uid)})
    if (remove(path.c_str()) != 0 && errno != ENOENT)
      return {Code::kUnavailable, "'" + path + "': " + std::strerror(errno)};
  return {};
}

Status PreparedClaims::Renew() {
  Status failed;
  DIR* folder = opendir((place_.state + "/dra").c_str());
  if (folder == nullptr) return {};
  std::vector<std::string> uids;
  while (const dirent* entry = readdir(folder))
    if (IsName(entry->d_name)) uids.emplace_back(entry->d_name);
  closedir(folder);
  for (const std::string& uid : uids) {
    const std::string id = BoundClaim(Folder(uid));
    if (!IsName(id)) continue;
    pb::ClaimName name;
    name.set_id(id);
    pb::Claim after;
    if (Status done = pool_.Call("POST", "/v1/claims/" + id + ":renew", &name, &after); !done.ok())
      failed = done;
  }
  return failed;
}

void PreparedClaims::Run() {
  std::string said;
  while (true) {
    const Status done = Renew();
    if (!done.ok() && done.message() != said) kProcess.Warn(done.message());
    said = done.message();
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, kRenewPause, [this] { return is_stopped_; })) return;
  }
}

}  // namespace farcall::k8s
