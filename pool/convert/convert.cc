// SPDX-License-Identifier: Apache-2.0
#include "pool/convert/convert.h"

#include <algorithm>

#include "pool/convert/time_of_day.h"
#include "proto/printable.h"
#include "proto/priority.h"
#include "settings/byte_rate.h"
#include "settings/oversubscribe.h"
#include "transport/url.h"

namespace farcall::pool {

namespace {

// More than any GPU has, and little enough that the claims of a host, of which each may name all of
// its GPUs, have a 64-bit sum.
constexpr uint64_t kMaxBytes = 1ull << 46;
// Each placement adds one to an epoch, each change one to a quota's number: these never come round.
constexpr uint64_t kMaxCount = 1ull << 62;
constexpr int kMaxGpus = 64, kMaxClaims = 8192, kMaxEndpoints = 8;
constexpr size_t kMaxText = 256;
constexpr uint32_t kDefaultSeats = 64;
constexpr int64_t kMaxMs = 366LL * 24 * 3600 * 1000;

Refusal Wrong(std::string field, std::string message) {
  return {RefusalCode::kInvalid, std::move(message), std::move(field), ""};
}

ClaimState StateOf(const std::string& text) {
  for (size_t i = 0; i < kClaimStates; ++i)
    if (ToText(static_cast<ClaimState>(i)) == text) return static_cast<ClaimState>(i);
  return ClaimState::kFailed;
}

// What a peer says is shown to people, in logs and lists.
std::string Shortened(const std::string& text) {
  return Printable(text, kMaxText);
}

bool IsEndpoint(const std::string& url) {
  return url.size() <= kMaxText && ParseUrl(url).ok() && Printable(url, kMaxText) == url;
}

// The alternatives, with what is asked for first before them.
std::optional<Refusal> ToSizes(const pb::ClaimRequest& request, Ask* ask) {
  if (request.alternatives().empty()) return std::nullopt;
  if (static_cast<size_t>(request.alternatives_size()) >= kMaxSizes)
    return Wrong("alternatives", std::to_string(request.alternatives_size()) +
                                     " alternatives: at most " + std::to_string(kMaxSizes - 1));
  ask->sizes = {{ask->count, ask->memory_bytes, ask->share_milli, ask->model, ask->gflops}};
  for (const pb::ClaimSize& one : request.alternatives()) {
    if (one.model().size() > kMaxText)
      return Wrong("alternatives", "model of " + std::to_string(one.model().size()) +
                                       " characters: at most " + std::to_string(kMaxText));
    Size& size = ask->sizes.emplace_back(FromProto(one));
    if (!ToGflops(one.tflops(), &size.gflops))
      return Wrong("alternatives", "tflops " + NumberText(one.tflops()) + ": 0.001 to 100000");
  }
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> ToAsk(const pb::ClaimRequest& request, Ask* ask) {
  ask->count = request.count() == 0 ? 1 : request.count();
  ask->memory_bytes = request.memory_bytes();
  ask->share_milli = request.share_milli();
  ask->limit_milli = request.limit_milli();
  if (!ToGflops(request.tflops(), &ask->gflops))
    return Wrong("tflops", "tflops " + NumberText(request.tflops()) + ": 0.001 to 100000");
  ask->net_bytes_per_s = request.net_bytes_per_s();
  ask->queue_priority = request.queue_priority();
  ask->preemptible = request.preemptible();
  const std::string& name = request.class_();
  const std::optional<uint8_t> priority = PriorityNumber(name.empty() ? "normal" : name);
  if (!priority) return Wrong("class", "class '" + Shortened(name) + "': high, normal or low");
  ask->priority = *priority;
  const std::optional<Placer> placer = PlacerOf(request.placer());
  if (!placer)
    return Wrong("placer", "placer '" + Shortened(request.placer()) + "': " + PlacersText());
  ask->placer = *placer;
  for (auto [text, field] : {std::pair(&request.model(), "model"),
                             {&request.host(), "host"},
                             {&request.owner(), "owner"},
                             {&request.project(), "project"},
                             {&request.reservation(), "reservation"},
                             {&request.group(), "group"},
                             {&request.idempotency_key(), "idempotency_key"}})
    if (text->size() > kMaxText)
      return Wrong(field, std::string(field) + " of " + std::to_string(text->size()) +
                              " characters: at most " + std::to_string(kMaxText));
  ask->model = request.model();
  ask->host = request.host();
  ask->project = request.project();
  ask->group = KeptGroup(request.group());
  if (std::optional<Refusal> wrong = ToSizes(request, ask)) return wrong;
  if (std::string wrong = ParseSelector(request.selector(), &ask->selector); !wrong.empty())
    return Wrong("selector", Shortened(wrong));
  if (static_cast<size_t>(request.labels().size()) > kMaxLabels)
    return Wrong("labels", std::to_string(request.labels().size()) + " labels: at most " +
                               std::to_string(kMaxLabels));
  ask->labels = Labels(request.labels().begin(), request.labels().end());
  if (!request.begin().empty()) {
    const Result<int64_t> begin = ReadTimeOfDay(request.begin());
    if (!begin.ok()) return Wrong("begin", "begin " + begin.status().message());
    ask->begin_unix = *begin;
  }
  ask->reservation = request.reservation();
  ask->seats = request.max_sessions() == 0 ? kDefaultSeats : request.max_sessions();
  ask->queue_ms = request.queue_ms();
  ask->lifetime_ms = request.lifetime_ms();
  ask->on_disconnect_ms = request.on_disconnect_ms();
  if (request.hold_ms() != 0) ask->hold_ms = request.hold_ms();
  for (int64_t value : {ask->queue_ms, ask->lifetime_ms, ask->on_disconnect_ms, ask->hold_ms})
    if (value > kMaxMs)
      return Wrong("", "a time of " + std::to_string(value) + " ms: at most a year");
  return std::nullopt;
}

std::optional<Refusal> ToChange(const pb::ClaimChange& request, ChangeClaim* change) {
  change->id = request.id();
  if (request.if_revision() != 0) change->if_revision = request.if_revision();
  if (request.has_memory_bytes()) change->memory_bytes = request.memory_bytes();
  if (request.has_share_milli()) change->share_milli = request.share_milli();
  if (request.has_limit_milli()) change->limit_milli = request.limit_milli();
  if (request.has_max_sessions()) change->seats = request.max_sessions();
  if (request.has_net_bytes_per_s()) change->net_bytes_per_s = request.net_bytes_per_s();
  if (request.has_queue_priority()) change->queue_priority = request.queue_priority();
  if (request.has_preemptible()) change->preemptible = request.preemptible();
  if (request.has_class_()) {
    change->priority = PriorityNumber(request.class_());
    if (!change->priority)
      return Wrong("class", "class '" + Shortened(request.class_()) + "': high, normal or low");
  }
  if (request.has_lifetime_ms()) {
    if (request.lifetime_ms() > kMaxMs)
      return Wrong("lifetime_ms",
                   "a time of " + std::to_string(request.lifetime_ms()) + " ms: at most a year");
    change->lifetime_ms = request.lifetime_ms();
  }
  bool changes = request.has_memory_bytes() || request.has_share_milli() ||
                 request.has_limit_milli() || request.has_max_sessions() || request.has_class_() ||
                 request.has_lifetime_ms() || request.has_net_bytes_per_s() ||
                 request.has_queue_priority() || request.has_preemptible();
  if (!changes)
    return Wrong("",
                 "nothing to change: give memory_bytes, share_milli, limit_milli, class, "
                 "max_sessions, lifetime_ms, net_bytes_per_s, queue_priority or preemptible");
  return std::nullopt;
}

// As it was asked for, whichever alternative is in force.
pb::ClaimRequest ToProto(const Ask& chosen) {
  Ask ask = chosen;
  ask.Choose(0);
  pb::ClaimRequest request;
  request.set_count(ask.count);
  request.set_memory_bytes(ask.memory_bytes);
  request.set_share_milli(ask.share_milli);
  request.set_tflops(ask.gflops / 1000.0);
  request.set_limit_milli(ask.limit_milli);
  request.set_class_(std::string(PriorityName(ask.priority)));
  request.set_model(ask.model);
  request.set_host(ask.host);
  request.set_placer(std::string(ToText(ask.placer)));
  request.set_group(NameOfGroup(ask.group));
  for (size_t i = 1; i < ask.sizes.size(); ++i) *request.add_alternatives() = ToProto(ask.sizes[i]);
  request.set_max_sessions(ask.seats);
  request.set_queue_ms(ask.queue_ms);
  request.set_lifetime_ms(ask.lifetime_ms);
  request.set_on_disconnect_ms(ask.on_disconnect_ms);
  request.set_hold_ms(ask.hold_ms);
  request.set_net_bytes_per_s(ask.net_bytes_per_s);
  request.set_queue_priority(ask.queue_priority);
  request.set_preemptible(ask.preemptible);
  request.set_project(ask.project);
  request.set_selector(ToText(ask.selector));
  if (ask.begin_unix != 0) request.set_begin(TimeOfDayText(ask.begin_unix));
  request.set_reservation(ask.reservation);
  request.mutable_labels()->insert(ask.labels.begin(), ask.labels.end());
  return request;
}

pb::Claim ToProto(const Claim& claim, const Host* host) {
  pb::Claim told;
  told.set_id(claim.id);
  told.set_state(std::string(ToText(claim.state)));
  told.set_reason(claim.reason);
  told.set_host(claim.host);
  for (uint32_t device : claim.devices) told.add_devices(device);
  told.set_memory_bytes(claim.memory_bytes);
  told.set_epoch(claim.epoch);
  told.set_sessions(claim.sessions);
  told.set_tenant(claim.tenant);
  told.set_owner(claim.owner);
  told.set_created(claim.created_unix);
  told.set_revision(claim.revision);
  told.set_host_lost(host != nullptr && host->state == HostState::kLost);
  told.set_order(claim.order);
  told.set_preempted_by(claim.preempted_by);
  told.set_project(claim.ask.project);
  told.set_group(NameOfGroup(claim.ask.group));
  told.set_alternative(claim.ask.choice);
  if (HasHost(claim.state)) told.set_share_milli(claim.share_milli);
  told.set_gang(claim.gang);
  told.set_rank(claim.member);
  told.set_gang_size(claim.gang_size);
  told.set_parked(claim.is_parked);
  if (claim.state == ClaimState::kReleasing)
    told.set_next_state(claim.requeues ? "pending" : std::string(ToText(claim.final_state)));
  told.set_quota(claim.quota_revision);
  told.set_changing(claim.before.has_value());
  if (claim.before) {
    *told.mutable_before() = ToProto(claim.before->ask);
    told.set_before_memory_bytes(claim.before->memory_bytes);
    told.set_before_share_milli(claim.before->share_milli);
    told.set_before_alternative(claim.before->ask.choice);
  }
  *told.mutable_request() = ToProto(claim.ask);
  told.mutable_request()->set_idempotency_key(claim.idempotency_key);
  return told;
}

Claim FromProto(const pb::Claim& stored) {
  Claim claim;
  (void)ToAsk(stored.request(), &claim.ask);
  claim.ask.Choose(stored.alternative());
  claim.id = stored.id();
  claim.state = StateOf(stored.state());
  claim.requeues = stored.next_state() == "pending";
  if (!stored.next_state().empty() && !claim.requeues)
    claim.final_state = StateOf(stored.next_state());
  claim.reason = stored.reason();
  claim.host = stored.host();
  claim.devices.assign(stored.devices().begin(), stored.devices().end());
  claim.memory_bytes = stored.memory_bytes();
  // Without it: from before there was more than one measure.
  claim.share_milli = stored.has_share_milli() ? stored.share_milli()
                      : HasHost(claim.state)   ? claim.ask.share_milli
                                               : 0;
  claim.epoch = stored.epoch();
  claim.tenant = stored.tenant();
  claim.owner = stored.owner();
  claim.created_unix = stored.created();
  claim.revision = stored.revision();
  claim.order = stored.order();
  claim.quota_revision = stored.quota();
  claim.gang = stored.gang();
  claim.member = stored.rank();
  claim.gang_size = stored.gang_size();
  claim.is_parked = stored.parked();
  if (stored.changing()) {
    claim.before = Claim::Before{};
    (void)ToAsk(stored.before(), &claim.before->ask);
    claim.before->ask.Choose(stored.before_alternative());
    claim.before->memory_bytes = stored.before_memory_bytes();
    claim.before->share_milli =
        stored.has_share_milli() ? stored.before_share_milli() : claim.before->ask.share_milli;
  }
  claim.idempotency_key = stored.request().idempotency_key();
  return claim;
}

pb::Gpu ReportedToProto(const Gpu& gpu) {
  pb::Gpu told;
  told.set_name(gpu.name);
  told.set_uuid(gpu.uuid);
  told.set_memory_bytes(gpu.memory_bytes);
  if (gpu.numa_node) told.set_numa_node(*gpu.numa_node);
  if (gpu.nvlink_group) told.set_nvlink_group(*gpu.nvlink_group);
  return told;
}

Gpu FromProto(const pb::Gpu& told) {
  Gpu gpu;
  gpu.name = told.name();
  gpu.uuid = told.uuid();
  gpu.memory_bytes = told.memory_bytes();
  if (told.has_numa_node()) gpu.numa_node = told.numa_node();
  if (told.has_nvlink_group()) gpu.nvlink_group = told.nvlink_group();
  return gpu;
}

pb::Gpu ToProto(const Gpu& gpu, const std::string& host, uint32_t index) {
  pb::Gpu told = ReportedToProto(gpu);
  told.set_index(index);
  told.set_used_bytes(gpu.used_bytes);
  told.set_used_milli(gpu.used_milli);
  told.set_claims(gpu.claims);
  told.set_tflops(gpu.gflops / 1000.0);
  told.set_lendable_bytes(gpu.lendable_bytes());
  told.set_host(host);
  return told;
}

pb::Host ToProto(const Host& host, Ms now) {
  pb::Host told;
  told.set_name(host.name);
  told.set_state(std::string(ToText(host.state)));
  told.set_cordoned(host.is_cordoned);
  told.set_drains(host.drains);
  told.set_reason(host.reason);
  for (const std::string& url : host.endpoints) told.add_endpoints(url);
  for (uint32_t i = 0; i < host.gpus.size(); ++i)
    *told.add_gpus() = ToProto(host.gpus[i], host.name, i);
  told.set_claims(static_cast<uint32_t>(host.claims.size()));
  told.set_revision(host.revision);
  told.set_silent_ms(now - host.heard);
  told.set_net_bytes_per_s(host.net_ceiling);
  told.set_park_bytes(host.park_bytes);
  told.set_oversubscribe(host.oversubscribe_milli / 1000.0);
  told.set_parked_bytes(host.parked_bytes);
  told.set_instance(host.instance);
  told.mutable_labels()->insert(host.labels.begin(), host.labels.end());
  told.set_group(NameOfGroup(host.group));
  return told;
}

Host FromProto(const pb::Host& stored) {
  Host host;
  host.name = stored.name();
  host.drains = stored.drains();
  host.is_cordoned = stored.cordoned();
  host.reason = stored.reason();
  host.net_ceiling = stored.net_bytes_per_s();
  host.park_bytes = stored.park_bytes();
  (void)ToOversubscribe(stored.oversubscribe(), &host.oversubscribe_milli);
  host.instance = stored.instance();
  host.credential = stored.credential_hash();
  host.labels = Labels(stored.labels().begin(), stored.labels().end());
  host.endpoints.assign(stored.endpoints().begin(), stored.endpoints().end());
  for (const pb::Gpu& told : stored.gpus()) host.gpus.push_back(FromProto(told));
  host.revision = stored.revision();
  return host;
}

pb::Explanation ToProto(const Explanation& told) {
  pb::Explanation out;
  out.set_state(std::string(ToText(told.state)));
  out.set_why(told.why);
  out.set_place_in_queue(told.place_in_queue);
  out.set_gpus(told.pass.gpus);
  for (size_t i = 0; i < kFilters; ++i) {
    auto filter = static_cast<Filter>(i);
    if (filter == Filter::kNone || told.pass.removed[i] == 0) continue;
    (*out.mutable_removed())[std::string(ToText(filter))] = told.pass.removed[i];
  }
  out.set_fits_now(told.pass.removed[static_cast<size_t>(Filter::kNone)] != 0);
  out.set_could_ever_fit(told.pass.could_ever_fit);
  out.set_rule(told.rule);
  out.set_fits_if(told.fits_if);
  out.set_limit(told.limit);
  for (const std::string& id : told.preempts) out.add_preempts(id);
  out.set_preempted_by(told.preempted_by);
  out.set_group(told.group);
  out.set_alternative(told.choice);
  out.set_placement(told.placement);
  out.set_tflops(told.tflops);
  for (const Explanation::Alternative& one : told.alternatives) {
    pb::AlternativeExplanation* to = out.add_alternatives();
    *to->mutable_size() = ToProto(one.size);
    to->set_fits_now(one.fits_now);
    to->set_why(one.why);
    to->set_could_ever_fit(one.could_ever_fit);
    to->set_fits_if(one.fits_if);
    to->set_limit(one.limit);
  }
  return out;
}

pb::Grant ToProto(const Grant& grant) {
  pb::Grant told;
  told.set_claim(grant.claim);
  told.set_epoch(grant.epoch);
  for (uint32_t device : grant.devices) told.add_devices(device);
  told.set_memory_bytes(grant.memory_bytes);
  told.set_share_milli(grant.share_milli);
  told.set_limit_milli(grant.limit_milli);
  told.set_priority(grant.priority);
  told.set_seats(grant.seats);
  told.set_hold_ms(grant.hold_ms);
  told.set_quota(grant.quota_revision);
  told.set_net_bytes_per_s(grant.net_bytes_per_s);
  told.set_parked(grant.is_parked);
  return told;
}

Result<HostReport> FromProto(const pb::HostReport& told) {
  auto wrong = [](const std::string& what) { return Status(Code::kInvalid, "report: " + what); };
  if (!IsHostName(told.host()))
    return wrong("a host's name has 1 to 64 letters, digits and . _ -: give it one by --pool-name");
  if (told.gpus_size() > kMaxGpus || told.claims_size() > kMaxClaims ||
      told.endpoints_size() > kMaxEndpoints)
    return wrong(std::to_string(told.gpus_size()) + " GPUs, " + std::to_string(told.claims_size()) +
                 " claims: too many for one host");
  HostReport report;
  report.host = told.host();
  report.incarnation = told.incarnation();
  report.beat = told.beat();
  report.is_draining = told.draining();
  report.net_ceiling = told.net_bytes_per_s();
  report.park_bytes = std::min(told.park_bytes(), kMaxBytes);
  report.oversubscribe_milli =
      std::clamp(told.oversubscribe_milli(), kWholeMilli, kMaxOversubscribeMilli);
  for (const std::string& url : told.endpoints()) {
    if (!IsEndpoint(url))
      return wrong("endpoint '" + Shortened(url) + "': none that a client takes");
    report.endpoints.push_back(url);
  }
  // Programs take the first that they reach.
  std::stable_partition(report.endpoints.begin(), report.endpoints.end(),
                        [](const std::string& url) { return url.rfind("tls://", 0) == 0; });
  for (const pb::Gpu& one : told.gpus()) {
    Gpu gpu = FromProto(one);
    gpu.name = Shortened(gpu.name);
    gpu.uuid = Shortened(gpu.uuid);
    gpu.memory_bytes = std::min(gpu.memory_bytes, kMaxBytes);
    report.gpus.push_back(std::move(gpu));
  }
  for (const pb::HeldClaim& one : told.claims()) {
    ReportedClaim claim;
    claim.claim = Shortened(one.claim());
    if (claim.claim.empty()) return wrong("a claim without a name");
    if (one.epoch() > kMaxCount || one.quota() > kMaxCount)
      return wrong("claim '" + claim.claim + "': its epoch or quota is none that a pool gives");
    claim.epoch = one.epoch();
    claim.sessions = one.sessions();
    claim.is_ending = one.ending();
    claim.refused = Shortened(one.refused());
    for (uint32_t device : one.devices())
      if (std::find(claim.devices.begin(), claim.devices.end(), device) == claim.devices.end() &&
          claim.devices.size() < static_cast<size_t>(kMaxGpus))
        claim.devices.push_back(device);
    claim.memory_bytes = std::min(one.memory_bytes(), kMaxBytes);
    claim.share_milli = std::min(one.share_milli(), kWholeMilli);
    claim.limit_milli = std::min(one.limit_milli(), kWholeMilli);
    claim.priority = static_cast<uint8_t>(std::min(one.priority(), 2u));
    claim.seats = std::clamp(one.seats(), 1u, 4096u);
    claim.net_bytes_per_s = std::min(one.net_bytes_per_s(), kMaxBytesPerSecond);
    claim.quota_revision = one.quota();
    claim.refused_revision = one.refused_quota();
    claim.change_refused = Shortened(one.change_refused());
    claim.is_parked = one.parked();
    claim.park_refused = Shortened(one.park_refused());
    report.claims.push_back(claim);
  }
  return report;
}

}  // namespace farcall::pool
