// SPDX-License-Identifier: Apache-2.0
// The pool's serial core: Apply(event) -> effects. Deterministic, without input or output; time
// comes in with every event, ids with the request. What it answers counts once its effects are
// stored.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pool/core/effects.h"
#include "pool/core/events.h"
#include "pool/core/model/accounts.h"
#include "pool/core/model/project.h"
#include "pool/core/model/project_state.h"
#include "pool/core/model/reservation.h"
#include "pool/core/model/types.h"
#include "pool/core/placing/gang_placer.h"
#include "pool/core/placing/group_state.h"
#include "pool/core/placing/placer.h"
#include "pool/core/placing/preempt.h"
#include "pool/core/placing/sequencer.h"
#include "pool/core/placing/turns.h"

namespace farcall::pool {

// Waiting times of the tables in docs/internals/pool.md.
struct Timing {
  Ms settle = 10'000;         // after a start: no expiry, no host is given up
  Ms suspect = 10'000;        // silence of a host
  Ms lost = 60'000;           // silence in all
  Ms reserved = 60'000;       // for the host to accept
  Ms never_used = 120'000;    // bound, without a session
  Ms renew = 600'000;         // idle, without being renewed
  Ms keep_over = 3'600'000;   // how long what is over can still be looked at
  Ms refused_pause = 30'000;  // before a host that refused a claim is asked for it again
  Ms aging = 60'000;          // waiting, before a place is kept free for a claim; kNever: none is
  Ms min_run = 60'000;        // with a place, before a claim may be preempted
  Ms preempt_grace = 30'000;  // from the warning until a preempted claim loses its place
  Ms park = 60'000;           // then, for its host to park it
};

// What one tenant, and all together, may take of the controller.
struct Limits {
  uint32_t tenant_claims = 64;              // that are not over; also what may come at once
  uint32_t tenant_per_minute = 240;         // as they come in the long run
  size_t claims = 200'000, hosts = 10'000;  // in all, those that are over too
  uint32_t adopted = 4096;                  // by one host in a controller's life
  size_t join_tokens = 1000;                // not used yet
  size_t projects = 10'000;
  size_t reservations = 1000;
  size_t groups = 256;
};

// The time after which a host has surely given a claim up: its clock may run a tenth slower.
constexpr Ms OrphanAfter(Ms hold) {
  return hold + hold / 10 + 2000;
}

struct Explanation {
  ClaimState state = ClaimState::kPending;
  Pass pass;
  uint32_t place_in_queue = 0;        // 1: the next; 0: not in it
  std::string why;                    // one line
  std::string rule;                   // what puts it at its place
  std::string fits_if;                // what would let it go now
  std::string limit;                  // of its project, which it would exceed; empty: none
  std::vector<std::string> preempts;  // claims that leave for it
  std::string preempted_by;           // the claim that it leaves for
  std::string group;
  std::string placement;     // its placer, and how it did
  std::string tflops;        // what those that it asks for come to
  uint64_t share_milli = 0;  // which it counts in its project; 0: none, or not known yet
  // Of a claim that has alternatives and waits: each of them.
  struct Alternative {
    Size size;
    std::string why, fits_if, limit;
    bool fits_now = false, could_ever_fit = false;
  };
  std::vector<Alternative> alternatives;
  uint32_t choice = 0;  // of a plan that fits now: which of them
};

// A claim that waits, in the order in which claims are tried.
struct Waiting {
  const Claim* claim = nullptr;
  std::string limit;  // what keeps it from being tried; empty: nothing
};

class Core {
 public:
  explicit Core(const Timing& timing = {}, const Limits& limits = {},
                const SequencerPolicy& sequencer = {})
      : timing_(timing),
        limits_(limits),
        half_life_(sequencer.half_life),
        placer_(sequencer.placer),
        sequencer_(MakeSequencer(sequencer.name)) {
    LoadProjects({});
    LoadGroups({});
  }

  // What the store held, before the first event: the clock starts anew for all of it.
  void Load(std::vector<Claim> claims, std::vector<Host> hosts, Ms now,
            std::map<std::string, JoinToken> join_tokens = {}, std::vector<Project> projects = {},
            std::vector<Reservation> reservations = {}, std::vector<Group> groups = {});

  void LoadAccounts(std::vector<User> users, std::vector<AccessToken> tokens) {
    accounts_.Load(std::move(users), std::move(tokens));
  }

  Effects Apply(const Event& event, Ms now);

  const std::map<std::string, Claim>& claims() const { return claims_; }
  const Hosts& hosts() const { return hosts_; }
  const std::map<std::string, JoinToken>& join_tokens() const { return join_tokens_; }
  const std::map<std::string, ProjectState>& projects() const { return projects_; }
  const ProjectState* FindProject(const std::string& name) const;
  const std::map<std::string, Reservation>& reservations() const { return reservations_; }
  const std::map<std::string, GroupState>& groups() const { return groups_; }
  const GroupState* FindGroup(const std::string& name) const;
  // Why what the ask wants, or an alternative of it, can be converted on no GPU of its group, which
  // exists; nullopt: it can.
  std::optional<Refusal> TflopsFault(const Ask& ask) const;
  const std::vector<RoundTrip>& RoundTripsOf(const Group& group) const;
  // With what the pool, its groups and reservations say where nothing is named; its first
  // alternative.
  Ask Completed(Ask ask) const;
  const Accounts& accounts() const { return accounts_; }
  // Of a gang's name: its first member.
  const Claim* Find(const std::string& id) const;
  // Its members by number; fewer once it is over, none if nobody knows it.
  std::vector<const Claim*> FindGang(const std::string& gang) const;
  Explanation Explain(const Claim& claim) const;  // core_explain.cc
  // Of a reservation's name, as claims have it; 0: it names none.
  uint64_t NumberOf(const std::string& reservation) const;
  bool IsKeptFor(const Claim& claim) const { return kept_.count(claim.id) != 0; }
  const Sequencer& sequencer() const { return *sequencer_; }
  const Sequencer& SequencerOf(const GroupState& group) const;
  SequencerPolicy sequencer_policy() const {
    return {std::string(sequencer_->name()), half_life_, placer_};
  }
  const Timing& timing() const { return timing_; }
  // Of one that is preempting: until its grace is over.
  Ms LeavesIn(const Claim& claim, Ms now) const {
    return std::max<Ms>(0, claim.since + timing_.preempt_grace - now);
  }
  const Limits& limits() const { return limits_; }
  // Claims that wait, as they would be tried now if each found a place; the first so many of each
  // group, one group after the other.
  std::vector<Waiting> InOrder(size_t most) const;
  std::vector<Waiting> InOrder(const GroupState& group, size_t most) const;
  // As Explain for a claim that is not made; and where it would go now.
  //   members  of a gang; 0: of a claim alone
  //   Before  its group is there
  Explanation Plan(const Ask& ask, uint32_t members, std::optional<GangPlaces>* places) const;
  uint64_t revision() const { return revision_; }
  // In the queue, where a gang is one.
  size_t pending() const { return pending_count_; }

  // Everything that must hold after every event; "" or what does not.
  std::string Broken() const;

 private:
  using Order = uint64_t;
  using LineKey = std::pair<std::string, std::string>;  // project, tenant
  struct Shape;
  // The claims of one shape that one tenant of a project has waiting.
  struct Line {
    std::map<Rank, std::string> claims;
    Shape* shape = nullptr;
    const ProjectState* project = nullptr;
    const TenantPart* tenant = nullptr;
    const GroupState* group = nullptr;
    bool is_new = false;   // it has a claim that no pass has seen
    bool is_open = false;  // in the pass under way it may still find a place
  };
  // Claims that ask for the same: what finds no room for one finds none for all that come after it
  // in rank, until capacity comes back.
  struct Shape {
    std::map<LineKey, Line> lines;
    std::map<Rank, Line*> ranks;  // of all of them
    bool is_particular = false;   // its project's limits by model decide where it fits
    uint64_t failed_at = 0;       // the capacity version; 0: it has not failed
    Rank failed;                  // of the first claim for which it has
  };

  void On(const RequestClaim& event);
  void On(const ReleaseClaim& event);
  void On(const RenewClaim& event);
  void On(const ChangeClaim& event);  // this and what follows from it: core_change.cc
  void On(const HostReport& event);
  void On(const HostClosed& event);
  void On(const MakeJoinToken& event);  // this and the next two: core_join.cc
  void On(const RevokeJoinToken& event);
  void On(const JoinHost& event);
  void On(const MakeReservation& event);  // this and the next: core_reserve.cc
  void On(const EndReservation& event);
  void On(const SetHost& event);
  void On(const SetProject& event);  // this and the next: core_projects.cc
  void On(const DeleteProject& event);
  void On(const SetGroup& event);  // this and the next: core_groups.cc
  void On(const DeleteGroup& event);
  void On(const SetLabels& event);  // this and the next: core_config.cc
  void On(const ApplyConfig& event);
  void On(const AccountEvent& event);  // core_accounts.cc
  void On(const Regranted& event);
  void On(const Tick& event);

  // Claims.
  void Add(Claim claim);  // that is new
  void Move(Claim& claim, ClaimState to, const std::string& reason = "");
  void MoveAsReported(Claim& claim, ClaimState to);  // among those in which its host holds it
  // Out of whatever state: at once if no host can hold it, else by way of kReleasing.
  void End(Claim& claim, ClaimState final_state, const std::string& reason, bool requeues = false);
  void Finish(Claim& claim);  // of kReleasing: the host has let go
  void Expire(Claim& claim);  // its deadline has come
  Ms DeadlineOf(const Claim& claim) const;
  void Arm(const Claim& claim);
  void Disarm(const std::string& id);
  void Hold(const Claim& claim, bool held);  // counts it on its GPUs
  void Count(const Claim& claim, Host& host, bool held);
  // Why the host's GPUs have no room for so much; "": they have.
  std::string NoRoom(const Claim& claim, const Ask& ask, uint64_t memory_bytes) const;
  uint64_t BytesOf(const Ask& ask, const Host& host, const std::vector<uint32_t>& devices) const;
  void SetAsk(Claim& claim, const Ask& ask);
  void ChangeAsk(Claim& claim, Ask ask);
  void Propose(Claim& claim, const Ask& ask);
  void OnReportedQuota(Claim& claim, const ReportedClaim& told);
  void EndChange(Claim& claim, const std::string& refused);
  std::string ShapeOf(const Claim& claim) const;
  // The claim, or its gang, if all of it waits.
  void Enqueue(const Claim& claim);
  void Dequeue(const Claim& claim);

  // Gangs (core_gang.cc). A claim alone is a gang of itself.
  std::vector<Claim*> MembersOf(const Claim& claim);
  std::vector<const Claim*> MembersOf(const Claim& claim) const;
  const Claim& LeaderOf(const Claim& claim) const;  // who stands in the queue for all
  Claim& LeaderOf(const Claim& claim);
  bool WaitsAsWhole(const Claim& claim) const;
  // What follows for the others from the state that the claim now has.
  void FollowInGang(const Claim& claim);
  void AcceptInGang(Claim& claim);  // its host has; binds all when all have
  bool IsGangUsed(const Claim& claim) const;

  // Parking (core_park.cc).
  bool MayPark(const Claim& claim) const;
  void AskToPark(Claim& claim);
  void OnReportedParking(Claim& claim, const ReportedClaim& told);
  // Where its gang was, if it may have that again; nullopt: not now.
  std::optional<GangPlaces> OwnPlaces(const Claim& claim) const;
  void Resume(Claim& claim);
  std::string WhyParked(const Claim& claim) const;
  // Why the hosts that there are, or the limits of its project, could never hold it; "": they can.
  std::string NeverFits(const Claim& claim) const;
  static void LoadGangs(std::vector<Claim>* claims);
  std::string BrokenGang() const;

  // Configuration (core_config.cc).
  bool CanBe(const ApplyConfig& event);
  bool CanBeGroups(const ApplyConfig& event, const std::set<std::string>& projects);
  void ApplyUser(const User& user, int64_t now_unix);

  // Times of day (core_reserve.cc).
  void TellTime(int64_t unix_ms);
  Ms MsOf(int64_t unix_seconds) const;  // of the core's clock; 0: it has come
  void BeginClaims();
  // Whether a claim may begin then, and name that reservation; or refuses.
  bool MayBegin(const Ask& ask, int64_t now_unix);
  bool MayName(const Ask& ask);
  static void SetEnds(Claim& claim);
  void CloseReservation(const std::string& name, const std::string& why);
  bool ChooseGpus(Reservation* reservation, Ms begins);
  bool IsFreeFrom(const Host& host, uint32_t device, Ms begins) const;
  std::string ReservedShapeOf(const Claim& claim) const;
  void Reserve(const std::function<void()>& change);
  Ms BeginOf(const Reservation& reservation) const;
  std::vector<Ms> BeginsOfReservations() const;
  void MarkReserved();  // on the hosts' GPUs, for the placer
  std::string WhyEarly(const Claim& claim) const;
  // Why a claim that has its place may not run until then; "": it may.
  std::string EndsTooLate(const Claim& claim, Ms ends) const;
  std::string BrokenReservation() const;

  // Groups (core_groups.cc).
  const GroupState& GroupOf(const Ask& ask) const;
  GroupState& GroupOf(const Ask& ask);
  bool RemembersUsage() const;  // any of their sequencers
  void Establish(Group group);
  void LoadGroups(std::vector<Group> groups);
  void PutGroup(Group group);
  std::string GroupOfHost(const Host& host) const;
  void FileHost(Host& host);  // under its group
  PlacerInputs InputsOf(const Ask& ask) const;
  static std::string FaultAmong(const Group& group, const std::map<std::string, Group>& groups);
  std::map<std::string, Group> Groups() const;
  bool MayUseGroup(const Ask& ask, uint32_t claims);
  static std::string ProjectsText(const Group& group);
  std::string GroupLimitOf(const Claim& claim) const;
  std::string BrokenGroup() const;

  // Projects (core_projects.cc).
  void LoadProjects(std::vector<Project> projects);
  std::vector<ProjectState*> LineageOf(const std::string& name);
  void Establish(const Project& project);
  bool MayWait(const std::string& project, const std::string& tenant, uint32_t claims);
  void CountWaiting(const Claim& claim, bool waits);
  void CountUse(const Claim& claim, const Host& host, bool held);
  static void CountModels(ProjectState* state, const Claim& claim, const Host& host, bool held);
  static Amounts AmountsOf(const Claim& claim, const Host& host);
  // Of a claim, or gang, that has no place: what is known, and what it would be there.
  static Amounts AskedBy(const Claim& claim);
  Amounts AmountsAt(const Claim& claim, const GangPlaces& places) const;
  void ForEachAt(const Claim& claim, const GangPlaces& places,
                 const std::function<void(const Claim&, const Host&)>& call) const;
  std::string BrokenProject() const;

  // Hosts (core_hosts.cc).
  void SetState(Host& host, HostState to, const std::string& why = "");
  void TakeInventory(Host& host, const HostReport& report);
  void TakeEnding(Host& host, bool is_ending);
  void OnReportedClaim(Host& host, const ReportedClaim& told);
  void Adopt(Host& host, const ReportedClaim& told);
  void OnRefusal(Host& host, Claim& claim, const std::string& why);
  void MissClaims(Host& host, const std::set<std::string>& told);
  std::vector<Grant> GrantsOf(Host& host);
  std::map<std::string, std::string> EndedOn(const Host& host) const;
  Answer AnswerTo(Host& host);
  HostState StateOfPresent(const Host& host) const;
  void Settle(Host& host);  // draining or drained, as its claims say
  void SweepHosts();
  bool FellSilentWithMany(const Host& host) const;

  // The queue (core_queue.cc).
  // On that host; nullptr: anywhere.
  void CapacityCame(const Host* host);
  // Hosts with capacity that came after that version; nullopt: all may have.
  std::optional<std::vector<const Host*>> FreedSince(uint64_t version) const;
  std::vector<Line*> OpenLines();
  size_t CloseLines(Shape& shape) const;
  static bool IsBehind(const Shape& shape, const Rank& rank);
  void NoteFailure(Shape& shape, const Rank& rank, bool is_of_all_hosts);
  // Of a claim's alternatives, those that may have a place: from the first to before the second.
  static std::pair<uint32_t, uint32_t> ChoicesOf(const Claim& claim);
  void Choose(const Claim& claim, uint32_t choice);  // with all of its gang
  bool CouldFit(const std::vector<const Host*>& freed, const Claim& claim) const;
  void TryLines(const GroupState& group, const std::vector<Line*>& open);
  // On hosts to which capacity has come; nullptr: on any.
  std::optional<GangPlaces> Look(const std::vector<const Host*>* freed, const Claim& claim) const;
  void PlaceKept();
  uint32_t PlaceOf(const Claim& claim) const;  // in the queue, from 1; 0: far behind
  std::string RuleOf(const Claim& claim) const;
  void TellAlternatives(const Claim& claim, Explanation* told) const;
  std::string PlacementOf(const Claim& claim, const GangPlaces& places) const;
  void ForgetRefusals();
  void Schedule();
  bool TryPlace(Shape& shape, Claim& claim);
  void Put(Claim& claim, const GangPlaces& places);
  void PutOne(Claim& claim, const Place& place);
  bool HasOwnFilters(const Claim& claim) const;

  // TFLOPS (core_tflops.cc).
  const std::vector<ModelTflops>& TflopsOf(const Group& group) const;
  bool Rate(Host& host) const;
  static uint32_t ChangedShare(const Claim& claim, const Ask& ask);
  std::string ConversionOf(const Claim& claim) const;
  uint64_t CountedShare(const Claim& claim, const GangPlaces& places) const;
  std::string LimitAt(const Claim& claim, const GangPlaces& places) const;
  std::vector<Amounts> ModelsAt(const ProjectState& project, const Claim& claim,
                                const GangPlaces& places) const;
  bool IsDeservedAt(const Claim& claim, const GangPlaces& places) const;
  void Shut(Claim* claim, bool by_deserved) const;

  // Quotas (core_quota.cc).
  static Bounds LimitsOf(const Project& project);
  // Which limit the claim would exceed there; "": none.
  std::string LimitOf(const Claim& claim, const Amounts& amounts) const;
  // The same of a claim that has a place, and is to grow to so much.
  std::string GrowthLimit(const Claim& claim, const Ask& ask, uint64_t memory_bytes) const;
  std::vector<std::string> ShutModels(const Claim& claim, bool by_deserved) const;
  // Whether it is below what it deserves, were `all` what it used.
  static bool IsInQuota(const ProjectState& state, const Amounts& all);
  Turns::Value ValueOf(const Sequencer& sequencer, const ProjectState& project,
                       const TenantPart* tenant) const;
  Turns::Value ValueWith(const Sequencer& sequencer, const ProjectState& project,
                         const TenantPart* tenant, const Amounts& more) const;
  void Accrue(UseState* use);
  void CountCapacity();
  void SweepUsage();
  // Whether the claim's project may have claims of others leave, and which.
  bool MayReclaim(const Claim& claim) const;
  std::set<const Claim*> Reclaimable(const Claim& claim) const;

  // Claims that leave for others (core_preempt.cc).
  void Preempt(const Claim& claim);
  bool PreemptBy(const Claim& claim);  // as it is, without its alternatives
  std::vector<std::string> LeavingFor(const std::string& owner) const;
  void SetLeaving(Claim& victim, const std::string& owner);
  static bool IsUsed(const Claim& claim);
  bool MayLeave(const Claim& claim, const Claim& whom) const;
  void PreemptLater();  // who has run for long enough by now
  void Spare(const std::string& owner);
  std::string BrokenPreemption() const;
  // Count does, for a claim with its place.
  void CountPreemptible(const Claim& claim, const std::string& host, bool held);

  // GangPlaces kept free for claims that wait long, or for which others leave (core_aging.cc).
  struct Kept {
    GangPlaces places;
    Ms since = 0;
    std::set<std::string> guests;  // claims placed there later; they leave room for its owner
    bool IsOn(const std::string& host) const;
  };
  void KeepPlaces();
  void KeepPlacesOf(const GroupState& group);
  std::optional<GangPlaces> PlacesToKeep(const Claim& claim) const;
  bool IsStillGood(const Claim& claim, const Place& place) const;
  void MarkKeptOn(const Claim& owner, const Kept& kept, const Place& place);
  void DropKept(const std::string& owner, bool is_placed);
  bool IsStillGood(const std::string& owner, const Kept& kept) const;
  void MarkKept();  // on the hosts' GPUs, for the placer

  void Store(const Claim& claim);
  void NotifyHostOf(const Claim& claim);
  void Store(Host& host);
  void Say(std::string kind, const std::string& claim, const std::string& host, std::string text);
  // The claim that a caller names, if it is still of that revision; else refuses.
  Claim* Named(const std::string& id, const std::optional<std::string>& by,
               const std::optional<uint64_t>& if_revision);
  Host* NamedHost(const std::string& name, const std::optional<uint64_t>& if_revision);  // likewise
  // So many more claims of the tenant; or refuses.
  bool Take(const std::string& tenant, uint32_t claims);
  void Refuse(RefusalCode code, std::string message, std::string field = "", std::string hint = "");

  const Timing timing_;
  const Limits limits_;
  const Ms half_life_;
  const Placer placer_;
  std::unique_ptr<const Sequencer> sequencer_;
  Ms now_ = 0, settled_at_ = 0;
  std::map<std::string, Claim> claims_;
  std::map<std::string, std::map<uint32_t, Claim*>> gangs_;  // members by number
  std::string following_;  // the gang whose members follow one of them
  Hosts hosts_;
  std::map<std::string, JoinToken> join_tokens_;  // by hash
  Accounts accounts_;
  // (tenant, idempotency key) -> claim
  std::map<std::pair<std::string, std::string>, std::string> by_key_;
  struct TenantUse {
    uint32_t claims = 0;  // that are not over
    Ms paid_until = 0;    // each claim costs some time; so much may be borrowed
  };
  std::map<std::string, TenantUse> tenants_;
  std::map<std::string, ProjectState> projects_;  // by name
  std::map<std::string, GroupState> groups_;      // by what people call them
  GroupState* default_group_ = nullptr;           // of them
  std::map<std::string, Shape> shapes_;
  std::set<std::pair<std::string, LineKey>> new_lines_;  // by shape
  size_t pending_count_ = 0;
  uint64_t capacity_version_ = 1, scheduled_version_ = 0, all_freed_at_ = 1;
  std::deque<std::pair<uint64_t, const Host*>> freed_;  // versions later than that
  Amounts capacity_;                                    // of all hosts
  Rank looked_at_{INT32_MAX, 0};                        // by PreemptLater, last
  Ms usage_swept_ = 0;
  std::optional<int64_t> unix_ahead_;  // milliseconds since 1970, less now_; nullopt: not told yet
  std::map<std::string, Reservation> reservations_;  // by name
  std::vector<Ms> begins_;                           // of those that have not begun, sorted
  uint64_t last_reservation_ = 0;                    // its number
  std::set<std::pair<int64_t, std::string>> early_;  // claims by their begin
  uint64_t revision_ = 0;
  Order last_order_ = 0;
  std::set<std::pair<Ms, std::string>> deadlines_;
  std::map<std::string, Ms> armed_;
  std::map<std::string, Kept> kept_;                                    // by claim
  std::vector<Host*> marked_;                                           // by MarkKept
  std::map<std::string, std::set<std::string>> leaving_;                // for whom, and who
  std::map<int32_t, std::map<std::string, const Claim*>> preemptible_;  // with a place, by priority
  Leavers preemptible_on_;                                              // the same by host
  std::map<std::string, Ms> avoiding_;  // pending claims and when they try all hosts again
  std::set<std::string> beats_;         // hosts that have to be told, of the event under way
  Effects* effects_ = nullptr;          // of it
};

}  // namespace farcall::pool
