// SPDX-License-Identifier: Apache-2.0
// The thread that owns the core: takes events, applies them, stores what they changed in one commit
// for all that came meanwhile, and only then answers. Where the store takes nothing (a full disk),
// the core stands still until it does: hosts and readers are answered, changes are refused.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "generated/proto/pool.pb.h"
#include "pool/access/account_view.h"
#include "pool/core/core.h"
#include "pool/record/record.h"
#include "pool/store/audit.h"
#include "pool/store/store.h"
#include "sync/cond_var.h"

namespace farcall::pool {

class Controller {
 public:
  // Called on the controller's thread; must not block.
  using Done = std::function<void(Effects&)>;
  using Push = std::function<void(const std::string& host, const Answer& answer)>;
  // Where the sessions of a claim go.
  struct Seat {
    std::string claim, tenant, project, host;
    uint64_t epoch = 0, instance = 0;
    std::vector<std::string> endpoints;
  };

  Controller(std::unique_ptr<Store> store, const Loaded& loaded, const Timing& timing,
             const Limits& limits, const SequencerPolicy& sequencer = {});
  ~Controller();

  // What hosts are to be told before their next report; before Start.
  void OnPush(Push push) { push_ = std::move(push); }
  // All that happens, to a new file; before Start.   Errors  kUnavailable
  Status Record(const std::string& path);
  void Start();
  void Stop();

  // All below: any thread. What they return is stored.
  void Post(Event event, Done done);
  Effects Apply(Event event);
  void Read(const std::function<void(const Core& core, Ms now)>& use);
  std::optional<Claim> Find(const std::string& id, Host* host = nullptr);
  // Waits until the claim can be used or is over, at most so long; then as it is.
  std::optional<Claim> WaitBound(const std::string& id, Ms longest);
  // Waits until it is so of the claim or the claim is gone, at most so long; then as it is.
  std::optional<Claim> WaitUntil(const std::string& id, Ms longest,
                                 const std::function<bool(const Claim&)>& is_so);
  // Events after that number (all, or of one tenant's claims), waiting for the next one at most so
  // long. The number becomes that of the last one there is.
  std::vector<v1::Event> EventsAfter(uint64_t* number, Ms longest,
                                     const std::optional<std::string>& by);
  // Of a claim that can be used, without asking the core. As old as what it was last told at most;
  // its host has the last word.
  std::optional<Seat> FindSeat(const std::string& id) const;
  // The host to whose agent that credential was given, by its hash.
  std::optional<std::string> HostOf(const std::string& credential_hash) const;
  // Changes of claims and hosts after that number, waiting as above; nullopt: too far back, all
  // has to be read anew (LastChange's number and what a Read sees then belong together).
  using Changes = std::vector<std::shared_ptr<const v1::Change>>;
  std::optional<Changes> ChangesAfter(uint64_t number, Ms longest);
  uint64_t LastChange();
  bool is_stopping();
  // How long ago it looked for something to do, which it does several times a second.
  Ms SinceLastTurn() const { return SteadyMs() - last_turn_; }
  // Why nothing can be changed now; "": all can.
  std::string store_fault();
  // Users and tokens, as they were stored last.
  const AccountView& accounts() const { return accounts_; }

  // Goes into the store with the next commit, within 0.2 s.
  void Audit(AuditEntry entry) { audit_.Add(std::move(entry)); }
  // What the store has now.
  struct AuditPage {
    AuditPoint before, newest;
    std::vector<std::pair<uint64_t, std::string>> entries;
  };
  AuditPage ReadAudit(uint64_t after, uint32_t limit);

  uint64_t term() const { return term_; }

 private:
  struct Item {
    std::optional<Event> event;
    std::function<void(const Core&, Ms)> read;
    Done done;
  };
  void Loop();
  void Handle(std::vector<Item> items);
  void Note(const std::vector<LogEntry>& log_entries);
  static Ms SteadyMs();
  Ms Now() const;  // the core's
  // What a batch changed, gathered over its events.
  struct Touched {
    std::set<std::string> claims, hosts;        // to be stored now
    std::map<std::string, std::string> erased;  // claims, and their tenants
    std::set<std::string> join_tokens, projects, reservations, groups;
    AccountChanges accounts;
    std::set<std::string> shown_claims, shown_hosts;
    std::map<std::string, Answer> pushes;
    bool has_tick = false;
  };
  static void Gather(const Effects& effects, Touched* touched);
  Effects ApplyCore(const Event& event, Ms now);
  Touched ApplyAll(const std::vector<Item>& items, std::vector<Effects>* all, Ms now);
  Batch Writes(Touched& touched, Ms now);
  void SetCredential(const Host& host);
  void Publish(const AccountChanges& changes);
  void Publish(const Touched& touched, Ms now);
  std::optional<Seat> SeatOf(const Claim& claim) const;
  void Answered(const Answer& answer, const std::string& host);

  // While the store takes nothing (controller_frozen.cc).
  struct Freeze {
    Ms at = 0;                          // the core's time, which stands still
    Ms since = 0, retry = 0, said = 0;  // the clock's
    Touched unsaved;
    std::vector<LogEntry> log_entries;
    std::vector<Item> later;         // streams that have closed
    std::set<std::string> answered;  // hosts that got their grants again
  };
  [[noreturn]] static void EndFenced(const Status& why);
  void StartFreeze(const std::vector<Item>& items, std::vector<Effects>* all, Touched touched,
                   const Status& why);
  // The store takes changes again; what has waited for that comes before `items`.
  bool Thaw(std::vector<Item>* items);
  void HandleFrozen(std::vector<Item> items);
  Effects ApplyFrozen(const Event& event);
  Effects AnswerFrozen(const HostReport& report);
  void SetStoreFault(const std::string& why);

  const std::unique_ptr<Store> store_;
  const uint64_t term_;
  v1::Snapshot snapshot_;  // what the core began with; until Start
  Core core_;              // of the thread alone, as the next
  std::unique_ptr<RecordWriter> record_;
  Push push_;
  std::set<std::string> late_;             // told claims that the next commit takes along
  std::map<std::string, Answer> answers_;  // each host's latest, which is stored
  std::optional<Freeze> freeze_;
  Ms stood_still_ = 0;  // the core's clock, in all
  std::thread thread_;
  std::mutex mutex_;
  CondVar came_, changed_;
  std::deque<Item> queue_;
  struct Noted {
    v1::Event event;
    std::string tenant;
  };
  std::deque<Noted> events_;
  uint64_t last_event_ = 0, changes_ = 0;
  std::deque<std::shared_ptr<const v1::Change>> change_log_;
  uint64_t last_change_ = 0;
  bool stopping_ = false;
  std::atomic<Ms> last_turn_{SteadyMs()};
  std::string store_fault_;
  AccountView accounts_;
  AuditLog audit_;
  mutable std::shared_mutex seats_mutex_;                      // of the rest
  std::map<std::string, std::string> credentials_, hosts_of_;  // of hosts; and the other way
  std::unordered_map<std::string, Seat> seats_;
};

// Whose a claim is, beside its tenant's.
inline std::string ProjectOf(const Claim& claim) {
  return claim.ask.project.empty() ? kDefaultProject : claim.ask.project;
}

// Whether sessions may be opened under it.
inline bool IsUsable(ClaimState state) {
  return state == ClaimState::kBound || state == ClaimState::kActive || state == ClaimState::kIdle;
}

}  // namespace farcall::pool
