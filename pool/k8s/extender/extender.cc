// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/extender/extender.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "pool/k8s/api/list_watch.h"
#include "pool/k8s/claims/claim_object.h"
#include "pool/k8s/claims/claim_plan.h"
#include "pool/k8s/claims/owner.h"
#include "pool/k8s/claims/pool_claims.h"
#include "pool/k8s/process/process.h"
#include "proto/printable.h"

namespace farcall::k8s {

namespace {

constexpr Process kProcess{"extender"};
namespace pb = farcall::pool::v1;
using Json = nlohmann::json;

constexpr int64_t kGrantWaitMs = 2000;  // a scheduler gives up after 5 s, unless told otherwise
constexpr int kNearScore = 10;          // the most that a scheduler takes
constexpr char kZone[] = "topology.kubernetes.io/zone";

// Go writes these names as they are here, and reads any spelling.
const Json& Part(const Json& object, const char* name) {
  static const Json none;
  auto at = object.find(name);
  return at == object.end() ? none : *at;
}

struct NodeWord {
  std::string name, zone;
};

std::vector<NodeWord> NodesOf(const Json& args) {
  std::vector<NodeWord> nodes;
  const Json& names = Part(args, "NodeNames");
  if (names.is_array())
    for (const Json& name : names)
      if (name.is_string()) nodes.push_back({name.get<std::string>(), ""});
  const Json& items = Part(Part(args, "Nodes"), "items");
  if (names.is_null() && items.is_array())
    for (const Json& node : items) {
      const Json& metadata = Member(node, "metadata");
      nodes.push_back({Text(metadata, "name"), Text(Member(metadata, "labels"), kZone)});
    }
  return nodes;
}

}  // namespace

Status Extender::ReadAsks(const Pod& pod, std::vector<std::pair<std::string, Ask>>* asks) {
  for (const auto& [container, limit] : pod.asked) {
    uint32_t count = 0;
    auto [end, error] = std::from_chars(limit.data(), limit.data() + limit.size(), count);
    if (error != std::errc() || end != limit.data() + limit.size() || count == 0 ||
        count > kMaxCount)
      return {Code::kInvalid, std::string(kResource) + " " + Quoted(limit) + ": write 1 to 64"};
    Result<Ask> ask = ReadAsk(pod, container);
    if (!ask.ok()) return ask.status();
    if (!ask->claim.empty()) continue;
    FARCALL_TRY(SizeMemory(&pool_, &*ask));
    ask->request.set_count(count);
    Result<std::string> project = projects_.Of(pod.space);
    if (!project.ok()) return project.status();
    ask->request.set_project(*project);
    asks->emplace_back(container, std::move(*ask));
  }
  return {};
}

Status Extender::Plan(const Pod& pod, std::string* host) {
  std::vector<std::pair<std::string, Ask>> asks;
  FARCALL_TRY(ReadAsks(pod, &asks));
  for (const auto& [container, ask] : asks) {
    pb::Explanation plan;
    FARCALL_TRY(pool_.Call("POST", "/v1/claims:plan", &ask.request, &plan));
    if (!plan.fits_now())
      return {Code::kRefused, (plan.could_ever_fit() ? "the pool has no room for it now: "
                                                     : "no GPU of the pool can hold it: ") +
                                  plan.why()};
    *host = plan.host();
  }
  return {};
}

Json Extender::Filter(const Json& args) {
  const Json& nodes = Part(args, "Nodes");
  Json answer = {{"Nodes", nodes}, {"NodeNames", Part(args, "NodeNames")}, {"Error", ""}};
  Result<Pod> pod = ReadPod(Part(args, "Pod"));
  if (!pod.ok()) return {{"Error", "farcall: " + pod.status().message()}};
  std::string host;
  retry_.Add(*pod);
  const Status planned = Plan(*pod, &host);
  if (planned.ok() || planned.code() == Code::kInvalid) retry_.Remove(pod->uid);
  if (planned.ok()) return answer;
  const std::string why = "farcall: " + Printable(planned.message(), kMaxMessageBytes);
  if (planned.code() == Code::kUnavailable) return {{"Error", why}};  // it is asked again, later
  Json failed = Json::object();
  for (const NodeWord& node : NodesOf(args)) failed[node.name] = why;
  answer["FailedNodes"] = std::move(failed);
  if (answer["NodeNames"].is_array()) answer["NodeNames"] = Json::array();
  if (nodes.is_object()) answer["Nodes"]["items"] = Json::array();
  return answer;
}

Json Extender::Prioritize(const Json& args) {
  std::string host, zone;
  Result<Pod> pod = ReadPod(Part(args, "Pod"));
  pb::HostList hosts;
  if (pod.ok() && Plan(*pod, &host).ok() && !host.empty() && pool_.Get("/v1/hosts", &hosts).ok())
    for (const pb::Host& told : hosts.hosts())
      if (auto label = told.labels().find("zone");
          told.name() == host && label != told.labels().end())
        zone = label->second;
  Json scores = Json::array();
  for (const NodeWord& node : NodesOf(args))
    scores.push_back(
        {{"Host", node.name}, {"Score", !zone.empty() && node.zone == zone ? kNearScore : 0}});
  return scores;
}

Json Extender::Bind(const Json& args) {
  const std::string space = Text(args, "PodNamespace"), name = Text(args, "PodName");
  const std::string uid = Text(args, "PodUID"), node = Text(args, "Node");
  for (const std::string* word : {&space, &name, &uid, &node})
    if (!IsName(*word)) return {{"Error", "farcall: " + Quoted(*word) + " is no object's name"}};
  {
    std::lock_guard lock(mutex_);
    if (!binding_.insert(uid).second)
      return {{"Error", "farcall: an earlier call still binds pod " + space + "/" + name}};
  }
  const Status bound = BindPod(space, name, uid, node);
  std::lock_guard lock(mutex_);
  binding_.erase(uid);
  return {{"Error", bound.ok() ? "" : "farcall: " + Printable(bound.message(), kMaxMessageBytes)}};
}

Status Extender::BindPod(const std::string& space, const std::string& name, const std::string& uid,
                         const std::string& node) {
  const std::string path = "/api/v1/namespaces/" + space + "/pods/" + name;
  ApiAnswer answer;
  FARCALL_TRY(api_->Get(path, &answer));
  Result<Pod> pod = ReadPod(answer.body);
  if (!pod.ok()) return pod.status();
  if (pod->uid != uid) return {Code::kRefused, "pod " + space + "/" + name + " is another one now"};
  if (!pod->node.empty())
    return pod->node == node ? Status()
                             : Status(Code::kRefused, "it is bound to node " + pod->node);
  std::vector<Grant> grants;
  retry_.Add(*pod);
  Status done = Claim(*pod, node, &grants);
  if (done.ok()) done = Announce(*pod, node, grants);
  if (done.ok() || done.code() == Code::kInvalid) retry_.Remove(uid);
  if (done.ok()) return {};
  // Whether the API server has taken the binding is not known if it does not answer. Its claims
  // stay then: the node's plugin releases them if the pod never comes.
  if (done.code() != Code::kUnavailable) Release(grants);
  return done;
}

Status Extender::FindPrefix(const std::string& node, std::string* prefix) {
  std::lock_guard lock(mutex_);
  if (cluster_.empty()) FARCALL_TRY(FindCluster(api_, &cluster_));
  *prefix = OwnerPrefix(cluster_, node);
  return {};
}

Status Extender::Claim(const Pod& pod, const std::string& node, std::vector<Grant>* grants) {
  std::vector<std::pair<std::string, Ask>> asks;
  FARCALL_TRY(ReadAsks(pod, &asks));
  std::string prefix;
  FARCALL_TRY(FindPrefix(node, &prefix));
  std::vector<pb::Claim> claims;
  FARCALL_TRY(
      ListOwned(&pool_, prefix + pod.uid + ":", &claims));  // of an earlier call that was cut short
  for (auto& [container, ask] : asks) {
    const std::string owner = prefix + pod.uid + ":" + container + ":";
    auto own = std::find_if(claims.begin(), claims.end(), [&](const pb::Claim& claim) {
      return claim.owner().rfind(owner, 0) == 0;
    });
    if (own != claims.end() && IsHeldState(own->state())) {
      grants->push_back({container, *own});
      continue;
    }
    if (own != claims.end()) Release({{container, *own}});
    ask.request.set_owner((owner + OwnerEnd(pod.space, pod.name, node)).substr(0, kMaxOwner));
    ask.request.set_wait_ms(kGrantWaitMs);
    Grant grant{container, {}};
    FARCALL_TRY(pool_.Call("POST", "/v1/claims", &ask.request, &grant.claim));
    if (!IsName(grant.claim.id()))
      return {Code::kMalformed, "the pool's claim is called " + Quoted(grant.claim.id())};
    grants->push_back(grant);
    if (!IsHeldState(grant.claim.state()))
      return {Code::kRefused, "the pool gave its room to another claim meanwhile"};
  }
  return {};
}

// The annotation comes with the binding: no right to change pods is needed, and neither is there
// without the other.
Status Extender::Announce(const Pod& pod, const std::string& node,
                          const std::vector<Grant>& grants) {
  Json told = Json::object();
  for (const Grant& grant : grants)
    told[grant.container] = {{"claim", grant.claim.id()},
                             {"host", grant.claim.host()},
                             {"gpus", std::vector<uint32_t>(grant.claim.devices().begin(),
                                                            grant.claim.devices().end())}};
  const std::string text = told.dump(-1, ' ', false, Json::error_handler_t::replace);
  const Json binding = {
      {"apiVersion", "v1"},
      {"kind", "Binding"},
      {"metadata", {{"name", pod.name}, {"uid", pod.uid}, {"annotations", {{kAllocation, text}}}}},
      {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}}}};
  ApiAnswer answer;
  FARCALL_TRY(api_->Write("POST",
                          "/api/v1/namespaces/" + pod.space + "/pods/" + pod.name + "/binding",
                          binding, &answer));
  kProcess.Say("bound pod " + pod.space + "/" + pod.name + " to node " + node + ": " + text);
  return {};
}

void Extender::Release(const std::vector<Grant>& grants) {
  for (const Grant& grant : grants) {
    pb::Claim after;
    const Status done = pool_.Call("DELETE", "/v1/claims/" + grant.claim.id(), nullptr, &after);
    if (!done.ok())
      kProcess.Warn("claim " + grant.claim.id() + " is not released: " + done.message());
  }
}

}  // namespace farcall::k8s
