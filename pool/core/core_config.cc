// SPDX-License-Identifier: Apache-2.0
// Labels of hosts, and configuration as a whole: what is declared and what there is, and how the
// one becomes the other.
#include <algorithm>
#include <cstdio>

#include "pool/core/core.h"

namespace farcall::pool {

namespace {

constexpr size_t kMaxObjects = 10'000;

using Fields = std::map<std::string, std::string>;

std::string FactorText(uint32_t milli) {
  char text[16];
  std::snprintf(text, sizeof(text), "%g", milli / 1000.0);
  return text;
}

std::string Text(const std::optional<uint64_t>& value) {
  return value ? std::to_string(*value) : "";
}

void Add(const std::string& name, const Bounds& bounds, Fields* fields) {
  (*fields)[name + ".memory_bytes"] = Text(bounds.memory_bytes);
  (*fields)[name + ".share_milli"] = Text(bounds.share_milli);
  (*fields)[name + ".gpus"] = Text(bounds.gpus);
}

Fields FieldsOf(const Project& project) {
  auto or_none = [](uint32_t most) { return most == 0 ? "" : std::to_string(most); };
  Fields fields = {{"weight", std::to_string(project.weight)},
                   {"over_quota_weight",
                    project.over_quota_weight ? std::to_string(*project.over_quota_weight) : ""},
                   {"max_pending", or_none(project.max_pending)},
                   {"max_claims", or_none(project.max_claims)},
                   {"tenant_max_pending", or_none(project.tenant_max_pending)},
                   {"tenant_max_claims", or_none(project.tenant_max_claims)}};
  Add("deserved", project.deserved, &fields);
  Add("limit", project.limit, &fields);
  for (const ModelBounds& model : project.models) {
    Add("models." + model.model + ".deserved", model.deserved, &fields);
    Add("models." + model.model + ".limit", model.limit, &fields);
  }
  return fields;
}

Fields FieldsOf(const Group& group) {
  Fields fields = {{"selector", ToText(group.selector)},
                   {"sequencer", group.sequencer},
                   {"placer", std::string(ToText(group.placer))},
                   {"max_pending", group.max_pending == 0 ? "" : std::to_string(group.max_pending)},
                   {"max_claims", group.max_claims == 0 ? "" : std::to_string(group.max_claims)}};
  if (group.oversubscribe_milli != kWholeMilli)
    fields["oversubscribe"] = FactorText(group.oversubscribe_milli);
  for (const ModelTflops& one : group.tflops)
    fields["tflops " + one.model] = TflopsText(one.gflops);
  for (const RoundTrip& one : group.round_trips) {
    const auto& [first, second] = std::minmax(one.from, one.to);
    fields["round_trip " + first + " " + second] = RoundTripText(one.us);
  }
  for (const std::string& host : group.hosts) fields["host " + host] = "yes";
  for (const std::string& project : group.projects) fields["project " + project] = "yes";
  return fields;
}

std::string RoleText(const RoleBinding& binding) {
  return std::string(ToText(binding.role)) +
         (binding.project.empty() ? "" : " in " + binding.project);
}

Fields FieldsOf(const User& user) {
  Fields fields = {{"machine", user.is_machine ? "true" : ""}};
  for (const RoleBinding& binding : user.roles) fields["role " + RoleText(binding)] = "yes";
  return fields;
}

Fields FieldsOf(const Labels& labels) {
  Fields fields;
  for (const auto& [key, value] : labels) fields["label " + key] = value.empty() ? "yes" : value;
  return fields;
}

// What differs; of one that is not there all that is something.
ConfigChange Difference(const char* kind, const std::string& name, bool is_new,
                        const Fields& before, const Fields& after) {
  ConfigChange change{kind, name, is_new ? "create" : "none", {}};
  Fields all = before;
  all.insert(after.begin(), after.end());
  auto value = [](const Fields& of, const std::string& field) {
    auto found = of.find(field);
    return found == of.end() ? std::string() : found->second;
  };
  for (const auto& [field, ignored] : all) {
    const std::string old = value(before, field), now = value(after, field);
    if (old != now) change.fields.push_back({field, old, now});
  }
  if (!is_new && !change.fields.empty()) change.action = "change";
  return change;
}

bool HasRole(const std::vector<RoleBinding>& roles, const RoleBinding& wanted) {
  return std::find(roles.begin(), roles.end(), wanted) != roles.end();
}

}  // namespace

void Core::On(const SetLabels& event) {
  if (std::string wrong = FaultOf(event.labels); !wrong.empty())
    return Refuse(RefusalCode::kInvalid, wrong, "labels");
  Host* to_change = NamedHost(event.host, event.if_revision);
  if (to_change == nullptr) return;
  Host& host = *to_change;
  if (host.labels == event.labels) return;
  host.labels = event.labels;
  FileHost(host);
  Store(host);
  Say("host_labelled", "", host.name, "");
  CapacityCame(&host);  // for claims that ask for what it is now
}

// Whether all of it can be, before any of it is done.
bool Core::CanBe(const ApplyConfig& event) {
  auto wrong = [&](std::string message, std::string field, std::string hint = "") {
    Refuse(RefusalCode::kInvalid, std::move(message), std::move(field), std::move(hint));
    return false;
  };
  if (event.projects.size() + event.groups.size() + event.users.size() + event.hosts.size() >
      kMaxObjects)
    return wrong("more than " + std::to_string(kMaxObjects) + " objects", "");
  std::set<std::string> projects, users, hosts;
  for (const Project& project : event.projects) {
    const std::string of = "project '" + project.name.substr(0, kMaxProjectName) + "': ";
    if (auto [fault, field] = FaultOf(project); !fault.empty()) return wrong(of + fault, field);
    const std::string parent = ParentOf(project.name);
    if (!parent.empty() && projects_.count(parent) == 0 && projects.count(parent) == 0)
      return wrong(of + "there is no project '" + parent + "' above it", "name");
    if (!projects.insert(project.name).second) return wrong(of + "it is there twice", "name");
  }
  if (!CanBeGroups(event, projects)) return false;
  for (const User& user : event.users) {
    const std::string of = "user '" + user.name.substr(0, 64) + "': ";
    if (!IsAccountName(user.name))
      return wrong(of + "a name has 1 to 64 letters, digits and . _ -", "name");
    if (!users.insert(user.name).second) return wrong(of + "it is there twice", "name");
    const User* known = accounts_.FindUser(user.name);
    if (known != nullptr && known->is_machine != user.is_machine)
      return wrong(of + "whether it is a machine cannot be changed", "machine",
                   "remove it first, or give it another name");
    for (const RoleBinding& binding : user.roles) {
      if (binding.role == Role::kOperator && !binding.project.empty())
        return wrong(of + "an operator is one of the whole pool", "roles");
      if (!binding.project.empty() && projects_.count(binding.project) == 0 &&
          projects.count(binding.project) == 0)
        return wrong(
            of + "there is no project '" + binding.project.substr(0, kMaxProjectName) + "'",
            "roles");
    }
  }
  for (const auto& [name, labels] : event.hosts) {
    const std::string of = "host '" + name.substr(0, 64) + "': ";
    if (hosts_.count(name) == 0)
      return wrong(of + "it has not joined the pool", "name",
                   "farcall pool list --hosts shows those that have");
    if (std::string fault = FaultOf(labels); !fault.empty()) return wrong(of + fault, "labels");
  }
  return true;
}

// With those that there are and are not declared.
bool Core::CanBeGroups(const ApplyConfig& event, const std::set<std::string>& projects) {
  auto wrong = [&](const Group& group, const std::string& message, std::string field) {
    Refuse(RefusalCode::kInvalid, "group '" + group.name.substr(0, 64) + "': " + message,
           std::move(field));
    return false;
  };
  std::map<std::string, Group> all = Groups();
  std::set<std::string> names;
  for (const Group& group : event.groups) {
    if (auto [fault, field] = FaultOf(group); !fault.empty()) return wrong(group, fault, field);
    if (!group.sequencer.empty() && MakeSequencer(group.sequencer) == nullptr)
      return wrong(group,
                   "sequencer '" + group.sequencer.substr(0, 64) + "': fifo, lifo, drf or fair",
                   "sequencer");
    for (const std::string& project : group.projects)
      if (projects_.count(project) == 0 && projects.count(project) == 0)
        return wrong(group, "there is no project '" + project + "'", "projects");
    if (!names.insert(group.name).second) return wrong(group, "it is there twice", "name");
    all[group.name] = group;
  }
  if (all.size() > limits_.groups) {
    Refuse(RefusalCode::kTooMany, "more than " + std::to_string(limits_.groups) + " groups", "");
    return false;
  }
  for (const Group& group : event.groups)
    if (std::string fault = FaultAmong(group, all); !fault.empty())
      return wrong(group, fault, "hosts");
  return true;
}

void Core::ApplyUser(const User& user, int64_t now_unix) {
  const User* known = accounts_.FindUser(user.name);
  if (known == nullptr) return On(AccountEvent{AddUser{user}, now_unix});
  const std::vector<RoleBinding> before = known->roles;
  for (const RoleBinding& role : user.roles)
    if (!HasRole(before, role)) On(AccountEvent{SetRole{user.name, role, false}, now_unix});
  for (const RoleBinding& role : before)
    if (!HasRole(user.roles, role)) On(AccountEvent{SetRole{user.name, role, true}, now_unix});
}

void Core::On(const ApplyConfig& event) {
  ApplyConfig sorted = event;  // parents come before their children
  std::sort(sorted.projects.begin(), sorted.projects.end(),
            [](const Project& a, const Project& b) { return a.name < b.name; });
  if (!CanBe(sorted)) return;
  std::vector<ConfigChange>& changes = effects_->config;
  for (const Project& project : sorted.projects) {
    const ProjectState* known = FindProject(project.name);
    changes.push_back(Difference("project", project.name, known == nullptr,
                                 known == nullptr ? Fields() : FieldsOf(known->project),
                                 FieldsOf(project)));
  }
  for (const Group& group : sorted.groups) {
    const GroupState* known = FindGroup(group.name);
    changes.push_back(Difference("group", group.name, known == nullptr,
                                 known == nullptr ? Fields() : FieldsOf(known->group),
                                 FieldsOf(group)));
  }
  for (const User& user : sorted.users) {
    const User* known = accounts_.FindUser(user.name);
    changes.push_back(Difference("user", user.name, known == nullptr,
                                 known == nullptr ? Fields() : FieldsOf(*known), FieldsOf(user)));
  }
  for (const auto& [name, labels] : sorted.hosts)
    changes.push_back(
        Difference("host", name, false, FieldsOf(hosts_.at(name).labels), FieldsOf(labels)));
  if (event.is_dry_run) return;
  size_t at = 0;
  auto differs = [&] { return changes[at++].action != "none" && !effects_->refusal; };
  for (const Project& project : sorted.projects)
    if (differs()) On(SetProject{project, {}});
  for (const Group& group : sorted.groups)
    if (differs()) PutGroup(group);  // a host may go from one of them to another
  for (const User& user : sorted.users)
    if (differs()) ApplyUser(user, event.now_unix);
  for (const auto& [name, labels] : sorted.hosts)
    if (differs()) On(SetLabels{name, labels, {}});
  if (effects_->refusal)
    effects_->refusal->message += "; what comes before " + changes[at - 1].name + " was applied";
}

}  // namespace farcall::pool
