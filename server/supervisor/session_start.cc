// SPDX-License-Identifier: Apache-2.0
// The start of a session that is let in: its place in all that is shared out, its worker.
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "proto/hex.h"
#include "proto/printable.h"
#include "server/control/memory_file.h"
#include "server/supervisor/sessions/undo.h"
#include "server/supervisor/supervisor.h"
#include "server/worker/sandbox/worker_setup.h"
#include "transport/shm/ring.h"
#include "transport/shm/shm_channel.h"

namespace farcall::server {

namespace {

// Of a long path the end, with the program's name.
std::string ProgramText(std::string_view path) {
  constexpr size_t kMax = 192;
  return Printable(path.substr(path.size() - std::min(path.size(), kMax)), kMax);
}

// A descriptor that becomes readable when the client's process ends; -1 if it does not run on this
// host, or there is no telling. Over shm:// the kernel knows who connected, whatever HELLO says.
int WatchClient(const Hello& hello, const Channel& channel) {
  constexpr int kPeerPidfd = 77;  // SO_PEERPIDFD, Linux 6.5
  if (channel.PeerUser()) {
    int process = -1;
    socklen_t bytes = sizeof(process);
    const int failed = getsockopt(channel.Descriptor(), SOL_SOCKET, kPeerPidfd, &process, &bytes);
    return failed == 0 ? process : -1;
  }
  const std::string peer = channel.PeerName();
  bool is_loopback =
      peer.find("127.") != std::string::npos || peer.find("::1") != std::string::npos;
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  if (!is_loopback || hello.pid == 0 || hello.host != host.data()) return -1;
  return static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(hello.pid), 0));
}

// The vGPU of a run's processes. Its token lets a process join it, so that only a hash of it is
// kept; one tenant's joins nothing of another's.
std::string RunName(const std::string& tenant, const std::string& token) {
  const Hash256 hash =
      Sha256({BytesOf(tenant), BytesOf(std::string_view("\0", 1)), BytesOf(token)});
  return "run " + HexOf(std::span(hash).first(16));
}

}  // namespace

// Whose session it is, as which vGPU, and on which devices.
std::unique_ptr<WorkerSession> Supervisor::NewSession(const Client& client,
                                                      const quota::ClaimGrant* grant) {
  const Hello& hello = client.hello;
  auto worker = std::make_unique<WorkerSession>();
  RandomBytes(worker->session);
  worker->key = client.keys.session;
  worker->tenant = TenantOf(client.tenant, grant);
  worker->number = ++sessions_started_;
  std::string number = std::to_string(worker->number);
  worker->vgpu = hello.vgpu.empty() ? "session " + number : RunName(client.tenant, hello.vgpu);
  if (grant != nullptr) {
    worker->claim = grant->claim;
    worker->vgpu = std::string(kClaimPrefix) + grant->claim;
  }
  worker->devices = placement_.DevicesFor(worker->vgpu, grant);
  worker->mps_group = placement_.MpsGroupFor(grant);
  worker->arrival = client.arrival;
  worker->client_user = Printable(hello.user);
  worker->client_host = Printable(hello.host);
  worker->raw_client_host = hello.host;
  worker->program = ProgramText(hello.program);
  worker->who =
      "session " + number + " (" + worker->client_user + "@" + worker->client_host + " pid " +
      std::to_string(hello.pid) + " " + worker->program +
      (client.arrival.identity.empty() ? "" : ", certificate " + Quoted(client.arrival.identity)) +
      ")";
  worker->client_pid = hello.pid;
  worker->since = Clock::now();
  return worker;
}

void Supervisor::OpenLedger(const WorkerSession& worker, const Hello& hello,
                            const quota::ClaimGrant* grant) {
  for (int device : worker.devices) {
    charges_.ledger().Open(
        worker.vgpu, device,
        grant != nullptr ? grant->memory_bytes
                         : policy_.QuotaFor(hello.quota.memory_bytes, placement_.BytesOf(device)));
  }
  charges_.ledger().Open(worker.vgpu, quota::kHostMemory, options_.host_memory_bytes);
}

void Supervisor::CloseLedger(const WorkerSession& worker) {
  for (int device : worker.devices) charges_.ledger().Close(worker.vgpu, device);
  charges_.ledger().Close(worker.vgpu, quota::kHostMemory);
}

// All that its worker will make: for the log and each lane, one in each direction.
Status Supervisor::ChargeRings(const Channel& channel, WorkerSession* worker) {
  if (!channel.PeerUser() || worker->rings.bytes() != 0) return {};
  const uint64_t bytes = 2 * (kLogRingBytes + kRingOffset) +
                         policy_.LanesFor(worker->arrival) * 2 * (kLaneRingBytes + kRingOffset);
  Result<quota::Charge> charged =
      charges_.ledger().Reserve(worker->vgpu, quota::kHostMemory, bytes);
  if (!charged.ok())
    return {charged.status().code(), "shared memory of the session: " + charged.status().message()};
  worker->rings = std::move(*charged);
  return {};
}

// Its process, with a place in all that is shared out. What was taken before something failed is
// given back.
Status Supervisor::StartProcess(WorkerSession& worker, Channel& channel, const Client& client,
                                const quota::ClaimGrant* grant, const SessionFolders& folders) {
  const Hello& hello = client.hello;
  QuotaRequest compute = hello.quota;
  if (grant != nullptr) {
    compute = {grant->memory_bytes, grant->share_milli, grant->limit_milli, grant->priority,
               grant->net_bytes_per_s};
  }
  Undo undo;
  OpenLedger(worker, hello, grant);
  undo.Add([&] { CloseLedger(worker); });
  FARCALL_TRY(ChargeRings(channel, &worker));
  FARCALL_TRY(starter_.Start(&worker,
                             {folders.caches, hello, setup_.UsesFabric(hello),
                              mps_.EnvironmentOf(worker, compute, grant, hello.quota.memory_bytes)},
                             &undo));
  const int control = worker.process.control;
  bool in_cgroup = false;
  undo.Add([&] {
    if (in_cgroup) closer_.EndGroup(places_.cgroups.Drop(worker.vgpu));
  });
  undo.Add([this, control] {
    time_.Leave(control, SteadyNow());
    net_.Leave(control);
  });
  undo.Add([&] { closer_.End(std::exchange(worker.process, {})); });
  SessionSetup::Facts facts;
  facts.answer = client.keys.answer;
  for (int device : worker.devices)
    facts.quotas_bytes.push_back(charges_.ledger().usage(worker.vgpu, device).quota_bytes);
  facts.swaps = swap_.is_on();
  facts.is_only_tenant = sessions_.IsOnlyVgpu(worker.vgpu);
  WorkerSetup setup = setup_.Make(worker, hello, folders, facts);
  Result<std::vector<std::byte>> state = channel.HandOver();
  if (!state.ok()) return state.status();
  setup.channel_state = std::move(*state);
  int file = MakeMemoryFile("farcall-setup", Encode(setup));
  if (file < 0) return {Code::kUnavailable, "no memory for a session's setup"};
  undo.Always([file] { close(file); });
  FARCALL_TRY(time_.Join(worker.vgpu, control, compute, worker.devices, SteadyNow()));
  FARCALL_TRY(net_.Join(worker.vgpu, control, compute.net_bytes_per_s, SteadyNow()));
  in_cgroup = true;
  // Before it has done anything for the session.
  FARCALL_TRY(places_.cgroups.Add(worker.vgpu, worker.process.pid, compute.share_milli));
  std::vector<int> handed = {channel.Descriptor(), file};
  for (const OwnedDescriptor* folder : {&folders.images, &folders.kernels})
    if (folder->fd() >= 0) handed.push_back(folder->fd());
  FARCALL_TRY(control::SendPacket(control, control::Encoded(control::Setup{}).bytes(), handed));
  undo.Forget();
  return {};
}

Status Supervisor::StartSession(Channel& channel, const Client& client,
                                const quota::ClaimGrant* grant, const SessionFolders& folders) {
  std::unique_ptr<WorkerSession> worker = NewSession(client, grant);
  worker->counted = grant == nullptr ? policy_.CountedAs(client.arrival, client.tenant) : "";
  FARCALL_TRY(placement_.Check(*worker));
  if (grant == nullptr) {
    std::vector<uint64_t> device_bytes;
    for (int device : worker->devices) device_bytes.push_back(placement_.BytesOf(device));
    FARCALL_TRY(policy_.CheckMemory(client.hello.quota.memory_bytes, device_bytes));
  }
  FARCALL_TRY(StartProcess(*worker, channel, client, grant, folders));
  const int control = worker->process.control;
  spdlog::info("{}: started from {}, worker {}{}, quota {} bytes", worker->who, channel.PeerName(),
               worker->process.pid, worker->is_warm ? " (started before)" : "",
               charges_.ledger().usage(worker->vgpu, worker->devices[0]).quota_bytes);
  nlohmann::json fields = report_.AuditFields(*worker);
  fields["from"] = channel.PeerName();
  if (const std::optional<uint32_t> user = channel.PeerUser()) fields["local_user"] = *user;
  audit_.Note("session_started", std::move(fields));
  WorkerSession& session = sessions_.Add(std::move(worker));
  charges_.Join(control, session.vgpu, session.counted);
  swap_.Join(control, session.vgpu, time_.PriorityOf(session.vgpu, SteadyNow()), SteadyNow());
  driver_memory_.Join(session);
  WatchDescriptor(epoll_, control);
  session.client_fd = WatchClient(client.hello, channel);
  for (const int process : {session.process.pid_fd, session.client_fd}) {
    if (process >= 0) {
      sessions_.AddProcess(process, control);
      WatchDescriptor(epoll_, process);
    }
  }
  net_.Begin(control);
  time_.Begin(control, session.vgpu, session.mps_group.empty());
  return {};
}

}  // namespace farcall::server
