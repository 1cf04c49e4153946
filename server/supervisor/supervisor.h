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

#include "listener/handshake_server.h"
#include "server/control/control_socket.h"
#include "server/control/messages.h"
#include "server/device/steady_now.h"
#include "server/library/library_inventory.h"
#include "server/supervisor/admission_policy.h"
#include "server/supervisor/audit.h"
#include "server/supervisor/ended_sessions.h"
#include "server/supervisor/fair_mutex.h"
#include "server/supervisor/images/image_writer.h"
#include "server/supervisor/images/tenant_folders.h"
#include "server/supervisor/options/serve_options.h"
#include "server/supervisor/processes/closer.h"
#include "server/supervisor/processes/event_rate.h"
#include "server/supervisor/processes/note_limit.h"
#include "server/supervisor/processes/warm_workers.h"
#include "server/supervisor/processes/worker_inbox.h"
#include "server/supervisor/processes/worker_output.h"
#include "server/supervisor/run_totals.h"
#include "server/supervisor/services/control_service.h"
#include "server/supervisor/services/mps_service.h"
#include "server/supervisor/services/pool_member.h"
#include "server/supervisor/services/tls_port.h"
#include "server/supervisor/sharing/memory_charges.h"
#include "server/supervisor/sharing/memory_swapping.h"
#include "server/supervisor/sharing/net_scheduler.h"
#include "server/supervisor/sharing/overhead_meter.h"
#include "server/supervisor/sharing/quota_changes.h"
#include "server/supervisor/sharing/shared_objects.h"
#include "server/supervisor/sharing/time_sharing.h"
#include "server/worker/sandbox/shared_folders.h"
#include "server/worker/sandbox/worker_cgroups.h"
#include "server/worker/sandbox/worker_users.h"
#include "server/worker/worker_process.h"

namespace farcall::server {

class Undo;
struct WorkerSetup;

// `farcall serve`, from checked options to its end; the process's exit code
// (docs/reference/exit-codes.md).
int Serve(const ServeOptions& options);
// What a supervisor reads from a descriptor: blocked in all its threads.
sigset_t HandledSignals();

// The vGPU of a pool's claim is named this and the claim's id.
inline constexpr std::string_view kClaimPrefix = "claim ";

class Supervisor {
 public:
  Supervisor(const ServeOptions& options, ProbedDevices devices);
  ~Supervisor();

  // Judges a HELLO; `is_tls`: it came by TLS.   Thread  any handshake thread
  void Admit(std::unique_ptr<Channel> channel, const ReceivedHello& heard, bool is_tls);
  // Opens the control socket for a server that listens on `url`. One that cannot be opened is said
  // in the log: the server serves without it, unless --metrics is wanted.
  //   Errors  kUnavailable, kInvalid
  Status OpenControl(const std::string& url);
  // Mode mps: finds NVIDIA's control daemon, and starts it where all sessions are one group.
  //   Errors  kUnavailable
  Status OpenMps();
  // Takes a port over, which speaks TLS from then on: its channels, after their TLS handshake.
  //   Before  Run   Errors  kUnavailable; kInvalid (a file)
  Result<std::unique_ptr<Listener>> OpenTls(std::unique_ptr<Listener> tcp);
  // The socket of shm://, of which clients are told who come over tcp://. Before handshakes start.
  void OfferSharedMemoryAt(const std::string& path) { shm_path_ = path; }
  // Errors  kUnavailable
  Status OpenCgroups() { return cgroups_.is_wanted() ? cgroups_.Open() : Status(); }
  Status OpenAudit() { return audit_.Open(options_.audit); }
  // Joins the pool that the options name, as a server on `urls`.   Errors  kUnavailable
  Status OpenPool(std::vector<std::string> urls) { return pool_.Open(std::move(urls)); }
  // What was served; after Run.
  const RunTotals& totals() const { return totals_; }
  // Serves until drained or stopped.   Thread  the process's first; its signals are blocked
  // everywhere
  int Run(HandshakeServer& listener);

 private:
  struct Worker {
    WorkerProcess process;
    SessionId session{};
    SessionKey key;                // it has to be shown to come back, and never leaves this process
    std::string tenant;            // whose its images are: no secret
    std::string vgpu, who, ended;  // `ended`: the cause the worker told
    Arrival arrival;               // and so come its lanes, and whoever comes back for it
    bool is_warm = false;          // its process was started before it
    uint64_t number = 0;
    std::string client_user, client_host, program;  // printable
    std::string raw_client_host;                    // client_host as it came, to be compared
    uint32_t client_pid = 0;
    int client_fd = -1;  // a pidfd of the client's process; -1: it is gone, or on another host
    std::optional<uid_t> user;   // its own; none: the server's
    std::vector<int> devices;    // the session's, by the server's numbers
    std::string claim;           // of a pool; empty: of none
    std::string counted;         // with these of --max-tenant-sessions; empty: a claim's
    std::string mps_group;       // empty: it is no MPS client
    bool is_terminated = false;  // by MPS, before it is killed
    Clock::time_point kill_at = Clock::time_point::max();
    Clock::time_point since;
    bool has_ended = false;    // it has said so: it says nothing more
    bool is_shut_out = false;  // nothing of it is read any more
    EventRate rate{kMessagesPerSecond, kMessagesAtOnce, Clock::now()};
    Clock::time_point muted_until{};  // it sent too much; nothing is read meanwhile
    uint64_t output = 0;              // its pipe in output_
    quota::Charge rings;              // of shared memory, in its vGPU's quota of host memory
  };
  using Workers = std::map<int, std::unique_ptr<Worker>>;  // by control descriptor

  // A client that has proved who it is, as far as this server asks for it.
  struct Client {
    const Hello& hello;
    const ExchangeKeys keys;
    const std::string tenant;
    const Arrival arrival;
  };
  void AdmitNew(std::unique_ptr<Channel> channel, const Client& client);
  void AdmitAgain(std::unique_ptr<Channel> channel, const ReceivedHello& heard,
                  const Arrival& arrival);
  // Says what is here: starts no worker, claims nothing, is no session.
  void AnswerQuery(std::unique_ptr<Channel> channel, const Client& client);
  Status WhyOver(const ReceivedHello& heard);
  // Says no to a client, and writes it down unless too many were refused just now.
  void Refuse(Channel& channel, const Status& why);
  uint64_t BytesOf(int device) const;
  // `grant`: of the pool's claim it is for, nullptr without a pool.
  std::unique_ptr<Worker> NewWorker(const Client& client, const quota::ClaimGrant* grant);
  void OpenLedger(const Worker& worker, const Hello& hello, const quota::ClaimGrant* grant);
  void CloseLedger(const Worker& worker);
  // For a connection by the socket of shm://, unless its session is charged already.
  //   Errors  kQuotaExceeded
  Status ChargeRings(const Channel& channel, Worker* worker);
  // What a session's worker is handed; opened before anybody waits for it.
  struct Folders {
    OwnedDescriptor images, kernels;
    std::vector<std::pair<dev_t, ino_t>> all;  // MakeAllCaches
  };
  Folders FoldersOf(const std::string& tenant) const;
  WorkerSetup SetupOf(const Worker& worker, const Client& client, const Folders& folders) const;
  Status StartProcess(Worker& worker, Channel& channel, const Client& client,
                      const quota::ClaimGrant* grant, const Folders& folders);
  // Its process: supervisor_warm.cc.
  uint32_t WantedWarm() const;
  std::string WarmGpus() const;
  WarmWorkers::Hooks HooksOfWarm();
  Result<WarmWorker> StartWarm(bool initialises);
  void EndWarm(WarmWorker warm);
  std::optional<WarmWorker> TakeWarm(const Worker& worker, const Hello& hello,
                                     const Folders& folders);
  void AdoptWarm(const WarmWorker& warm, Worker* worker, Undo* undo);
  Status StartCold(Worker* worker, std::vector<std::string> environment, Undo* undo);
  Status StartSession(Channel& channel, const Client& client, const quota::ClaimGrant* grant,
                      const Folders& folders);
  // Whose images and compiled kernels a session's are. Across claims none are shared, nor told of.
  static std::string TenantOf(const std::string& tenant, const quota::ClaimGrant* grant);
  // `counted`: whose sessions are counted together; empty: a claim's, which the pool counts.
  void OfferSharedMemory(const Hello& hello, Welcome* welcome) const;
  void OfferFabric(const Hello& hello, Welcome* welcome) const;
  bool WantsFabric(const Hello& hello) const;
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

  // Lets the parts that share by time go on.   Returns  when the loop has to wake again, in ms
  int TickShares(int wait_ms);

  // What the parts of it are told, and tell: supervisor_hooks.cc.
  MemoryCharges::Hooks HooksOfCharges();
  TimeSharing::Hooks HooksOfTime();
  SwapScheduler::Ledger LedgerOfSwapping();
  MemorySwapping::Hooks HooksOfSwapping();
  QuotaChanges::Hooks HooksOfChanges();
  void NoteMove(const Worker& worker, bool out, uint64_t bytes, quota::Ns took);

  // What the driver takes beside allocations: supervisor_overhead.cc.
  std::unique_ptr<OverheadMeter> MakeOverheadMeter();
  uint64_t BytesOnDevice(int control, int device) const;
  bool AskProcessMemory(uint64_t id);
  void OnProcessMemory(const control::FromProcessMemory& message);
  // Of all sessions of the vGPU: as it is, or what its quota has of it.
  uint64_t OverheadOf(const std::string& vgpu, int device, bool charged) const;

  // What workers say: supervisor_messages.cc.
  // One message, answered; what came with it and was not taken is closed.
  Status TakeMessage(Worker& worker);
  // At most so many messages; whatever is left is heard after the others' turns.
  void ReadWorker(Worker& worker);
  void Mute(Worker& worker);
  bool Unmute();  // true: some still are
  // `descriptor`: what came with it; -1 where it was taken.
  void AnswerWorker(Worker& worker, const control::FromWorker& message, int* descriptor);
  // Messages that no part of it takes. Devices are the server's, and there.
  void OnMessage(Worker& worker, const control::Ended& message);
  void OnMessage(Worker& worker, const control::Skipped& message);
  void OnMessage(Worker& worker, const control::Peak& message);
  void OnMessage(Worker& worker, const control::AskProcesses& question);
  void OnMessage(Worker& worker, const control::Share& message, int* descriptor);
  void OnMessage(Worker& worker, const control::Redeem& message);
  void OnMessage(Worker& worker, const control::Drop& message);
  void OnMessage(Worker& worker, const control::KeepImage& message, int* descriptor);
  void OnMessage(Worker& worker, const control::ImageRead& message);
  void ShutOut(Worker& worker, const std::string& why);
  // A process of a worker, or of its client, is gone.
  void OnProcessEnd(int process, int control);
  void ForgetClient(Worker& worker);
  void EndWorker(int control);
  void Reap(int control);
  // The control plane (supervisor_status.cc).
  void OnMessage(const control::AskStatus& question);
  void OnMessage(const control::SetQuota& question);
  void OnMessage(const control::Park& question);
  nlohmann::json StatusJson() const;
  nlohmann::json VgpuJson(const std::string& vgpu, const std::vector<const Worker*>& members,
                          const std::vector<quota::VgpuStatus>& compute) const;
  QuotaChanges::Task TaskOf(const control::SetQuota& question);
  void Begin(QuotaChanges::Task task) { changes_.Begin(std::move(task), SteadyNow()); }
  // A running claim's, by the pool's word.
  void ChangeClaim(const quota::ClaimGrant& from, const quota::ClaimGrant& to);
  void ParkClaim(const quota::ClaimLedger::Parking& parking);
  void NoteChange(std::string_view id, const QuotaChange& change);
  std::string VgpuById(std::string_view id) const;
  nlohmann::json AuditFields(const Worker& worker) const;
  static std::string OwnerOf(const Worker& worker);

  void OnSignal(int signal);
  // Tells every session that it is over, and why.
  void StopSessions(const char* why);

  const ServeOptions options_;
  const AdmissionPolicy policy_{options_};
  const ProbedDevices devices_;
  std::string shm_path_;  // empty: none
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
  MemoryCharges charges_;
  TimeSharing time_;
  NetScheduler net_;
  QuotaChanges changes_;
  MemorySwapping swap_;
  HelperProcess process_memory_;             // asks NVML
  bool no_process_memory_ = false;           // it cannot be started
  std::unique_ptr<OverheadMeter> overhead_;  // null: a device without any
  WorkerUsers users_;
  Workers workers_;
  // A pidfd of a worker's process, or of its client's -> the worker's control descriptor.
  std::map<int, int> processes_;
  SharedObjects shared_;
  uint64_t sessions_started_ = 0;
  RunTotals totals_;
  bool draining_ = false;
  bool stopping_ = false;
  Clock::time_point drain_until_ = Clock::time_point::max();
  const Clock::time_point since_ = Clock::now();
  ControlService control_service_;
  PoolMember pool_;
  std::vector<std::unique_ptr<TlsPort>> tls_;
  Audit audit_;
  NoteLimit refusals_;
  EndedSessions ended_;
  const std::vector<std::pair<dev_t, ino_t>> warm_caches_;  // those that warm workers reach
  uint64_t warm_started_ = 0;
  WarmWorkers warm_;
  std::unique_ptr<MpsService> mps_;  // last: its thread uses the above
};

}  // namespace farcall::server
