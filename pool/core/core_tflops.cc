// SPDX-License-Identifier: Apache-2.0
// Claims for TFLOPS: what they come to on a GPU, by the table of its group, is known at their place
// alone, and so is what they take of their projects' quotas.
#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "pool/core/core.h"

namespace farcall::pool {

namespace {

constexpr size_t kMaxModelsNamed = 8;

std::string PartText(uint32_t milli) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g %% of ", milli / 10.0);
  return text;
}

}  // namespace

// The default group's is of all that have none.
const std::vector<ModelTflops>& Core::TflopsOf(const Group& group) const {
  return group.tflops.empty() ? default_group_->group.tflops : group.tflops;
}

std::optional<Refusal> Core::TflopsFault(const Ask& of) const {
  const Group& group = GroupOf(of).group;
  const std::vector<ModelTflops>& table = TflopsOf(group);
  Ask ask = of;
  for (uint32_t choice = 0; choice < of.choices(); ++choice) {
    ask.Choose(choice);
    if (ask.gflops == 0 || (ask.model.empty() ? !table.empty() : IsIn(ask.model, table))) continue;
    return Refusal{
        RefusalCode::kInvalid,
        table.empty()
            ? TflopsText(ask.gflops) + ": group '" + group.name + "' has no table of models' TFLOPS"
            : "model '" + ask.model.substr(0, 64) + "' is not in the table of TFLOPS of group '" +
                  group.name + "'",
        "tflops",
        "ask for a share, or let the operator add the model: farcall pool group set "
        "default --model-tflops MODEL=TFLOPS"};
  }
  return std::nullopt;
}

// Of a claim that has its place and is to be as `ask`: the share of one for TFLOPS stays, whatever
// the table says by now.
uint32_t Core::ChangedShare(const Claim& claim, const Ask& ask) {
  return ask.gflops == 0 ? ask.share_milli : claim.share_milli;
}

// As "40 TFLOPS are 12.9 % of NVIDIA A100 (312 TFLOPS)", of the GPUs that it has, or of each model
// that its group has.
std::string Core::ConversionOf(const Claim& claim) const {
  if (claim.ask.gflops == 0) return "";
  std::set<std::string> told;
  std::string text;
  auto tell = [&](const Gpu& gpu, uint32_t share_milli) {
    if (!told.insert(gpu.name).second) return;
    if (told.size() > kMaxModelsNamed) return;
    text += told.size() == 1 ? "" : ", ";
    if (gpu.gflops == 0 && share_milli > kWholeMilli)
      text += "not known of " + gpu.name;
    else if (share_milli > kWholeMilli)
      text += "more than " + gpu.name + " has (" + TflopsText(gpu.gflops) + ")";
    else
      text += PartText(share_milli) + gpu.name +
              (gpu.gflops == 0 ? "" : " (" + TflopsText(gpu.gflops) + ")");
  };
  const bool has_place = HasHost(claim.state);
  if (has_place) {
    for (const Claim* member : MembersOf(claim)) {
      auto host = hosts_.find(member->host);
      if (host == hosts_.end()) continue;
      for (uint32_t device : member->devices)
        if (device < host->second.gpus.size()) tell(host->second.gpus[device], member->share_milli);
    }
  } else {
    for (const auto& [name, host] : hosts_)
      if (host.group == claim.ask.group)
        for (const Gpu& gpu : host.gpus) tell(gpu, ShareOn(gpu, claim.ask));
  }
  if (told.size() > kMaxModelsNamed)
    text += ", and " + std::to_string(told.size() - kMaxModelsNamed) + " model(s) more";
  return text.empty() ? "" : TflopsText(claim.ask.gflops) + " are " + text;
}

// Of time, in thousandths of a GPU, what the claim counts in its project, as far as it is known.
uint64_t Core::CountedShare(const Claim& claim, const GangPlaces& places) const {
  if (!HasHost(claim.state))
    return (places.empty() ? AskedBy(claim) : AmountsAt(claim, places)).share_milli;
  uint64_t milli = 0;
  for (const Claim* member : MembersOf(claim))
    if (auto host = hosts_.find(member->host); host != hosts_.end())
      milli += AmountsOf(*member, host->second).share_milli;
  return milli;
}

// What LimitOf says of the claim there. The shares of one for TFLOPS are known there alone, and so
// what it takes of its projects' limits on models.
std::string Core::LimitAt(const Claim& claim, const GangPlaces& places) const {
  if (std::string limit = LimitOf(claim, AmountsAt(claim, places));
      !limit.empty() || claim.ask.gflops == 0)
    return limit;
  for (const ProjectState* at = &projects_.at(claim.ask.project); at != nullptr; at = at->parent) {
    const std::vector<Amounts> models = ModelsAt(*at, claim, places);
    for (size_t i = 0; i < models.size(); ++i)
      if (const ModelBounds& model = at->project.models[i];
          !model.limit.Exceeded(models[i]).empty())
        return "the limit of project '" + at->project.name + "' on model " + model.model;
  }
  return "";
}

// What the project would have of the models that it has bounds on.
std::vector<Amounts> Core::ModelsAt(const ProjectState& project, const Claim& claim,
                                    const GangPlaces& places) const {
  ProjectState with = project;
  ForEachAt(claim, places,
            [&](const Claim& there, const Host& host) { CountModels(&with, there, host, true); });
  return with.of_models;
}

// Whether its projects stay within what they deserve with the claim there.
bool Core::IsDeservedAt(const Claim& claim, const GangPlaces& places) const {
  const Amounts amounts = AmountsAt(claim, places);
  for (const ProjectState* at = &projects_.at(claim.ask.project); at != nullptr; at = at->parent) {
    Amounts with = at->used;
    with += amounts;
    if (!at->project.deserved.Exceeded(with).empty()) return false;
    const std::vector<Amounts> models = ModelsAt(*at, claim, places);
    for (size_t i = 0; i < models.size(); ++i)
      if (!at->project.models[i].deserved.Exceeded(models[i]).empty()) return false;
  }
  return true;
}

// What keeps it off GPUs: models of which one of its projects would have more than its limit, or
// than it deserves, and the most that its share may be.
void Core::Shut(Claim* claim, bool by_deserved) const {
  claim->shut_models = ShutModels(*claim, by_deserved);
  claim->share_caps.clear();
  const Ask& ask = claim->ask;
  // A whole GPU counts with all of its time.
  if (ask.gflops == 0 || ask.memory_bytes == 0 || claim->state == ClaimState::kParked) return;
  // A gang's members may have other shares than each other. LimitAt judges what they come to.
  const uint64_t gpus = claim->members() == 1 ? ask.count : 1;
  auto cap = [&](const std::string& model, const Bounds& bounds, const Amounts& used) {
    if (!bounds.share_milli) return;
    const uint64_t left = *bounds.share_milli - std::min(*bounds.share_milli, used.share_milli);
    claim->share_caps.push_back({model, left / gpus});
  };
  for (const ProjectState* at = &projects_.at(ask.project); at != nullptr; at = at->parent) {
    cap("", by_deserved ? at->project.deserved : LimitsOf(at->project), at->used);
    for (size_t i = 0; i < at->project.models.size(); ++i) {
      const ModelBounds& model = at->project.models[i];
      cap(model.model, by_deserved ? model.deserved : model.limit, at->of_models[i]);
    }
  }
}

}  // namespace farcall::pool
