// SPDX-License-Identifier: Apache-2.0
// Times of day: claims that begin later, and reservations. The core is told the time with each turn
// of the clock; what has begun or ended by it stays so, whatever the clock says then.
#include <algorithm>
#include <iterator>

#include "pool/core/core.h"

namespace farcall::pool {

namespace {

constexpr Ms kSlewed = 1000;  // by so much the clock of day may drift from ours before it counts
constexpr char kListsThem[] = "farcall pool reservation list shows them";

bool Overlap(const Reservation& a, const Reservation& b) {
  return a.begin_unix < b.end_unix && b.begin_unix < a.end_unix;
}

bool IsWanted(const Reservation& reservation, const Host& host, const Gpu& gpu) {
  return (reservation.model.empty() || gpu.name.find(reservation.model) != std::string::npos) &&
         MatchesHost(reservation.selector, host.name, host.labels) &&
         MatchesGpu(reservation.selector, gpu.name);
}

std::string SecondsText(Ms ms) {
  return std::to_string((std::max<Ms>(ms, 0) + 999) / 1000) + " s";
}

}  // namespace

// 0: it has come.
Ms Core::MsOf(int64_t unix_seconds) const {
  if (!unix_ahead_) return kNever;  // nobody has told the time yet
  const Ms at = unix_seconds * 1000 - *unix_ahead_;
  return at <= now_ ? 0 : at;
}

void Core::TellTime(int64_t unix_ms) {
  if (unix_ms == 0) return;
  unix_ahead_ = unix_ms - now_;
  std::vector<std::string> begun, ended;
  for (const auto& [name, reservation] : reservations_)
    if (reservation.end_unix * 1000 <= unix_ms)
      ended.push_back(name);
    else if (!reservation.has_begun && MsOf(reservation.begin_unix) == 0)
      begun.push_back(name);
  for (const std::string& name : ended) CloseReservation(name, "reservation " + name + " is over");
  std::vector<Ms> begins = BeginsOfReservations();
  auto is_same = [](Ms a, Ms b) { return std::max(a, b) - std::min(a, b) <= kSlewed; };
  const bool has_slewed = begun.empty() && !std::equal(begins.begin(), begins.end(),
                                                       begins_.begin(), begins_.end(), is_same);
  if (!begun.empty() || has_slewed)
    Reserve([&] {
      for (const std::string& name : begun) {
        reservations_.at(name).has_begun = true;
        Say("reservation_begun", "", "", name);
      }
    });
  BeginClaims();
}

// 0: it has begun. Before anybody has told the time it may at any moment.
Ms Core::BeginOf(const Reservation& reservation) const {
  if (reservation.has_begun) return 0;
  return unix_ahead_ ? std::max<Ms>(MsOf(reservation.begin_unix), 1) : 1;
}

std::vector<Ms> Core::BeginsOfReservations() const {
  std::vector<Ms> begins;
  for (const auto& [name, reservation] : reservations_)
    if (!reservation.has_begun) begins.push_back(BeginOf(reservation));
  std::sort(begins.begin(), begins.end());
  return begins;
}

// What is reserved decides about shapes: whatever waits is filed anew.
void Core::Reserve(const std::function<void()>& change) {
  std::vector<const Claim*> waiting;
  for (const auto& [key, shape] : shapes_)
    for (const auto& [line, claims] : shape.lines)
      for (const auto& [rank, id] : claims.claims) waiting.push_back(&claims_.at(id));
  for (const Claim* claim : waiting) Dequeue(*claim);  // each stands for its gang
  change();
  begins_ = BeginsOfReservations();
  MarkReserved();
  for (const Claim* claim : waiting) Enqueue(*claim);
  CapacityCame(nullptr);
}

// Of reservations of one GPU the first counts: what ends before it ends before the others.
void Core::MarkReserved() {
  for (auto& [name, host] : hosts_)
    for (Gpu& gpu : host.gpus) gpu.reserved = 0;
  for (const auto& [name, reservation] : reservations_) {
    const Ms from = BeginOf(reservation);
    for (const Reservation::Held& held : reservation.held) {
      auto host = hosts_.find(held.host);
      if (host == hosts_.end() || held.device >= host->second.gpus.size()) continue;
      Gpu& gpu = host->second.gpus[held.device];
      if (gpu.reserved != 0 && gpu.reserved_from <= from) continue;
      gpu.reserved = reservation.number;
      gpu.reserved_from = from;
    }
  }
}

std::string Core::ReservedShapeOf(const Claim& claim) const {
  if (reservations_.empty()) return "";
  if (claim.reservation != 0) return "\fr" + std::to_string(claim.reservation);
  // How many begin before it ends.
  const auto end = std::lower_bound(begins_.begin(), begins_.end(), claim.ends);
  std::string shape("\f");
  return shape += std::to_string(end - begins_.begin());
}

void Core::SetEnds(Claim& claim) {
  const Ms lifetime = claim.ask.lifetime_ms;
  claim.ends =
      lifetime == 0 || lifetime > kNever - claim.created ? kNever : claim.created + lifetime;
}

void Core::BeginClaims() {
  while (!early_.empty() && MsOf(early_.begin()->first) == 0) {
    const std::string id = early_.begin()->second;
    for (Claim* claim : MembersOf(claims_.at(id))) {
      early_.erase({claim->ask.begin_unix, claim->id});
      if (!claim->is_early) continue;
      claim->is_early = false;
      claim->ask.begin_unix = 0;  // so that it does not begin again with the next controller
      claim->created = claim->since = now_;
      SetEnds(*claim);
      Say("claim_begins", claim->id, "", "");
      Store(*claim);
      Arm(*claim);
    }
    Enqueue(claims_.at(id));
  }
}

bool Core::MayBegin(const Ask& ask, int64_t now_unix) {
  auto wrong = [&](const std::string& why) {
    Refuse(RefusalCode::kInvalid, "begin: " + why, "begin", "leave it out to begin now");
    return false;
  };
  if (ask.begin_unix == 0) return true;
  if (ask.begin_unix < now_unix) return wrong(std::to_string(now_unix - ask.begin_unix) + " s ago");
  if (ask.begin_unix - now_unix > kMaxReservationSeconds) return wrong("more than a year from now");
  if (!unix_ahead_) unix_ahead_ = now_unix * 1000 - now_;
  return true;
}

bool Core::MayName(const Ask& ask) {
  if (ask.reservation.empty()) return true;
  auto found = reservations_.find(ask.reservation);
  if (found == reservations_.end()) {
    Refuse(RefusalCode::kInvalid, "there is no reservation '" + ask.reservation + "'",
           "reservation", kListsThem);
    return false;
  }
  if (const std::string& group = found->second.group; group != ask.group) {
    Refuse(RefusalCode::kInvalid,
           "reservation '" + ask.reservation + "' is of group '" + NameOfGroup(group) +
               "', the claim of '" + NameOfGroup(ask.group) + "'",
           "group", "leave it out");
    return false;
  }
  const std::string& project = found->second.project;
  if (project.empty() || IsWithin(ask.project, project)) return true;
  Refuse(RefusalCode::kDenied,
         "reservation '" + ask.reservation + "' is of project '" + project + "', the claim of '" +
             ask.project + "'",
         "reservation", "ask with --project " + project);
  return false;
}

uint64_t Core::NumberOf(const std::string& reservation) const {
  if (reservation.empty()) return 0;
  auto found = reservations_.find(reservation);
  return found == reservations_.end() ? UINT64_MAX : found->second.number;
}

// By when all claims on it will have gone that are of no reservation: those have their own end.
bool Core::IsFreeFrom(const Host& host, uint32_t device, Ms begins) const {
  return std::all_of(host.claims.begin(), host.claims.end(), [&](const std::string& id) {
    const Claim& claim = claims_.at(id);
    return !HoldsGpus(claim) || claim.reservation != 0 || claim.state == ClaimState::kReleasing ||
           claim.ends <= begins ||
           std::count(claim.devices.begin(), claim.devices.end(), device) == 0;
  });
}

// On the hosts that have the most of them; false: there are too few, and why is told.
bool Core::ChooseGpus(Reservation* reservation, Ms begins) {
  std::vector<std::vector<Reservation::Held>> found;
  uint32_t wanted = 0, reserved = 0, held = 0, free = 0;
  for (const auto& [name, host] : hosts_) {
    if (host.is_closed() || host.group != reservation->group) continue;
    std::vector<Reservation::Held> here;
    for (uint32_t device = 0; device < host.gpus.size(); ++device) {
      if (!IsWanted(*reservation, host, host.gpus[device])) continue;
      ++wanted;
      const Reservation::Held one{name, device};
      const bool is_reserved =
          std::any_of(reservations_.begin(), reservations_.end(), [&](const auto& other) {
            return Overlap(*reservation, other.second) &&
                   std::count(other.second.held.begin(), other.second.held.end(), one) != 0;
          });
      if (is_reserved)
        ++reserved;
      else if (!IsFreeFrom(host, device, begins))
        ++held;
      else
        here.push_back(one);
    }
    free += static_cast<uint32_t>(here.size());
    if (!here.empty()) found.push_back(std::move(here));
  }
  if (free < reservation->gpus) {
    Refuse(RefusalCode::kConflict,
           "gpus " + std::to_string(reservation->gpus) + ": of " + std::to_string(wanted) +
               " that it could have, " + std::to_string(free) + " are free from its begin on; " +
               std::to_string(reserved) + " are reserved then, " + std::to_string(held) +
               " have claims that do not end before",
           "gpus", "ask for fewer or for later, or give claims a --lifetime");
    return false;
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  for (const auto& here : found)
    for (const Reservation::Held& one : here)
      if (reservation->held.size() < reservation->gpus) reservation->held.push_back(one);
  return true;
}

void Core::On(const MakeReservation& event) {
  Reservation made = event.reservation;
  if (auto [wrong, field] = FaultOf(made, event.now_unix); !wrong.empty())
    return Refuse(RefusalCode::kInvalid, wrong, field);
  if (reservations_.count(made.name) != 0)
    return Refuse(RefusalCode::kConflict, "there is a reservation '" + made.name + "' already",
                  "name", "delete that one first, or give this one another name");
  if (reservations_.size() >= limits_.reservations)
    return Refuse(RefusalCode::kTooMany,
                  "the pool has " + std::to_string(reservations_.size()) +
                      " reservations, which is all it can",
                  "name");
  if (!made.project.empty() && projects_.count(made.project) == 0)
    return Refuse(RefusalCode::kInvalid, "there is no project '" + made.project + "'", "project",
                  "farcall pool project list shows them");
  made.group = KeptGroup(made.group);
  if (FindGroup(NameOfGroup(made.group)) == nullptr)
    return Refuse(RefusalCode::kInvalid, "there is no group '" + made.group.substr(0, 64) + "'",
                  "group", "farcall pool group list shows them");
  if (!unix_ahead_) unix_ahead_ = event.now_unix * 1000 - now_;
  made.held.clear();
  if (made.begin_unix == 0) made.begin_unix = event.now_unix;
  made.has_begun = made.begin_unix <= event.now_unix;
  if (!ChooseGpus(&made, made.has_begun ? now_ : MsOf(made.begin_unix))) return;
  made.number = ++last_reservation_;
  made.revision = ++revision_;
  Reserve([&] { reservations_[made.name] = made; });
  effects_->reservations.insert(made.name);
  Say("reservation_made", "", "", made.name);
}

void Core::On(const EndReservation& event) {
  if (reservations_.count(event.name) == 0)
    return Refuse(RefusalCode::kNotFound, "there is no reservation '" + event.name + "'", "name",
                  kListsThem);
  CloseReservation(event.name, "reservation " + event.name + " was deleted");
}

void Core::CloseReservation(const std::string& name, const std::string& why) {
  const uint64_t number = reservations_.at(name).number;
  std::vector<std::string> of_it;
  for (const auto& [id, claim] : claims_)
    if (claim.reservation == number && !IsOver(claim.state)) of_it.push_back(id);
  for (const std::string& id : of_it) {
    Claim& claim = claims_.at(id);
    if (claim.state == ClaimState::kReleasing) {
      claim.requeues = false;           // it would come back to nothing
      Store(claim);                     // also with the controller that follows
    } else if (!IsOver(claim.state)) {  // the others of its gang are not either
      End(claim, ClaimState::kExpired, why);
    }
  }
  Reserve([&] { reservations_.erase(name); });
  effects_->reservations.insert(name);
  Say("reservation_over", "", "", name);
}

std::string Core::EndsTooLate(const Claim& claim, Ms ends) const {
  auto host = hosts_.find(claim.host);
  if (host == hosts_.end() || ends <= claim.ends) return "";
  for (uint32_t device : claim.devices) {
    if (device >= host->second.gpus.size()) continue;
    const Gpu& gpu = host->second.gpus[device];
    if (gpu.reserved == 0 || gpu.reserved == claim.reservation || ends <= gpu.reserved_from)
      continue;
    return claim.host + ":" + std::to_string(device) + " is reserved" +
           (gpu.reserved_from == 0 ? "" : " in " + SecondsText(gpu.reserved_from - now_));
  }
  return "";
}

// Of one that waits for a time of day; "": it does not.
std::string Core::WhyEarly(const Claim& claim) const {
  if (claim.is_early) {
    const Ms at = MsOf(claim.ask.begin_unix);
    return "its begin is " +
           (at == kNever ? std::string("yet to come") : "in " + SecondsText(at - now_));
  }
  auto found = reservations_.find(claim.ask.reservation);
  if (claim.ask.reservation.empty() || found == reservations_.end() || found->second.has_begun)
    return "";
  const Ms at = MsOf(found->second.begin_unix);
  return "its reservation '" + found->first + "' begins " +
         (at == kNever ? std::string("later") : "in " + SecondsText(at - now_));
}

// What Broken adds.
std::string Core::BrokenReservation() const {
  for (const auto& [name, reservation] : reservations_)
    if (reservation.name != name || reservation.number == 0 ||
        reservation.held.size() != reservation.gpus)
      return "reservation " + name + " is not whole";
  for (const auto& [id, claim] : claims_) {
    const bool is_listed = early_.count({claim.ask.begin_unix, id}) != 0;
    if (claim.is_early != is_listed || (claim.is_early && claim.state != ClaimState::kPending))
      return "claim " + id + " waits for its begin, or does not, and the list says otherwise";
    if (claim.reservation == 0 || IsOver(claim.state) || claim.state == ClaimState::kReleasing)
      continue;
    auto found = reservations_.find(claim.ask.reservation);
    if (found == reservations_.end() || found->second.number != claim.reservation)
      return "claim " + id + " names a reservation that is not there";
    if (!HoldsGpus(claim)) continue;
    for (uint32_t device : claim.devices)
      if (const Reservation::Held one{claim.host, device};
          std::count(found->second.held.begin(), found->second.held.end(), one) == 0)
        return "claim " + id + " is on a GPU that its reservation has not";
  }
  return "";
}

}  // namespace farcall::pool
