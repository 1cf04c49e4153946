// SPDX-License-Identifier: Apache-2.0
// Who may in: proofs, capacity, quotas; and the start of a session.
#include <spdlog/spdlog.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "proto/hex.h"
#include "proto/printable.h"
#include "server/control/memory_file.h"
#include "server/supervisor/host_name.h"
#include "server/supervisor/supervisor.h"
#include "server/supervisor/version.h"
#include "server/worker/uuid_text.h"
#include "server/worker/worker_setup.h"
#include "transport/handshake.h"

namespace farcall::server {

namespace {

constexpr uint32_t kHeartbeatMilliseconds = 1000;

// At once: of its HELLO nothing is unread, so that the end of the connection follows the refusal.
void Turn(Channel& channel, Code code, const std::string& why) {
  (void)SendRefuse(channel, {code, why}, Clock::now());
}

// Of a long path the end, with the program's name.
std::string ProgramText(std::string_view path) {
  constexpr size_t kMost = 192;
  return Printable(path.substr(path.size() - std::min(path.size(), kMost)), kMost);
}

// A descriptor that becomes readable when the client's process ends; -1 if it does not run on this
// host.
int WatchClient(const Hello& hello, const std::string& peer) {
  bool is_loopback =
      peer.find("127.") != std::string::npos || peer.find("::1") != std::string::npos;
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  if (!is_loopback || hello.pid == 0 || hello.host != host.data()) {
    return -1;
  }
  return static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(hello.pid), 0));
}

// Whose the sessions of a server without tokens are.
constexpr char kOpenTenant[] = "open";

// The vGPU of a run's processes. Its token lets a process join it, so that only a hash of it is
// kept; one tenant's joins nothing of another's.
std::string RunName(const std::string& tenant, const std::string& token) {
  const Hash256 hash =
      Sha256({BytesOf(tenant), BytesOf(std::string_view("\0", 1)), BytesOf(token)});
  return "run " + HexOf(std::span(hash).first(16));
}

// Whose images and compiled kernels a session's are. Across claims none are shared, nor told of.
std::string TenantOf(const std::string& tenant, const quota::ClaimGrant* grant) {
  return grant == nullptr ? tenant : std::string(kClaimPrefix) + grant->claim;
}

// As what a session counts against --max-tenant-sessions. All clients of a server with one token,
// or none, hold the same: they are told apart by where they come from.
std::string CountedAs(const std::string& tenant, size_t tokens, const Channel& channel) {
  const std::string peer = channel.PeerName();
  return tokens > 1 ? tenant : peer.substr(0, peer.rfind(':'));
}

// What is to be done, last first, unless all goes well.
class Undo {
 public:
  Undo() = default;
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  ~Undo() {
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      if (step->always || !forgotten_) {
        step->run();
      }
    }
  }
  void Add(std::function<void()> run) { steps_.push_back({std::move(run), false}); }
  void Always(std::function<void()> run) { steps_.push_back({std::move(run), true}); }
  void Forget() { forgotten_ = true; }

 private:
  struct Step {
    std::function<void()> run;
    bool always;
  };
  std::vector<Step> steps_;
  bool forgotten_ = false;
};

}  // namespace

void Supervisor::Refuse(Channel& channel, const Status& why) {
  if (std::optional<uint64_t> others = refusals_.Take(Clock::now())) {
    const std::string more =
        *others == 0 ? ""
                     : "; since the last line " + std::to_string(*others) + " others were, too";
    spdlog::warn("{}: refused: {}{}", channel.PeerName(), why.message(), more);
    nlohmann::json fields = {{"from", channel.PeerName()}, {"why", why.message()}};
    if (*others != 0) {
      fields["others"] = *others;
    }
    audit_.Note("session_refused", std::move(fields));
  }
  Turn(channel, why.code(), why.message());
}

void Supervisor::Admit(std::unique_ptr<Channel> channel, const HeardHello& heard) {
  const Hello& hello = heard.hello();
  if ((hello.transports & kBuiltTransports) == 0) {
    return Turn(*channel, Code::kUnsupported,
                "client and server have no transport in common: install the same release on both "
                "sides");
  }
  if (hello.role != LinkRole::kLog || hello.session != SessionId{}) {
    return AdmitAgain(std::move(channel), heard);
  }
  // A pool's lease stands in the place of the token.
  if (pool_.is_in_pool() || options_.tokens.empty()) {
    return AdmitNew(std::move(channel), {hello, heard.AcceptAnyone(), kOpenTenant});
  }
  std::optional<HeardHello::Accepted> accepted = heard.AcceptToken(options_.tokens);
  if (!accepted) {
    return Refuse(*channel,
                  {Code::kRefused,
                   "the token is wrong: set FARCALL_TOKEN or FARCALL_TOKEN_FILE to the server's"});
  }
  AdmitNew(std::move(channel), {hello, accepted->keys, accepted->token->Tenant()});
}

void Supervisor::AdmitNew(std::unique_ptr<Channel> channel, const Client& client) {
  Status started;
  std::optional<quota::ClaimGrant> grant;
  const std::string counted =
      pool_.is_in_pool() ? "" : CountedAs(client.tenant, options_.tokens.size(), *channel);
  {
    std::lock_guard lock(mutex_);
    started = CheckRoom(counted);
    if (started.ok() && pool_.is_in_pool()) {
      Result<quota::ClaimGrant> granted = pool_.Admit(client.hello.lease);
      started = granted.status();
      if (granted.ok()) {
        grant = std::move(*granted);
      }
    }
  }
  const quota::ClaimGrant* claim = grant ? &*grant : nullptr;
  // The disk is asked, and a daemon may have to be started: nobody else waits meanwhile.
  Folders folders = started.ok() ? FoldersOf(TenantOf(client.tenant, claim)) : Folders();
  std::string group = started.ok() ? MpsGroupOf(claim) : "";
  if (!group.empty()) {
    started = EnsureMps(group, claim);
  }
  {
    std::lock_guard lock(mutex_);
    if (started.ok()) {
      started = CheckRoom(counted);
    }
    if (started.ok()) {
      started = StartSession(*channel, client, claim, folders);
    }
    if (!started.ok() && grant) {
      pool_.Leave(grant->claim);
    }
  }
  if (!started.ok()) {
    return Refuse(*channel, started);
  }
  channel->Abandon();  // the worker has it now
}

Status Supervisor::CheckRoom(const std::string& counted) const {
  if (draining_) {
    return {Code::kUnavailable,
            "the server is draining and takes no new sessions; connect to another server, or wait "
            "until "
            "this one has been started again"};
  }
  if (workers_.size() >= options_.max_sessions) {
    return {Code::kUnavailable, "the server is full: " + std::to_string(workers_.size()) +
                                    " sessions of " + std::to_string(options_.max_sessions)};
  }
  const auto held =
      static_cast<size_t>(std::count_if(workers_.begin(), workers_.end(), [&](const auto& entry) {
        return entry.second->counted == counted;
      }));
  if (!counted.empty() && held >= options_.max_tenant_sessions) {
    return {Code::kUnavailable, counted + " has " + std::to_string(held) + " sessions of " +
                                    std::to_string(options_.max_tenant_sessions) +
                                    " here; --max-tenant-sessions allows more"};
  }
  if (swap_ != nullptr && !swap_->takes_more()) {
    return {Code::kUnavailable,
            "the server swaps memory most of its time: it takes no new sessions until less of it "
            "is wanted"};
  }
  return {};
}

uint64_t Supervisor::CeilingOf(int device) const {
  uint64_t total = devices_.report.devices[static_cast<size_t>(device)].total_bytes;
  return options_.memory_bytes == 0 ? total : std::min(total, options_.memory_bytes);
}

uint64_t Supervisor::QuotaFor(const Hello& hello, int device) const {
  uint64_t ceiling = CeilingOf(device);
  return hello.quota.memory_bytes == 0 ? ceiling : std::min(ceiling, hello.quota.memory_bytes);
}

// What CUDA_VISIBLE_DEVICES says to its worker: of the server's own list, those of the session.
std::string Supervisor::GpusOf(const Worker& worker) const {
  bool is_mps = !worker.mps_group.empty();
  if (is_mps || !devices_.visible.empty()) {
    std::string names;
    for (int device : worker.devices) {
      auto index = static_cast<size_t>(device);
      // A daemon's clients count its devices: only their UUIDs mean the same to both.
      names += (names.empty() ? "" : ",") +
               (is_mps ? UuidText(devices_.report.devices[index].uuid) : devices_.visible[index]);
    }
    return names;
  }
  if (worker.claim.empty()) {
    return options_.gpus;
  }
  std::vector<std::string> listed;
  for (size_t at = 0; at <= options_.gpus.size() && !options_.gpus.empty();) {
    size_t comma = std::min(options_.gpus.find(',', at), options_.gpus.size());
    listed.push_back(options_.gpus.substr(at, comma - at));
    at = comma + 1;
  }
  std::string gpus;
  for (int device : worker.devices) {
    auto index = static_cast<size_t>(device);
    gpus += (gpus.empty() ? "" : ",") +
            (index < listed.size() ? listed[index] : std::to_string(device));
  }
  return gpus;
}

// Whose session it is, as which vGPU, and on which devices.
std::unique_ptr<Supervisor::Worker> Supervisor::NewWorker(const Client& client,
                                                          const quota::ClaimGrant* grant) {
  const Hello& hello = client.hello;
  auto worker = std::make_unique<Worker>();
  RandomBytes(worker->session);
  worker->key = client.keys.session;
  worker->tenant = TenantOf(client.tenant, grant);
  worker->number = ++sessions_started_;
  std::string number = std::to_string(worker->number);
  worker->vgpu = hello.vgpu.empty() ? "session " + number : RunName(client.tenant, hello.vgpu);
  if (grant != nullptr) {
    worker->claim = grant->claim;
    worker->vgpu = std::string(kClaimPrefix) + grant->claim;
    worker->devices.assign(grant->devices.begin(), grant->devices.end());
  } else if (options_.modes.Any(DeviceMode::kMig)) {
    worker->devices.push_back(PickInstance(worker->vgpu));
  } else {
    for (size_t i = 0; i < devices_.report.devices.size(); ++i) {
      worker->devices.push_back(static_cast<int>(i));
    }
  }
  worker->mps_group = MpsGroupOf(grant);
  worker->client_user = Printable(hello.user);
  worker->client_host = Printable(hello.host);
  worker->told_host = hello.host;
  worker->program = ProgramText(hello.program);
  worker->who = "session " + number + " (" + worker->client_user + "@" + worker->client_host +
                " pid " + std::to_string(hello.pid) + " " + worker->program + ")";
  worker->client_pid = hello.pid;
  worker->since = Clock::now();
  return worker;
}

void Supervisor::OpenLedger(const Worker& worker, const Hello& hello,
                            const quota::ClaimGrant* grant) {
  for (int device : worker.devices) {
    ledger_.Open(worker.vgpu, device,
                 grant != nullptr ? grant->memory_bytes : QuotaFor(hello, device));
  }
  ledger_.Open(worker.vgpu, quota::kHostMemory, options_.host_memory_bytes);
}

void Supervisor::CloseLedger(const Worker& worker) {
  for (int device : worker.devices) {
    ledger_.Close(worker.vgpu, device);
  }
  ledger_.Close(worker.vgpu, quota::kHostMemory);
}

Supervisor::Folders Supervisor::FoldersOf(const std::string& tenant) const {
  return {OpenTenantImages(image_base_, tenant),
          OpenTenantKernels(image_base_, tenant, KernelVariable(devices_.choice.kind),
                            users_.separate())};
}

// After its ledger is open, of which it tells.
WorkerSetup Supervisor::SetupOf(const Worker& worker, const Client& client,
                                const Folders& folders) const {
  WorkerSetup setup;
  setup.device_path = devices_.choice.path;
  setup.device_kind = devices_.choice.kind;
  setup.log_level = options_.log_level;
  setup.has_images = folders.images.fd() >= 0;
  setup.kernel_variable = folders.kernels.fd() < 0 ? "" : KernelVariable(setup.device_kind);
  setup.readable = readable_;
  setup.swaps = swap_ != nullptr;
  setup.trust_tenants = options_.trust_tenants;
  setup.reports_worker_calls = options_.reports_worker_calls;
  setup.debuggable = options_.debuggable;
  setup.is_only_tenant = std::all_of(workers_.begin(), workers_.end(), [&](const auto& other) {
    return other.second->vgpu == worker.vgpu;
  });
  setup.answer = client.keys.answer;
  setup.hello = client.hello;
  // What opens something stays here.
  setup.hello.vgpu.clear();
  setup.hello.lease.clear();
  setup.hello.claim.clear();
  setup.hello.credentials.clear();
  Welcome& welcome = setup.welcome;
  welcome.session = worker.session;
  welcome.driver_version = devices_.report.driver_version;
  welcome.lanes = options_.lanes;
  welcome.grace_ms = options_.grace_seconds * 1000;
  welcome.heartbeat_ms = kHeartbeatMilliseconds;
  welcome.server_version = kServerVersion;
  welcome.server_host = HostName();
  welcome.device_kind = devices_.choice.kind;
  welcome.libraries = libraries_.Told();
  for (int device : worker.devices) {
    welcome.devices.push_back(devices_.report.devices[static_cast<size_t>(device)]);
    DeviceSnapshot& snapshot = welcome.devices.back();
    snapshot.total_bytes = ledger_.usage(worker.vgpu, device).quota_bytes;
    std::vector<uint8_t> peers = std::move(snapshot.peer_access);
    snapshot.peer_access.clear();
    for (int other : worker.devices) {
      auto index = static_cast<size_t>(other);
      snapshot.peer_access.push_back(index < peers.size() ? peers[index] : uint8_t{0});
    }
  }
  return setup;
}

// Its process, with a place in all that is shared out. What was taken before something failed is
// given back.
Status Supervisor::StartProcess(Worker& worker, Channel& channel, const Client& client,
                                const quota::ClaimGrant* grant, const Folders& folders) {
  const Hello& hello = client.hello;
  QuotaRequest compute = hello.quota;
  if (grant != nullptr) {
    compute = {grant->memory_bytes, grant->share_milli, grant->limit_milli, grant->priority,
               grant->net_bytes_per_s};
  }
  Undo undo;
  OpenLedger(worker, hello, grant);
  undo.Add([&] { CloseLedger(worker); });
  if (users_.separate()) {
    Result<uid_t> taken = users_.Take(worker.vgpu);
    FARCALL_TRY(taken.status());
    worker.user = *taken;
    undo.Add([&] { users_.GiveBack(worker.vgpu); });
  }
  WorkerOutput::Pipe errors;
  if (!options_.debuggable) {  // a developer's worker writes where the server does
    Result<WorkerOutput::Pipe> opened = output_.Open(worker.who);
    FARCALL_TRY(opened.status());
    errors = *opened;
    worker.output = errors.id;
    undo.Add([&] { output_.End(worker.output); });
  }
  std::vector<std::string> environment = MpsEnvironment(worker, compute, grant, hello);
  environment.push_back(std::string(kSharedFolderVariable) + "=" +
                        shared_folders_.Add(worker.vgpu, worker.user));
  undo.Add([&] { closer_.Remove(shared_folders_.Drop(worker.vgpu)); });
  Result<WorkerProcess> process =
      StartWorker({}, GpusOf(worker), worker.user, environment, errors.end);
  close(errors.end);
  FARCALL_TRY(process.status());
  worker.process = *process;
  const int control = worker.process.control;
  bool in_cgroup = false;
  undo.Add([&] {
    if (in_cgroup) {
      closer_.EndGroup(cgroups_.Drop(worker.vgpu));
    }
  });
  undo.Add([this, control] {
    leases_.Leave(control, SteadyNow());
    net_.Leave(control);
  });
  undo.Add([&] { closer_.End(std::exchange(worker.process, {})); });
  int file = MakeMemoryFile("farcall-setup", Encode(SetupOf(worker, client, folders)));
  if (file < 0) {
    return {Code::kUnavailable, "no memory for a session's setup"};
  }
  undo.Always([file] { close(file); });
  FARCALL_TRY(leases_.Join(worker.vgpu, control, compute, worker.devices, SteadyNow()));
  FARCALL_TRY(net_.Join(worker.vgpu, control, compute.net_bytes_per_s, SteadyNow()));
  in_cgroup = true;
  // Before it has done anything.
  FARCALL_TRY(cgroups_.Add(worker.vgpu, worker.process.pid, compute.share_milli));
  std::vector<int> handed = {channel.Descriptor(), file};
  for (const OwnedDescriptor* folder : {&folders.images, &folders.kernels}) {
    if (folder->fd() >= 0) {
      handed.push_back(folder->fd());
    }
  }
  FARCALL_TRY(control::SendPacket(control, control::Encoded(control::Setup{}).bytes(), handed));
  undo.Forget();
  return {};
}

Status Supervisor::StartSession(Channel& channel, const Client& client,
                                const quota::ClaimGrant* grant, const Folders& folders) {
  std::unique_ptr<Worker> worker = NewWorker(client, grant);
  worker->counted =
      grant == nullptr ? CountedAs(client.tenant, options_.tokens.size(), channel) : "";
  FARCALL_TRY(PlaceSession(*worker));
  FARCALL_TRY(StartProcess(*worker, channel, client, grant, folders));
  const int control = worker->process.control;
  spdlog::info("{}: started from {}, worker {}, quota {} bytes", worker->who, channel.PeerName(),
               worker->process.pid, ledger_.usage(worker->vgpu, worker->devices[0]).quota_bytes);
  nlohmann::json fields = AuditFields(*worker);
  fields["from"] = channel.PeerName();
  audit_.Note("session_started", std::move(fields));
  workers_[control] = std::move(worker);
  JoinSwap(*workers_[control]);
  if (overhead_ != nullptr) {
    overhead_->Join(control, workers_[control]->process.pid);
  }
  WatchDescriptor(epoll_, control);
  workers_[control]->client_fd = WatchClient(client.hello, channel.PeerName());
  for (const int process : {workers_[control]->process.pid_fd, workers_[control]->client_fd}) {
    if (process >= 0) {
      processes_[process] = control;
      WatchDescriptor(epoll_, process);
    }
  }
  net_.Begin(control);
  EngageNew(control);
  return {};
}

Supervisor::Worker* Supervisor::Find(const SessionId& session) {
  for (auto& [control, worker] : workers_) {
    if (worker->session == session) {
      return worker.get();
    }
  }
  return nullptr;
}

// What a client hears that comes back for a session that has ended. Its cause is for whoever shows
// the session's key.
Status Supervisor::WhyOver(const HeardHello& heard) {
  const EndedSessions::Ended* ended = ended_.Find(heard.hello().session, Clock::now());
  const bool is_its_client = ended != nullptr && heard.AcceptSession(ended->key).has_value();
  return {Code::kRefused,
          is_its_client ? "the session has ended: " + ended->cause + "; start the program again"
                        : "the session has ended; start the program again"};
}

void Supervisor::AdmitAgain(std::unique_ptr<Channel> channel, const HeardHello& heard) {
  const Hello& hello = heard.hello();
  Status passed;
  {
    std::lock_guard lock(mutex_);
    Worker* worker = Find(hello.session);
    std::optional<ExchangeKeys> keys;
    if (worker != nullptr) keys = heard.AcceptSession(worker->key);
    if (worker == nullptr) {
      passed = WhyOver(heard);
    } else if (!keys) {
      passed = {Code::kRefused, "the session key is wrong"};
    } else {
      const int control = worker->process.control;
      passed =
          hello.role == LinkRole::kLog
              ? control::Send(control,
                              control::Resume{.received_seq = hello.received_seq,
                                              .received_chunks = hello.received_chunks,
                                              .answer = keys->answer},
                              {channel->Descriptor()})
              : control::Send(control, control::Lane{.lane = hello.lane, .answer = keys->answer},
                              {channel->Descriptor()});
    }
  }
  if (!passed.ok()) {
    return Refuse(*channel, passed);
  }
  channel->Abandon();
}

}  // namespace farcall::server
