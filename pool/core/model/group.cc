// SPDX-License-Identifier: Apache-2.0
#include "pool/core/model/group.h"

#include <algorithm>
#include <set>

#include "pool/core/model/project.h"

namespace farcall::pool {

namespace {

constexpr size_t kShown = 64;

std::string Quoted(const std::string& name) {
  return std::string("'").append(name, 0, kShown).append("'");
}

// The first that is there twice; "": none.
std::string Twice(const std::vector<std::string>& names) {
  std::set<std::string> seen;
  for (const std::string& name : names)
    if (!seen.insert(name).second) return name;
  return "";
}

}  // namespace

std::pair<std::string, std::string> FaultOf(const Group& group) {
  if (!IsHostName(group.name) || std::string_view("._-").find(group.name[0]) != std::string::npos)
    return {"a group's name has 1 to 64 letters, digits and . _ - and begins with one of the first",
            "name"};
  const bool is_default = group.name == kDefaultGroup;
  if (is_default && !group.hosts.empty())
    return {"the group 'default' has the hosts that no other has; it names none", "hosts"};
  if (is_default && !group.selector.is_empty())
    return {"the group 'default' has the hosts that no other has; it has no selector", "selector"};
  if (!is_default && group.hosts.empty() && group.selector.is_empty())
    return {"it would have no hosts: name some, or give a selector of their labels", "selector"};
  for (const Term& term : group.selector.terms)
    if (term.key == "model")
      return {"model: a group is of whole hosts; label them, or name them", "selector"};
  if (group.hosts.size() > kMaxGroupHosts)
    return {
        std::to_string(group.hosts.size()) + " hosts: at most " + std::to_string(kMaxGroupHosts),
        "hosts"};
  for (const std::string& host : group.hosts)
    if (!IsHostName(host)) return {Quoted(host) + " is no host's name", "hosts"};
  if (std::string host = Twice(group.hosts); !host.empty())
    return {"host '" + host + "' is there twice", "hosts"};
  if (std::string wrong = FaultOf(group.round_trips); !wrong.empty()) return {wrong, "round_trips"};
  if (std::string wrong = FaultOf(group.tflops); !wrong.empty()) return {wrong, "model_tflops"};
  if (group.oversubscribe_milli < kWholeMilli || group.oversubscribe_milli > kMaxOversubscribeMilli)
    return {std::string("oversubscribe: ") + kOversubscribeForm, "oversubscribe"};
  if (group.projects.size() > kMaxGroupProjects)
    return {std::to_string(group.projects.size()) + " projects: at most " +
                std::to_string(kMaxGroupProjects),
            "projects"};
  for (const std::string& project : group.projects)
    if (!IsProjectName(project)) return {Quoted(project) + " is no project's name", "projects"};
  if (std::string project = Twice(group.projects); !project.empty())
    return {"project '" + project + "' is there twice", "projects"};
  return {};
}

bool Takes(const Group& group, std::string_view project) {
  return group.projects.empty() ||
         std::any_of(group.projects.begin(), group.projects.end(),
                     [&](const std::string& taken) { return IsWithin(project, taken); });
}

bool Names(const Group& group, const Host& host) {
  return std::find(group.hosts.begin(), group.hosts.end(), host.name) != group.hosts.end();
}

bool Selects(const Group& group, const Host& host) {
  return !group.selector.is_empty() && MatchesHost(group.selector, host.name, host.labels);
}

}  // namespace farcall::pool
