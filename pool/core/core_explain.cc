// SPDX-License-Identifier: Apache-2.0
// Why a claim waits, what puts it at its place, and what would let it go.
#include <algorithm>
#include <cstdio>

#include "pool/core/core.h"
#include "pool/core/placing/topology.h"
#include "settings/byte_rate.h"

namespace farcall::pool {

namespace {

constexpr size_t kMaxPlaces = 1000;  // that are counted

std::string BytesText(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

std::string MilliText(uint32_t milli) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g %%", milli / 10.0);
  return text;
}

std::string AskText(const Ask& ask) {
  std::string text = ask.memory_bytes == 0 ? "a whole GPU" : BytesText(ask.memory_bytes);
  if (ask.share_milli != 0) text += " and " + MilliText(ask.share_milli);
  if (ask.gflops != 0) text += " and " + TflopsText(ask.gflops);
  if (ask.net_bytes_per_s != 0) text += " and " + ByteRateText(ask.net_bytes_per_s);
  if (ask.count != 1) text += ", " + std::to_string(ask.count) + " times on one host";
  if (!ask.sizes.empty() && !ask.model.empty()) text += ", of model " + ask.model;
  return text;
}

std::string Why(const Claim& claim, const Pass& pass, uint32_t place) {
  auto removed = [&](Filter filter) { return pass.removed[static_cast<size_t>(filter)]; };
  std::string why = claim.gang.empty()
                        ? "asks " + AskText(claim.ask)
                        : "a gang of " + std::to_string(claim.gang_size) + ", each asks " +
                              AskText(claim.ask) + "; all start together or none";
  if (pass.gpus == 0) return why + ": no host has joined the pool";
  why += ": of " + std::to_string(pass.gpus) + " GPU(s)";
  auto add = [&](Filter filter, const std::string& what) {
    if (removed(filter) != 0) why += ", " + std::to_string(removed(filter)) + " " + what;
  };
  add(Filter::kNone, "would fit");
  add(Filter::kNotReady, "on silent hosts");
  add(Filter::kClosed, "on hosts that are closed");
  add(Filter::kOtherHost, "on other hosts than asked for");
  add(Filter::kGroup, "on hosts of other groups");
  add(Filter::kSelector, "on hosts that its selector leaves out");
  add(Filter::kNetwork, "on hosts that allow less of the network");
  add(Filter::kRefused, "refused by the host's ledger");
  add(Filter::kModel, "of another model");
  add(Filter::kTflops, "with too few TFLOPS, or of models that the table of TFLOPS lacks");
  add(Filter::kMemory, "without the memory (at most " + BytesText(pass.most_free_bytes) + " free)");
  add(Filter::kShare, "without the share (at most " + MilliText(pass.most_free_milli) + " free)");
  add(Filter::kShared, "not free for sharing");
  add(Filter::kKept, "kept for claims before it in the queue");
  add(Filter::kTooFew, "on hosts with too few of them");
  add(Filter::kQuota, claim.share_caps.empty() ? "of models of which its project may have no more"
                                               : "of which its project may not have so much");
  add(Filter::kReserved, claim.ask.reservation.empty() ? "reserved before it would end"
                                                       : "not reserved for it, or not yet");
  if (!claim.gang.empty())
    why += "; room for " + std::to_string(std::min(pass.members_now, claim.gang_size)) + " of " +
           std::to_string(claim.gang_size) + " members";
  if (!pass.could_ever_fit)
    why += claim.gang.empty() ? "; none could ever take it" : "; there could never be room for all";
  if (place != 0) why += "; place " + std::to_string(place) + " in the queue";
  return why;
}

// The filter that stands in the way of the most GPUs, if it alone were gone.
std::string FitsIf(const Claim& claim, const Pass& pass, const std::string& limit) {
  const Ask& ask = claim.ask;
  if (limit.rfind("group '", 0) == 0)
    return "an operator lets its project use the group, or it asks for another one";
  if (limit.rfind("the limit of group", 0) == 0)
    return "a claim of its group ends, or that limit is raised";
  if (!limit.empty()) return "a claim of its project ends, or that limit is raised";
  if (!pass.could_ever_fit)
    return pass.gpus == 0 ? "a host joins the pool" : "it asks for less, or a larger host joins";
  auto removed = [&](Filter filter) { return pass.removed[static_cast<size_t>(filter)]; };
  std::string fits;
  auto add = [&](Filter filter, const std::string& what) {
    if (removed(filter) != 0) fits += (fits.empty() ? "" : ", or ") + what;
  };
  if (pass.most_free_bytes != 0 && ask.memory_bytes > pass.most_free_bytes)
    add(Filter::kMemory, "it asks for " + BytesText(pass.most_free_bytes) + " at most");
  else
    add(Filter::kMemory, "memory is given back on a GPU");
  add(Filter::kShare, "it asks for " + MilliText(pass.most_free_milli) + " at most");
  add(Filter::kShared, "a GPU is free of other claims");
  add(Filter::kKept, "a claim before it gets its place");
  add(Filter::kNotReady, "a silent host reports");
  add(Filter::kClosed, "a closed host is opened (farcall pool uncordon)");
  add(Filter::kTooFew, "one host has all of its GPUs free");
  add(Filter::kQuota, claim.share_caps.empty() ? "its project's quota of that model is raised"
                                               : "its project's quota is raised");
  add(Filter::kTflops, "it asks for fewer TFLOPS, or the table of TFLOPS has more models");
  if (ask.reservation.empty())
    add(Filter::kReserved, "a reservation ends, or its --lifetime ends before one begins");
  if (!claim.gang.empty() && pass.members_now < claim.gang_size)
    fits =
        std::to_string(claim.gang_size - pass.members_now) + " more member(s) find room: " + fits;
  return fits;
}

std::string PartText(double part) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %%", part * 100);
  return text;
}

}  // namespace

// As "fair: project research (1.5 % of the pool, weight 2, in its deserved quota)".
std::string Core::RuleOf(const Claim& claim) const {
  const GroupState& group = GroupOf(claim.ask);
  std::string rule(SequencerOf(group).name());
  if (groups_.size() > 1) rule += " in group " + group.group.name;
  if (claim.ask.queue_priority != 0)
    rule += ", queue priority " + std::to_string(claim.ask.queue_priority) + " first";
  std::vector<const ProjectState*> path;
  for (const ProjectState* at = &projects_.at(claim.ask.project); at != nullptr; at = at->parent)
    path.insert(path.begin(), at);
  for (const ProjectState* at : path) {
    const Turns::Value value = ValueOf(SequencerOf(group), *at, nullptr);
    rule += path.front() == at ? ": project " : "; ";
    rule += at->project.name + " holds " + PartText(DominantShare(at->used, capacity_)) +
            " of the pool, weight " + std::to_string(at->project.weight);
    const Bounds& deserved = at->project.deserved;
    auto of = [&](const char* what, uint64_t used, const std::optional<uint64_t>& bound) {
      if (bound)
        rule += std::string(", ") + what + " " + std::to_string(used) + " of " +
                std::to_string(*bound) + " deserved";
    };
    if (deserved.memory_bytes)
      rule += ", memory " + BytesText(at->used.memory_bytes) + " of " +
              BytesText(*deserved.memory_bytes) + " deserved";
    of("thousandths", at->used.share_milli, deserved.share_milli);
    of("GPUs", at->used.gpus, deserved.gpus);
    if (!value.is_over) rule += ": below its quota, so before projects that are above";
  }
  return rule;
}

uint32_t Core::PlaceOf(const Claim& claim) const {
  const std::vector<Waiting> order = InOrder(GroupOf(claim.ask), kMaxPlaces);
  for (size_t i = 0; i < order.size(); ++i)
    if (order[i].claim == &claim) return static_cast<uint32_t>(i) + 1;
  return 0;
}

Explanation Core::Explain(const Claim& of) const {
  // The members of a gang wait as one.
  const Claim& claim = WaitsAsWhole(of) ? LeaderOf(of) : of;
  Explanation told;
  told.state = claim.state;
  told.group = NameOfGroup(claim.ask.group);
  GangPlaces places;
  for (const Claim* member : MembersOf(claim))
    if (!member->host.empty()) places.push_back({member->host, member->devices});
  if (!IsOver(claim.state)) {
    told.placement = PlacementOf(claim, places);
    told.tflops = ConversionOf(claim);
    told.share_milli = CountedShare(claim, {});
  }
  if (claim.state == ClaimState::kPreempting) {
    const Ms left = std::max<Ms>(0, claim.since + timing_.preempt_grace - now_);
    told.why = "on " + claim.host +
               (claim.park_by != 0
                    ? ", which parks it"
                    : ", which it leaves in " + std::to_string((left + 999) / 1000) + " s") +
               " for claim " + claim.preempted_by +
               (claim.is_reclaimed ? ", whose project has not got what it deserves"
                                   : ", whose queue priority is higher") +
               (MayPark(claim) || claim.park_by != 0 ? "; it is parked there then, and comes back"
                                                     : "; it is queued again then");
    told.preempted_by = claim.preempted_by;
    return told;
  }
  if (claim.state == ClaimState::kParked && WaitsAsWhole(claim)) {
    told.place_in_queue = PlaceOf(claim);
    told.why =
        WhyParked(claim) + "; place " + std::to_string(told.place_in_queue) + " in the queue";
    told.rule = RuleOf(claim);
    told.limit = LimitOf(claim, AskedBy(claim));
    if (!told.limit.empty()) told.why += "; it waits for " + told.limit;
    told.fits_if = "what is on its GPUs now ends";
    return told;
  }
  if (claim.state != ClaimState::kPending) {
    told.why = claim.host.empty()
                   ? claim.reason
                   : "on " + claim.host + (claim.reason.empty() ? "" : ": " + claim.reason);
    return told;
  }
  if (claim.is_early) {
    told.why = WhyEarly(claim);
    told.fits_if = "its begin comes";
    return told;
  }
  Claim asks = claim;
  Shut(&asks, false);
  told.pass = Examine(hosts_, asks);
  told.place_in_queue = PlaceOf(claim);
  told.limit = LimitOf(claim, AskedBy(claim));
  told.why = Why(claim, told.pass, told.place_in_queue);
  told.rule = RuleOf(claim);
  told.fits_if = FitsIf(claim, told.pass, told.limit);
  if (!told.limit.empty()) told.why += "; it waits for " + told.limit;
  TellAlternatives(claim, &told);
  if (std::string early = WhyEarly(claim); !early.empty()) told.why += "; " + early;
  told.preempts = LeavingFor(claim.id);
  if (auto kept = kept_.find(claim.id); kept != kept_.end()) {
    told.why += claim.gang.empty()
                    ? "; a place on " + kept->second.places.front().host + " is kept for it"
                    : "; places for all of its members are kept for it";
    const size_t leaving = told.preempts.size();
    const size_t reclaimed = static_cast<size_t>(
        std::count_if(told.preempts.begin(), told.preempts.end(),
                      [&](const std::string& id) { return claims_.at(id).is_reclaimed; }));
    if (leaving != 0)
      told.why += ", which " + std::to_string(leaving) + " claim(s) of " +
                  (reclaimed == leaving ? "projects above their quota"
                   : reclaimed == 0     ? "a lower priority"
                                        : "a lower priority or of projects above their quota") +
                  " leave within " + std::to_string((timing_.preempt_grace + 999) / 1000) +
                  " s of the warning";
  }
  return told;
}

// Of each why it has no place.
void Core::TellAlternatives(const Claim& claim, Explanation* told) const {
  if (claim.ask.sizes.empty()) return;
  Claim asks = claim;
  for (uint32_t choice = 0; choice < claim.ask.choices(); ++choice) {
    asks.ask.Choose(choice);
    Shut(&asks, false);
    const Pass pass = Examine(hosts_, asks);
    Explanation::Alternative& one = told->alternatives.emplace_back();
    one.size = claim.ask.sizes[choice];
    one.limit = LimitOf(asks, AskedBy(asks));
    one.fits_now = one.limit.empty() && FindPlaces(hosts_, asks).has_value();
    one.could_ever_fit = pass.could_ever_fit;
    one.why = Why(asks, pass, 0);
    if (!one.limit.empty()) one.why += "; it waits for " + one.limit;
    if (!one.fits_now) one.fits_if = FitsIf(asks, pass, one.limit);
    // Of all of it: whether any of them could.
    told->pass.could_ever_fit = told->pass.could_ever_fit || pass.could_ever_fit;
  }
  told->why += "; the first of " + std::to_string(claim.ask.choices()) + " alternatives";
}

// As "topology: GPUs of one NVLink group".
std::string Core::PlacementOf(const Claim& claim, const GangPlaces& places) const {
  std::string text(ToText(claim.ask.placer));
  if (claim.ask.placer == Placer::kNear) {
    const std::string zone = LabelOf(claim.ask.labels, kZoneLabel);
    if (zone.empty()) return text + ": it has no label zone, so all hosts are as far, as for pack";
    text += " to zone " + zone;
    const std::map<std::string, uint32_t> times =
        RoundTripsFrom(RoundTripsOf(GroupOf(claim.ask).group), zone);
    std::set<std::string> told;
    for (const Place& place : places) {
      const std::string to = LabelOf(hosts_.at(place.host).labels, kZoneLabel);
      if (!told.insert(to).second) continue;
      auto time = times.find(to);
      text += (told.size() == 1 ? ": " : ", ") + (to.empty() ? "no zone" : "zone " + to) + " at " +
              (time == times.end() ? "an unknown round trip" : RoundTripText(time->second));
    }
  }
  if (claim.ask.placer == Placer::kTopology && !places.empty()) {
    std::vector<uint32_t> devices;
    std::set<std::string> hosts, racks;
    for (const Place& place : places) {
      devices.insert(devices.end(), place.devices.begin(), place.devices.end());
      hosts.insert(place.host);
      racks.insert(LabelOf(hosts_.at(place.host).labels, kRackLabel));
    }
    const bool is_of_rack = racks.size() == 1 && !racks.begin()->empty();
    const Closeness closeness = hosts.size() == 1 ? ClosenessOf(hosts_.at(*hosts.begin()), devices)
                                : is_of_rack      ? Closeness::kRack
                                                  : Closeness::kPool;
    text += devices.size() == 1 ? ": one GPU" : std::string(": GPUs of ") + ToText(closeness);
  }
  return text;
}

Explanation Core::Plan(const Ask& asked, uint32_t members,
                       std::optional<GangPlaces>* places) const {
  const Ask ask = Completed(asked);
  Claim claim;
  claim.ask = ask;
  claim.created = now_;
  SetEnds(claim);
  claim.reservation = NumberOf(ask.reservation);
  claim.order = UINT64_MAX;  // it would be the last to come, of its queue priority
  if (members != 0) {
    claim.gang = "plan";
    claim.gang_size = members;
  }
  Explanation told;
  told.group = NameOfGroup(ask.group);
  told.pass = Examine(hosts_, claim);
  told.why = Why(claim, told.pass, 0);
  told.limit = GroupLimitOf(claim);
  if (FindProject(ask.project) != nullptr) TellAlternatives(claim, &told);
  if (!told.limit.empty()) {
    told.why += "; it waits for " + told.limit;
    return told;
  }
  for (uint32_t choice = 0; choice < ask.choices(); ++choice) {
    claim.ask.Choose(choice);
    *places = FindPlaces(hosts_, claim, InputsOf(ask));
    told.choice = choice;
    if (*places) break;
  }
  told.placement = PlacementOf(claim, places->value_or(GangPlaces()));
  told.tflops = ConversionOf(claim);
  if (FindProject(ask.project) != nullptr)
    told.share_milli = CountedShare(claim, places->value_or(GangPlaces()));
  return told;
}

}  // namespace farcall::pool
