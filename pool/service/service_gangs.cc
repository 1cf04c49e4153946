// SPDX-License-Identifier: Apache-2.0
// Gangs, as REST and gRPC ask for them.
#include "pool/service/service_parts.h"

namespace farcall::pool {

namespace {

constexpr uint32_t kDefaultPort = 29500, kMaxPort = 65535;

// What all members are, in one word.
std::string StateOf(const std::vector<const Claim*>& members) {
  auto all = [&](auto is_so) { return std::all_of(members.begin(), members.end(), is_so); };
  const ClaimState first = members.front()->state;
  if (all([](const Claim* one) { return IsUsable(one->state); })) return "bound";
  if (all([&](const Claim* one) { return one->state == first; })) return std::string(ToText(first));
  return "mixed";
}

// torchrun takes PET_... for its arguments; without torchrun the process of a rank takes the rest.
void SetCommon(const std::vector<const Claim*>& members, uint32_t port, const std::string& endpoint,
               pb::Gang* gang) {
  const uint32_t nodes = members.front()->gang_size;
  const uint32_t per_node = members.front()->ask.count;
  auto& env = *gang->mutable_env();
  env["FARCALL_ENDPOINT"] = endpoint;
  env["MASTER_ADDR"] = env["PET_MASTER_ADDR"] = "127.0.0.1";
  env["MASTER_PORT"] = env["PET_MASTER_PORT"] = std::to_string(port);
  env["PET_NNODES"] = std::to_string(nodes);
  env["PET_NPROC_PER_NODE"] = std::to_string(per_node);
  env["WORLD_SIZE"] = std::to_string(nodes * per_node);
  // For an NCCL that a program brings along: devices of two sessions reach each other through their
  // processes alone.
  env["NCCL_IB_DISABLE"] = env["NCCL_P2P_DISABLE"] = env["NCCL_SHM_DISABLE"] = "1";
}

void Fill(const Core& core, const std::vector<const Claim*>& members, uint32_t port,
          const std::string& endpoint, pb::Gang* gang) {
  const Claim& first = *members.front();
  gang->set_id(first.gang);
  gang->set_size(first.gang_size);
  gang->set_state(StateOf(members));
  gang->set_reason(first.reason);
  gang->set_project(first.ask.project);
  if (first.state == ClaimState::kPending) gang->set_why(core.Explain(first).why);
  SetCommon(members, port, endpoint, gang);
  for (const Claim* one : members) {
    pb::GangMember* member = gang->add_members();
    member->set_rank(one->member);
    member->set_claim(one->id);
    member->set_state(std::string(ToText(one->state)));
    member->set_host(one->host);
    for (uint32_t device : one->devices) member->add_devices(device);
    if (auto host = core.hosts().find(one->host); host != core.hosts().end())
      for (const std::string& url : host->second.endpoints) member->add_endpoints(url);
    auto& env = *member->mutable_env();
    env["FARCALL_CLAIM"] = one->id;
    env["PET_NODE_RANK"] = std::to_string(one->member);
    if (one->ask.count == 1) env["RANK"] = std::to_string(one->member), env["LOCAL_RANK"] = "0";
  }
}

}  // namespace

Outcome Service::DescribeGang(const Caller& caller, const std::string& id, uint32_t port,
                              pb::Gang* gang) {
  std::string endpoint;
  {
    std::lock_guard lock(mutex_);
    endpoint = options_.data;
  }
  Outcome outcome = Failed(404, "not_found", "there is no gang '" + id.substr(0, 64) + "'", "id",
                           "farcall pool list shows claims and their gangs");
  controller_->Read([&](const Core& core, Ms) {
    const std::vector<const Claim*> members = core.FindGang(id);
    if (members.empty() || !caller.Sees(members.front()->tenant, ProjectOf(*members.front())))
      return;
    Fill(core, members, port, endpoint, gang);
    outcome = {};
  });
  return outcome;
}

Outcome Service::RequestGang(const Caller& caller, const pb::GangRequest& request, pb::Gang* gang) {
  const uint32_t port = request.port() == 0 ? kDefaultPort : request.port();
  if (port > kMaxPort)
    return Failed(400, "invalid", "port " + std::to_string(port) + ": 1 to 65535", "port");
  if (request.members() == 0 || request.members() > kMaxGang)
    return Failed(
        400, "invalid",
        "members " + std::to_string(request.members()) + ": 1 to " + std::to_string(kMaxGang),
        "members");
  std::string id;
  if (Outcome made = RequestFor(caller, request.member(), request.members(), &id); !made.ok())
    return made;
  std::optional<Claim> first = controller_->Find(id);
  return DescribeGang(caller, first ? first->gang : id, port, gang);
}

Outcome Service::GetGang(const Caller& caller, const pb::GangName& name, pb::Gang* gang) {
  return DescribeGang(caller, name.id(), kDefaultPort, gang);
}

Outcome Service::ReleaseGang(const Caller& caller, const pb::GangName& name, pb::Gang* gang) {
  if (Outcome is_there = DescribeGang(caller, name.id(), kDefaultPort, gang); !is_there.ok())
    return is_there;
  pb::ClaimName first;
  first.set_id(gang->members(0).claim());
  pb::Claim released;
  if (Outcome outcome = Release(caller, first, &released); !outcome.ok()) return outcome;
  gang->Clear();
  return DescribeGang(caller, name.id(), kDefaultPort, gang);
}

Outcome Service::PlanGang(const Caller& caller, const pb::GangRequest& request,
                          pb::Explanation* told) {
  if (request.members() == 0 || request.members() > kMaxGang)
    return Failed(
        400, "invalid",
        "members " + std::to_string(request.members()) + ": 1 to " + std::to_string(kMaxGang),
        "members");
  return PlanFor(caller, request.member(), request.members(), told);
}

}  // namespace farcall::pool
