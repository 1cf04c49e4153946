// SPDX-License-Identifier: Apache-2.0
// Groups and alternatives, between the core's words and pool.proto's.
#include <cmath>
#include <cstdio>

#include "pool/convert/convert.h"
#include "proto/printable.h"
#include "settings/oversubscribe.h"

namespace farcall::pool {

namespace {

constexpr size_t kMaxText = 256;

}  // namespace

bool ToOversubscribe(double factor, uint32_t* milli) {
  const double rounded = factor == 0 ? kWholeMilli : std::round(factor * 1000);
  if (!(rounded >= kWholeMilli) || rounded > kMaxOversubscribeMilli) return false;
  *milli = static_cast<uint32_t>(rounded);
  return true;
}

bool ToGflops(double tflops, uint32_t* gflops) {
  const double rounded = std::round(tflops * 1000);
  if (!(rounded >= 0) || rounded > kMaxGflops || (rounded == 0 && tflops != 0)) return false;
  *gflops = static_cast<uint32_t>(rounded);
  return true;
}

std::string NumberText(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", number);
  return text;
}

Size FromProto(const pb::ClaimSize& given) {
  Size size{given.count() == 0 ? 1 : given.count(), given.memory_bytes(), given.share_milli(),
            given.model()};
  (void)ToGflops(given.tflops(), &size.gflops);
  return size;
}

pb::ClaimSize ToProto(const Size& size) {
  pb::ClaimSize told;
  told.set_count(size.count);
  told.set_memory_bytes(size.memory_bytes);
  told.set_share_milli(size.share_milli);
  told.set_model(size.model);
  told.set_tflops(size.gflops / 1000.0);
  return told;
}

std::optional<Refusal> ToGroup(const pb::Group& given, Group* group) {
  group->name = given.name();
  if (std::string wrong = ParseSelector(given.selector(), &group->selector); !wrong.empty())
    return Refusal{RefusalCode::kInvalid, Printable(wrong, kMaxText), "selector", ""};
  const std::optional<Placer> placer = PlacerOf(given.placer());
  if (!placer)
    return Refusal{RefusalCode::kInvalid,
                   "placer '" + Printable(given.placer(), kMaxText) + "': " + PlacersText(),
                   "placer", ""};
  group->placer = *placer;
  group->hosts.assign(given.hosts().begin(), given.hosts().end());
  group->projects.assign(given.projects().begin(), given.projects().end());
  group->sequencer = given.sequencer();
  group->max_pending = given.max_pending();
  group->max_claims = given.max_claims();
  if (!ToOversubscribe(given.oversubscribe(), &group->oversubscribe_milli))
    return Refusal{RefusalCode::kInvalid,
                   "oversubscribe " + NumberText(given.oversubscribe()) + ": " + kOversubscribeForm,
                   "oversubscribe", ""};
  for (const pb::ModelTflops& one : given.model_tflops()) {
    ModelTflops& to = group->tflops.emplace_back(ModelTflops{one.model(), 0});
    if (!ToGflops(one.tflops(), &to.gflops) || to.gflops == 0)
      return Refusal{RefusalCode::kInvalid,
                     "model '" + Printable(one.model(), kMaxText) + "': its TFLOPS are " +
                         NumberText(one.tflops()) + "; 0.001 to 100000",
                     "model_tflops", ""};
  }
  for (const pb::ZoneRoundTrip& one : given.round_trips())
    group->round_trips.push_back({one.from(), one.to(), one.us()});
  group->revision = given.revision();
  return std::nullopt;
}

Group GroupOf(const pb::Group& stored) {
  Group group;
  (void)ToGroup(stored, &group);
  return group;
}

pb::Group ToProto(const Group& group) {
  pb::Group told;
  told.set_name(group.name);
  told.set_selector(ToText(group.selector));
  for (const std::string& host : group.hosts) told.add_hosts(host);
  for (const std::string& project : group.projects) told.add_projects(project);
  told.set_sequencer(group.sequencer);
  told.set_placer(std::string(ToText(group.placer)));
  told.set_max_pending(group.max_pending);
  told.set_max_claims(group.max_claims);
  told.set_oversubscribe(group.oversubscribe_milli / 1000.0);
  for (const ModelTflops& one : group.tflops) {
    pb::ModelTflops* to = told.add_model_tflops();
    to->set_model(one.model);
    to->set_tflops(one.gflops / 1000.0);
  }
  for (const RoundTrip& one : group.round_trips) {
    pb::ZoneRoundTrip* to = told.add_round_trips();
    to->set_from(one.from);
    to->set_to(one.to);
    to->set_us(one.us);
  }
  told.set_revision(group.revision);
  return told;
}

}  // namespace farcall::pool
