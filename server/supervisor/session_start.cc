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

#include "proto/handshake/fabric_transport.h"
#include "proto/handshake/session_features.h"
#include "proto/hex.h"
#include "proto/printable.h"
#include "server/control/memory_file.h"
#include "server/device/uuid_text.h"
#include "server/supervisor/services/host_name.h"
#include "server/supervisor/supervisor.h"
#include "server/supervisor/undo.h"
#include "server/worker/sandbox/worker_setup.h"
#include "settings/version.h"
#include "transport/shm/ring.h"
#include "transport/shm/shm_channel.h"

namespace farcall::server {

namespace {

constexpr uint32_t kHeartbeatMilliseconds = 1000;

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
  if (!is_loopback || hello.pid == 0 || hello.host != host.data()) {
    return -1;
  }
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

uint64_t Supervisor::BytesOf(int device) const {
  return devices_.report.devices[static_cast<size_t>(device)].total_bytes;
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

void Supervisor::OpenLedger(const Worker& worker, const Hello& hello,
                            const quota::ClaimGrant* grant) {
  for (int device : worker.devices) {
    charges_.ledger().Open(worker.vgpu, device,
                           grant != nullptr
                               ? grant->memory_bytes
                               : policy_.QuotaFor(hello.quota.memory_bytes, BytesOf(device)));
  }
  charges_.ledger().Open(worker.vgpu, quota::kHostMemory, options_.host_memory_bytes);
}

void Supervisor::CloseLedger(const Worker& worker) {
  for (int device : worker.devices) {
    charges_.ledger().Close(worker.vgpu, device);
  }
  charges_.ledger().Close(worker.vgpu, quota::kHostMemory);
}

// All that its worker will make: for the log and each lane, one in each direction.
Status Supervisor::ChargeRings(const Channel& channel, Worker* worker) {
  if (!channel.PeerUser() || worker->rings.bytes() != 0) {
    return {};
  }
  const uint64_t bytes = 2 * (kLogRingBytes + kRingOffset) +
                         policy_.LanesFor(worker->arrival) * 2 * (kLaneRingBytes + kRingOffset);
  Result<quota::Charge> charged =
      charges_.ledger().Reserve(worker->vgpu, quota::kHostMemory, bytes);
  if (!charged.ok()) {
    return {charged.status().code(), "shared memory of the session: " + charged.status().message()};
  }
  worker->rings = std::move(*charged);
  return {};
}

Supervisor::Folders Supervisor::FoldersOf(const std::string& tenant) const {
  const char* variable = KernelVariable(devices_.choice.kind);
  return {OpenTenantImages(image_base_, tenant),
          OpenTenantKernels(image_base_, tenant, variable, users_.separate()),
          MakeAllCaches(image_base_, variable)};
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
  setup.swaps = swap_.is_on();
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
  welcome.lanes = policy_.LanesFor(worker.arrival);
  welcome.grace_ms = options_.grace_seconds * 1000;
  welcome.heartbeat_ms = kHeartbeatMilliseconds;
  welcome.server_version = kServerVersion;
  welcome.server_host = HostName();
  welcome.device_kind = devices_.choice.kind;
  welcome.libraries = libraries_.ForClients();
  OfferSharedMemory(client.hello, &welcome);
  OfferFabric(client.hello, &welcome);
  if (UsesFabric(kVerbsTransport, welcome) && options_.lanes == 0) {
    // A card is within reach, however slow the socket's way to it. And lanes lock memory.
    constexpr uint32_t kLanesOfCards = 2;
    welcome.lanes = std::min(welcome.lanes, kLanesOfCards);
  }
  if (options_.compresses && HasFeature(client.hello, SessionFeature::kPackedChunks)) {
    welcome.features |= FeatureBit(SessionFeature::kPackedChunks);
  }
  for (int device : worker.devices) {
    welcome.devices.push_back(devices_.report.devices[static_cast<size_t>(device)]);
    DeviceSnapshot& snapshot = welcome.devices.back();
    snapshot.total_bytes = charges_.ledger().usage(worker.vgpu, device).quota_bytes;
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
  FARCALL_TRY(ChargeRings(channel, &worker));
  if (std::optional<WarmWorker> warm = TakeWarm(worker, hello, folders)) {
    AdoptWarm(*warm, &worker, &undo);
  } else {
    FARCALL_TRY(StartCold(&worker, MpsEnvironment(worker, compute, grant, hello), &undo));
  }
  const int control = worker.process.control;
  bool in_cgroup = false;
  undo.Add([&] {
    if (in_cgroup) {
      closer_.EndGroup(cgroups_.Drop(worker.vgpu));
    }
  });
  undo.Add([this, control] {
    time_.Leave(control, SteadyNow());
    net_.Leave(control);
  });
  undo.Add([&] { closer_.End(std::exchange(worker.process, {})); });
  WorkerSetup setup = SetupOf(worker, client, folders);
  Result<std::vector<std::byte>> state = channel.HandOver();
  if (!state.ok()) {
    return state.status();
  }
  setup.channel_state = std::move(*state);
  int file = MakeMemoryFile("farcall-setup", Encode(setup));
  if (file < 0) {
    return {Code::kUnavailable, "no memory for a session's setup"};
  }
  undo.Always([file] { close(file); });
  FARCALL_TRY(time_.Join(worker.vgpu, control, compute, worker.devices, SteadyNow()));
  FARCALL_TRY(net_.Join(worker.vgpu, control, compute.net_bytes_per_s, SteadyNow()));
  in_cgroup = true;
  // Before it has done anything for the session.
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
  worker->counted = grant == nullptr ? policy_.CountedAs(client.arrival, client.tenant) : "";
  FARCALL_TRY(PlaceSession(*worker));
  if (grant == nullptr) {
    std::vector<uint64_t> device_bytes;
    for (int device : worker->devices) {
      device_bytes.push_back(BytesOf(device));
    }
    FARCALL_TRY(policy_.CheckMemory(client.hello.quota.memory_bytes, device_bytes));
  }
  FARCALL_TRY(StartProcess(*worker, channel, client, grant, folders));
  const int control = worker->process.control;
  spdlog::info("{}: started from {}, worker {}{}, quota {} bytes", worker->who, channel.PeerName(),
               worker->process.pid, worker->is_warm ? " (started before)" : "",
               charges_.ledger().usage(worker->vgpu, worker->devices[0]).quota_bytes);
  nlohmann::json fields = AuditFields(*worker);
  fields["from"] = channel.PeerName();
  if (const std::optional<uint32_t> user = channel.PeerUser()) {
    fields["local_user"] = *user;
  }
  audit_.Note("session_started", std::move(fields));
  workers_[control] = std::move(worker);
  charges_.Join(control, workers_[control]->vgpu, workers_[control]->counted);
  const std::string& vgpu = workers_[control]->vgpu;
  swap_.Join(control, vgpu, time_.PriorityOf(vgpu, SteadyNow()), SteadyNow());
  if (overhead_ != nullptr) {
    overhead_->Join(control, workers_[control]->process.pid);
  }
  WatchDescriptor(epoll_, control);
  workers_[control]->client_fd = WatchClient(client.hello, channel);
  for (const int process : {workers_[control]->process.pid_fd, workers_[control]->client_fd}) {
    if (process >= 0) {
      processes_[process] = control;
      WatchDescriptor(epoll_, process);
    }
  }
  net_.Begin(control);
  time_.Begin(control, workers_[control]->vgpu, workers_[control]->mps_group.empty());
  return {};
}

}  // namespace farcall::server
