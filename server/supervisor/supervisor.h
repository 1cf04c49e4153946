// SPDX-License-Identifier: Apache-2.0
// The supervisor: lets sessions in, starts a worker for each, owns the memory ledger. It never
// loads a driver.
#pragma once

#include <signal.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "quota/memory_ledger.h"
#include "server/control/control_socket.h"
#include "server/control/messages.h"
#include "server/door/handshake_server.h"
#include "server/leases/lease_desk.h"
#include "server/leases/swap_desk.h"
#include "server/library/library_inventory.h"
#include "server/session/steady_now.h"
#include "server/supervisor/audit.h"
#include "server/supervisor/closer.h"
#include "server/supervisor/control_desk.h"
#include "server/supervisor/ended_sessions.h"
#include "server/supervisor/event_rate.h"
#include "server/supervisor/fair_mutex.h"
#include "server/supervisor/image_writer.h"
#include "server/supervisor/mps_desk.h"
#include "server/supervisor/net_desk.h"
#include "server/supervisor/note_limit.h"
#include "server/supervisor/overhead_desk.h"
#include "server/supervisor/pool_desk.h"
#include "server/supervisor/run_totals.h"
#include "server/supervisor/serve_options.h"
#include "server/supervisor/tenant_folders.h"
#include "server/supervisor/worker_inbox.h"
#include "server/supervisor/worker_output.h"
#include "server/worker/shared_folders.h"
#include "server/worker/worker_cgroups.h"
#include "server/worker/worker_process.h"
#include "server/worker/worker_users.h"

namespace farcall::server {

struct WorkerSetup;

// `farcall serve`, from checked options to its end; the process's exit code (docs/exit-codes.md).
int Serve(const ServeOptions& options);
// What a supervisor reads from a descriptor: blocked in all its threads.
sigset_t HandledSignals();

// The vGPU of a pool's claim is named this and the claim's id.
inline constexpr std::string_view kClaimPrefix = "claim ";

class Supervisor {
 public:
  Supervisor(const ServeOptions& options, ProbedDevices devices);
  ~Supervisor();

  // Judges a HELLO.   Thread  any handshake thread
  void Admit(std::unique_ptr<Channel> channel, const HeardHello& heard);
  // Opens the control socket for a server that listens on `url`. One that cannot be opened is said
  // in the log: the server serves without it.
  void OpenControl(const std::string& url);
  // Mode mps: finds NVIDIA's control daemon, and starts it where all sessions are one group.
  //   Errors  kUnavailable
  Status OpenMps();
  // Errors  kUnavailable
  Status OpenCgroups() { return cgroups_.is_wanted() ? cgroups_.Open() : Status(); }
  Status OpenAudit() { return audit_.Open(options_.audit); }
  // Joins the pool that the options name, as a server on `urls`.   Errors  kUnavailable
  Status OpenPool(std::vector<std::string> urls) { return pool_.Open(std::move(urls)); }
  // What was served; after Run.
  const RunTotals& totals() const { return totals_; }
  // Serves until drained or stopped.   Thread  the process's first; its signals are blocked
  // everywhere
  int Run(HandshakeServer& door);

 private:
  struct Worker {
    WorkerProcess process;
    SessionId session{};
    SessionKey key;                // it has to be shown to come back, and never leaves this process
    std::string tenant;            // whose its images are: no secret
    std::string vgpu, who, ended;  // `ended`: the cause the worker told
    uint64_t number = 0;
    std::string client_user, client_host, program;  // printable
    std::string told_host;                          // client_host as it came, to be compared
    uint32_t client_pid = 0;
    int client_fd = -1;  // a pidfd of the client's process; -1: it is gone, or on another host
    std::optional<uid_t> user;   // its own; none: the server's
    std::vector<int> devices;    // the session's, by the server's numbers
    std::string claim;           // of a pool; empty: of none
    std::string counted;         // with these of --max-tenant-sessions; empty: a claim's
    std::string mps_group;       // empty: it is no MPS client
    bool is_terminated = false;  // by MPS, before it is killed
    Clock::time_point kill_at = Clock::time_point::max();
    std::map<int, quota::Charge> charges;
    std::map<int, uint64_t> unspent;  // of them: credit nothing lies in
    Clock::time_point since;
    bool has_ended = false;    // it has said so: it says nothing more
    bool is_shut_out = false;  // nothing of it is read any more
    EventRate rate{kMessagesPerSecond, kMessagesAtOnce, Clock::now()};
    Clock::time_point muted_until{};  // it sent too much; nothing is read meanwhile
    uint64_t refusals = 0;            // of charges
    uint64_t output = 0;              // its pipe in output_
  };
  using Workers = std::map<int, std::unique_ptr<Worker>>;  // by control descriptor

  // A client that has proved who it is, as far as this server asks for it.
  struct Client {
    const Hello& hello;
    const ExchangeKeys keys;
    const std::string tenant;
  };
  void AdmitNew(std::unique_ptr<Channel> channel, const Client& client);
  void AdmitAgain(std::unique_ptr<Channel> channel, const HeardHello& heard);
  Status WhyOver(const HeardHello& heard);
  // Says no to a client, and writes it down unless too many were refused just now.
  void Refuse(Channel& channel, const Status& why);
  uint64_t QuotaFor(const Hello& hello, int device) const;
  // `grant`: of the pool's claim it is for, nullptr without a pool.
  std::unique_ptr<Worker> NewWorker(const Client& client, const quota::ClaimGrant* grant);
  void OpenLedger(const Worker& worker, const Hello& hello, const quota::ClaimGrant* grant);
  void CloseLedger(const Worker& worker);
  // What a session's worker is handed; opened before anybody waits for it.
  struct Folders {
    OwnedDescriptor images, kernels;
  };
  Folders FoldersOf(const std::string& tenant) const;
  WorkerSetup SetupOf(const Worker& worker, const Client& client, const Folders& folders) const;
  Status StartProcess(Worker& worker, Channel& channel, const Client& client,
                      const quota::ClaimGrant* grant, const Folders& folders);
  Status StartSession(Channel& channel, const Client& client, const quota::ClaimGrant* grant,
                      const Folders& folders);
  // `counted`: whose sessions are counted together; empty: a claim's, which the pool counts.
  Status CheckRoom(const std::string& counted) const;
  std::string GpusOf(const Worker& worker) const;
  // Told why, and gone soon whatever it does.
  void EndSession(Worker& worker, const std::string& why);
  void EndClaim(const std::string& claim, const std::string& why);
  bool KillLate();  // true: some are still to be
  // A session counts its own devices from 0: its numbers are translated in TakeMessage and Tell,
  // and nowhere else. A device that the other side does not have is kNoDevice.
  static constexpr int kNoDevice = -2;  // neither a device nor quota::kHostMemory
  static_assert(control::kHostMemory == quota::kHostMemory);
  int HostDevice(const Worker& worker, int device) const;
  int SessionDevice(int control, int device) const;
  // A worker that does not read its messages is not to be trusted any more.
  void KillOnFailedSend(int control, const Status& sent);
  // `message`: of the supervisor's to a worker, or a variant of such; devices are the server's.
  template <typename M>
  Status Tell(int control, M message, int descriptor = -1) {
    control::MapDevice(&message, [&](int device) { return SessionDevice(control, device); });
    Status sent = descriptor < 0 ? control::Send(control, message)
                                 : control::Send(control, message, {descriptor});
    KillOnFailedSend(control, sent);
    return sent;
  }
  Worker* Find(const SessionId& session);

  // How devices are shared: supervisor_modes.cc.
  Status PlaceSession(const Worker& worker) const;
  Status ExclusiveOf(const Worker& worker) const;
  int PickInstance(const std::string& vgpu) const;
  std::string MpsGroupOf(const quota::ClaimGrant* grant) const;
  Status EnsureMps(const std::string& group, const quota::ClaimGrant* grant);
  std::vector<std::string> MpsEnvironment(const Worker& worker, const QuotaRequest& compute,
                                          const quota::ClaimGrant* grant, const Hello& hello);
  void EndMpsGroup(const std::string& group, const std::string& why);
  size_t SessionsOf(const std::string& group);
  void Kill(Worker& worker);
  DeviceMode ModeOf(int device) const { return options_.modes.Of(device); }

  // Device time: supervisor_compute.cc.
  void EngageNew(int control);
  void EngageIfShared();
  Status ChangeCompute(const std::string& vgpu, const QuotaChange& change);
  void PutCompute(const std::string& vgpu, const std::vector<quota::VgpuStatus>& all,
                  nlohmann::json* told) const;
  void Engage(int control);
  int WaitForLeases(int wait_ms);

  // Memory beyond the devices': supervisor_swap.cc.
  std::unique_ptr<SwapDesk> MakeSwapDesk();
  void JoinSwap(const Worker& worker);
  void NoteMove(const Worker& worker, bool out, uint64_t bytes, quota::Ns took);
  SwapDesk::Room RoomFor(Worker& worker, const control::Charge& charge, std::string* why);
  int WaitForSwaps(int wait_ms);
  void RetryParks();
  void PutSwap(const std::vector<const Worker*>& members, nlohmann::json* told) const;
  void PutSwapTotals(nlohmann::json* status) const;

  // What the driver takes beside allocations: supervisor_overhead.cc.
  std::unique_ptr<OverheadDesk> MakeOverheadDesk();
  uint64_t BytesOnDevice(int control, int device) const;
  quota::Charge ChargeOverhead(int control, int device, uint64_t bytes);
  bool AskProcessMemory(uint64_t id);
  void HearProcessMemory(const control::FromProcessMemory& message);
  // Of all sessions of the vGPU: as it is, or what its quota has of it.
  uint64_t OverheadOf(const std::string& vgpu, int device, bool charged) const;

  // What workers say: supervisor_hears.cc.
  // One message, answered; what came with it and was not taken is closed.
  Status TakeMessage(Worker& worker);
  // At most so many messages; whatever is left is heard after the others' turns.
  void HearWorker(Worker& worker);
  void Mute(Worker& worker);
  bool Unmute();  // true: some still are
  // `descriptor`: what came with it; -1 where it was taken.
  void AnswerWorker(Worker& worker, const control::FromWorker& message, int* descriptor);
  // What no desk hears. Devices are the server's, and there.
  void Hear(Worker& worker, const control::Ended& message);
  void Hear(Worker& worker, const control::Skipped& message);
  void Hear(Worker& worker, const control::Peak& message);
  void Hear(Worker& worker, const control::Charge& message);
  void Hear(Worker& worker, const control::Refund& message);
  void Hear(Worker& worker, const control::AskUsage& question);
  void Hear(Worker& worker, const control::Unspent& message);
  void Hear(Worker& worker, const control::AskProcesses& question);
  void Hear(Worker& worker, const control::Share& message, int* descriptor);
  void Hear(Worker& worker, const control::Redeem& message);
  void Hear(Worker& worker, const control::Drop& message);
  void Hear(Worker& worker, const control::KeepImage& message, int* descriptor);
  void Hear(Worker& worker, const control::ImageRead& message);
  // Asks the other sessions of the worker's vGPU for unspent credit; false if there are none.
  bool Recall(const Worker& worker, const control::Charge& charge);
  bool AnswerCharge(Worker& worker, const control::Charge& charge, bool is_last_try);
  struct WaitingCharge;
  // Asks once more for what the asker was told is free, and waits as long again.
  bool RecallsAgain(const Worker& worker, WaitingCharge* waiting);
  void RetryCharges();
  uint64_t UnspentByOthers(const Worker& worker, int device) const;
  static uint64_t UnspentOf(const Worker& worker, int device);
  uint64_t LeftToTenant(const Worker& worker, int device) const;
  quota::Usage UsageOf(const Worker& worker, int device) const;
  void DropHolder(const ShareToken& token, int control, bool all);
  void ShutOut(Worker& worker, const std::string& why);
  // A process of a worker, or of its client, is gone.
  void HearEndOf(int process, int control);
  void ForgetClient(Worker& worker);
  void EndWorker(int control);
  void Bury(int control);
  // The control plane (supervisor_status.cc).
  void Hear(const control::AskStatus& question);
  void Hear(const control::SetQuota& question);
  void Hear(const control::Park& question);
  nlohmann::json StatusJson() const;
  nlohmann::json VgpuJson(const std::string& vgpu, const std::vector<const Worker*>& members,
                          const std::vector<quota::VgpuStatus>& compute) const;
  // Done, refused, or left for later: until what others hold unspent is back.
  enum class Attempt { kFirst, kAgain, kLast };
  struct QuotaTask {
    std::string vgpu, name;    // the latter for people
    std::vector<int> devices;  // whose memory changes
    bool is_claims = false;    // the pool's ledger has admitted it already
    QuotaChange change;
    std::function<void(ChangeOutcome, const std::string& why)> done;
  };
  QuotaTask TaskOf(const control::SetQuota& question);
  void Begin(QuotaTask task);
  bool ChangeQuota(const QuotaTask& task, Attempt attempt);
  // True: the memory fits; else `*is_over` says whether that was the last word.
  bool FitsMemory(const QuotaTask& task, Attempt attempt, bool* is_over);
  // A running claim's, by the pool's word.
  void ChangeClaim(const quota::ClaimGrant& from, const quota::ClaimGrant& to);
  void NoteChange(std::string_view id, const QuotaChange& change);
  void RetryChanges();
  std::string VgpuById(std::string_view id) const;
  nlohmann::json AuditFields(const Worker& worker) const;
  // Asks sessions of the vGPU for unspent credit; false if none could be asked.
  bool RecallFrom(const std::string& vgpu, int device, const Worker* but_not);
  uint64_t CeilingOf(int device) const;

  void HearSignal(int signal);

  const ServeOptions options_;
  const ProbedDevices devices_;
  const std::string image_base_;
  const std::vector<std::string> readable_;  // by workers
  mutable LibraryInventory libraries_;
  int epoll_ = -1;
  int signals_ = -1;
  WorkerOutput output_;
  FairMutex mutex_;               // all below
  SharedFolders shared_folders_;  // outlives what removes them, as the next does
  WorkerCgroups cgroups_;
  Closer closer_;
  ImageWriter images_;
  quota::MemoryLedger ledger_;
  LeaseDesk leases_;
  NetDesk net_;
  std::unique_ptr<SwapDesk> swap_;          // null: memory stays where it is
  std::vector<control::Park> parks_;        // asked for, under way
  HelperProcess process_memory_;            // asks NVML
  bool no_process_memory_ = false;          // it cannot be started
  std::unique_ptr<OverheadDesk> overhead_;  // null: a device without any
  WorkerUsers users_;
  bool engaged_ = false;  // workers take leases
  Workers workers_;
  // A pidfd of a worker's process, or of its client's -> the worker's control descriptor.
  std::map<int, int> processes_;
  // For credit on its way back from sessions.
  static constexpr std::chrono::milliseconds kRecallPatience{500};
  struct WaitingCharge {
    int control = -1;
    control::Charge charge;
    Clock::time_point until;
    int recalls = 1;
  };
  static constexpr int kMaxRecalls = 4;
  std::vector<WaitingCharge> waiting_charges_;  // for what other sessions give back
  struct WaitingChange {
    QuotaTask task;
    Clock::time_point until;
  };
  std::vector<WaitingChange> waiting_changes_;  // for the same
  // What sessions share inside their vGPU. It is charged to nobody's session, so that it outlives
  // its maker as long as another holds it.
  struct SharedObject {
    std::string vgpu;
    int device = 0;
    int descriptor = -1;
    uint64_t bytes = 0;
    quota::Charge charge;
    std::map<int, uint32_t> holders;  // control descriptor -> how often
  };
  std::map<ShareToken, SharedObject> shared_;
  std::map<std::string, size_t> shared_by_;  // how many of them are a vGPU's
  uint64_t sessions_started_ = 0;
  RunTotals totals_;
  bool draining_ = false;
  bool stopping_ = false;
  const Clock::time_point since_ = Clock::now();
  ControlDesk desk_;
  PoolDesk pool_;
  Audit audit_;
  NoteLimit refusals_;
  EndedSessions ended_;
  std::unique_ptr<MpsDesk> mps_;  // last: its thread uses the above
};

}  // namespace farcall::server
