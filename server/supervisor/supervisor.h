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
#include "server/supervisor/audit.h"
#include "server/supervisor/fair_mutex.h"
#include "server/supervisor/images/image_writer.h"
#include "server/supervisor/images/tenant_folders.h"
#include "server/supervisor/options/serve_options.h"
#include "server/supervisor/processes/closer.h"
#include "server/supervisor/processes/note_limit.h"
#include "server/supervisor/processes/worker_inbox.h"
#include "server/supervisor/run_totals.h"
#include "server/supervisor/services/control_service.h"
#include "server/supervisor/services/pool_member.h"
#include "server/supervisor/services/tls_port.h"
#include "server/supervisor/sessions/admission_policy.h"
#include "server/supervisor/sessions/driver_memory.h"
#include "server/supervisor/sessions/ended_sessions.h"
#include "server/supervisor/sessions/mps_groups.h"
#include "server/supervisor/sessions/session_placement.h"
#include "server/supervisor/sessions/session_setup.h"
#include "server/supervisor/sessions/session_table.h"
#include "server/supervisor/sessions/status_report.h"
#include "server/supervisor/sessions/worker_starter.h"
#include "server/supervisor/sharing/memory_charges.h"
#include "server/supervisor/sharing/memory_swapping.h"
#include "server/supervisor/sharing/net_scheduler.h"
#include "server/supervisor/sharing/quota_changes.h"
#include "server/supervisor/sharing/shared_objects.h"
#include "server/supervisor/sharing/time_sharing.h"
#include "server/worker/worker_process.h"

namespace farcall::server {

// `farcall serve`, from checked options to its end; the process's exit code
// (docs/reference/exit-codes.md).
int Serve(const ServeOptions& options);
// What a supervisor reads from a descriptor: blocked in all its threads.
sigset_t HandledSignals();

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
  void OfferSharedMemoryAt(const std::string& path) { setup_.OfferSharedMemoryAt(path); }
  // Errors  kUnavailable
  Status OpenCgroups() { return places_.cgroups.is_wanted() ? places_.cgroups.Open() : Status(); }
  Status OpenAudit() { return audit_.Open(options_.audit); }
  // Joins the pool that the options name, as a server on `urls`.   Errors  kUnavailable
  Status OpenPool(const std::vector<std::string>& urls) { return pool_.Open(urls); }
  // What was served; after Run.
  const RunTotals& totals() const { return totals_; }
  // Serves until drained or stopped.   Thread  the process's first; its signals are blocked
  // everywhere
  int Run(HandshakeServer& listener);

 private:
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
  // `grant`: of the pool's claim it is for, nullptr without a pool.
  std::unique_ptr<WorkerSession> NewSession(const Client& client, const quota::ClaimGrant* grant);
  void OpenLedger(const WorkerSession& worker, const Hello& hello, const quota::ClaimGrant* grant);
  void CloseLedger(const WorkerSession& worker);
  // For a connection by the socket of shm://, unless its session is charged already.
  //   Errors  kQuotaExceeded
  Status ChargeRings(const Channel& channel, WorkerSession* worker);
  Status StartProcess(WorkerSession& worker, Channel& channel, const Client& client,
                      const quota::ClaimGrant* grant, const SessionFolders& folders);
  Status StartSession(Channel& channel, const Client& client, const quota::ClaimGrant* grant,
                      const SessionFolders& folders);
  // Whose images and compiled kernels a session's are. Across claims none are shared, nor told of.
  static std::string TenantOf(const std::string& tenant, const quota::ClaimGrant* grant);
  // `counted`: whose sessions are counted together; empty: a claim's, which the pool counts.
  Status CheckRoom(const std::string& counted) const;
  // Told why, and gone soon whatever it does.
  void EndSession(WorkerSession& worker, const std::string& why);
  void EndClaim(const std::string& claim, const std::string& why);
  bool KillLate();  // true: some are still to be
  // A worker that does not read its messages is not to be trusted any more.
  void KillOnFailedSend(int control, const Status& sent);
  // `message`: of the supervisor's to a worker, or a variant of such. Devices are the server's:
  // they are translated here and in TakeMessage, and nowhere else.
  template <typename M>
  Status Tell(int control, M message, int descriptor = -1) {
    control::MapDevice(&message,
                       [&](int device) { return sessions_.SessionDevice(control, device); });
    Status sent = descriptor < 0 ? control::Send(control, message)
                                 : control::Send(control, message, {descriptor});
    KillOnFailedSend(control, sent);
    return sent;
  }
  void EndMpsGroup(const std::string& group, const std::string& why);
  void Kill(WorkerSession& worker);

  // Lets the parts that share by time go on.   Returns  when the loop has to wake again, in ms
  int TickShares(int wait_ms);

  // What the parts of it are told, and tell: supervisor_hooks.cc.
  MemoryCharges::Hooks HooksOfCharges();
  TimeSharing::Hooks HooksOfTime();
  SwapScheduler::Ledger LedgerOfSwapping();
  MemorySwapping::Hooks HooksOfSwapping();
  QuotaChanges::Hooks HooksOfChanges();
  DriverMemory::Hooks HooksOfDriverMemory();
  void NoteMove(const WorkerSession& worker, bool out, uint64_t bytes, quota::Ns took);

  // What workers say: supervisor_messages.cc.
  // One message, answered; what came with it and was not taken is closed.
  Status TakeMessage(WorkerSession& worker);
  // At most so many messages; whatever is left is heard after the others' turns.
  void ReadWorker(WorkerSession& worker);
  void Mute(WorkerSession& worker);
  bool Unmute();  // true: some still are
  // `descriptor`: what came with it; -1 where it was taken.
  void AnswerWorker(WorkerSession& worker, const control::FromWorker& message, int* descriptor);
  // Messages that no part of it takes. Devices are the server's, and there.
  void OnMessage(WorkerSession& worker, const control::Ended& message);
  void OnMessage(WorkerSession& worker, const control::Skipped& message);
  void OnMessage(WorkerSession& worker, const control::Peak& message);
  void OnMessage(WorkerSession& worker, const control::AskProcesses& question);
  void OnMessage(WorkerSession& worker, const control::Share& message, int* descriptor);
  void OnMessage(WorkerSession& worker, const control::Redeem& message);
  void OnMessage(WorkerSession& worker, const control::Drop& message);
  void OnMessage(WorkerSession& worker, const control::KeepImage& message, int* descriptor);
  void OnMessage(WorkerSession& worker, const control::ImageRead& message);
  void ShutOut(WorkerSession& worker, const std::string& why);
  // A process of a worker, or of its client, is gone.
  void OnProcessEnd(int process, int control);
  void ForgetClient(WorkerSession& worker);
  void EndWorker(int control);
  void Reap(int control);
  // The control plane (supervisor_control.cc).
  void OnMessage(const control::AskStatus& question);
  void OnMessage(const control::SetQuota& question);
  void OnMessage(const control::Park& question);
  nlohmann::json StatusJson() const;
  QuotaChanges::Task TaskOf(const control::SetQuota& question);
  void Begin(QuotaChanges::Task task) { changes_.Begin(std::move(task), SteadyNow()); }
  // A running claim's, by the pool's word.
  void ChangeClaim(const quota::ClaimGrant& from, const quota::ClaimGrant& to);
  void ParkClaim(const quota::ClaimLedger::Parking& parking);
  void NoteChange(std::string_view id, const QuotaChange& change);

  void OnSignal(int signal);
  // Tells every session that it is over, and why.
  void StopSessions(const char* why);

  const ServeOptions options_;
  const AdmissionPolicy policy_{options_};
  const ProbedDevices devices_;
  const std::string image_base_;
  int epoll_ = -1;
  int signals_ = -1;
  SessionSetup setup_{options_, devices_, policy_};
  FairMutex mutex_;                // all below
  WorkerPlaces places_{options_};  // outlives what removes them
  MemoryCharges charges_;
  SessionTable sessions_;
  const SessionPlacement placement_{options_, devices_, sessions_};
  Closer closer_;
  ImageWriter images_;
  TimeSharing time_;
  NetScheduler net_;
  QuotaChanges changes_;
  MemorySwapping swap_;
  DriverMemory driver_memory_;
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
  const StatusReport report_;
  WorkerStarter starter_;
  MpsGroups mps_;  // last: its thread uses the above
};

}  // namespace farcall::server
