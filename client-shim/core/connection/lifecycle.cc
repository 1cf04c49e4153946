// SPDX-License-Identifier: Apache-2.0
// The one global: when the session begins, and what fork and exit do to it.
#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "client-shim/core/connection/connect.h"
#include "client-shim/core/memory/reservations.h"
#include "client-shim/core/memory/windows.h"
#include "client-shim/core/report/log.h"
#include "client-shim/core/report/log_ring.h"
#include "client-shim/core/report/stats.h"
#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/config.h"
#include "client-shim/core/session/credit.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/error_map.h"
#include "client-shim/core/session/session.h"
#include "client-shim/core/session/thread_state.h"
#include "proto/cuda/device_domain.h"
#include "proto/handshake/fabric_transport.h"
#include "transport/tcp/tcp_channel.h"
#include "transport/url.h"

namespace farcall::client {

std::atomic<Life> g_life{Life::kNone};

namespace {

std::mutex* g_connect_mutex = new std::mutex;
CUresult g_last_failure = CUDA_SUCCESS;
Clock::time_point g_retry_after;

constexpr auto kRetryPause = std::chrono::seconds(1);

// One line: where and why. What to do stands in the message of whoever knows the cause.
CUresult FailConnect(const std::string& endpoint, const Status& why) {
  bool names_endpoint = why.message().find(endpoint) != std::string::npos;
  Log(LogLevel::kError, "cannot connect%s: %s", names_endpoint ? "" : (" to " + endpoint).c_str(),
      why.message().c_str());
  return MapConnectError(why.code());
}

// ", 8 lanes, 30.1 ms, bbr": what decides how fast a network connection is; empty for others, or if
// nobody reads it.
std::string DescribeLine(const Channel& channel, uint32_t lanes) {
  if (!LogEnabled(LogLevel::kInfo)) return "";
  const std::optional<std::chrono::microseconds> round_trip = channel.RoundTrip();
  if (!round_trip) return "";
  char text[96];
  std::snprintf(text, sizeof(text), ", %u lanes, %.1f ms, %s", lanes,
                static_cast<double>(round_trip->count()) / 1000,
                CongestionControlOf(channel.Descriptor()).c_str());
  return text;
}

// Whatever the log level: nobody may take what comes back for a result.
void SayIfNoResult(const std::string& device_kind) {
  if (device_kind == "dry") {
    fprintf(stderr,
            "farcall: DRY DEVICE: no kernel is executed, nothing computed here is a result\n");
  } else if (device_kind == "cpu-skip") {
    fprintf(stderr,
            "farcall: SKIPPING MACHINE CODE: a kernel without PTX is not executed, what depends on "
            "it is no result\n");
  }
}

// Where a server is, however it was named.
std::string PlaceOf(const Connected& opened) {
  return SchemeOf(opened.path) == "shm" ? opened.path : PeerAddress(opened.channel->Descriptor());
}

// Two names of one server would show its devices twice, and so would two claims with one GPU.
// Addresses tell of servers, and UUIDs of devices, but for those that are software: they have the
// same on every machine. Two claims may have different GPUs of one server.
Status CheckNew(const Connected& opened, const std::string& claim) {
  for (const Session* other : Sessions()) {
    const Welcome &one = other->welcome(), &two = opened.welcome;
    const bool is_same_host = one.server_host == two.server_host;
    const bool is_real = one.device_kind == "cuda" && two.device_kind == "cuda";
    const bool shares_device =
        std::any_of(one.devices.begin(), one.devices.end(), [&](const DeviceSnapshot& device) {
          return std::any_of(two.devices.begin(), two.devices.end(),
                             [&](const DeviceSnapshot& each) { return each.uuid == device.uuid; });
        });
    const bool has_its_gpu = is_real && is_same_host && shares_device;
    if (!claim.empty() && has_its_gpu)
      return {Code::kInvalid, "claim " + claim +
                                  " has a GPU of another claim of FARCALL_CLAIM on " +
                                  one.server_host + ": a device list shows each GPU once"};
    if (claim.empty() && (PlaceOf(opened) == other->place() || has_its_gpu))
      return {Code::kInvalid, "it is the server of " + other->endpoint() +
                                  ": name each server once in FARCALL_ENDPOINT"};
  }
  return {};
}

// Devices of several servers are told apart by their PCI domain, and software ones by their UUID.
void MakeDistinct(Welcome* welcome, uint8_t index) {
  if (index == 0) return;
  constexpr size_t kDomain = CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID;
  for (DeviceSnapshot& device : welcome->devices) {
    unsigned domain = 0;
    device.pci_bus_id = PciIdInList(device.pci_bus_id, index, &domain);
    if (kDomain < device.attributes.size())
      device.attributes[kDomain] = static_cast<int32_t>(domain);
    if (welcome->device_kind != "cuda") device.uuid[0] ^= index;
  }
}

// The window of device addresses that the server took of those offered.
Result<Window> TakenWindow(const std::vector<Window>& offered, const Connected& opened,
                           bool is_needed) {
  const int taken = opened.welcome.device_window;
  for (int i = 0; i < static_cast<int>(offered.size()); ++i)
    if (i != taken) ReleaseWindow(offered[static_cast<size_t>(i)]);
  if (taken >= static_cast<int>(offered.size()))
    return Status(Code::kMalformed, "the server took a window that was not offered");
  if (taken < 0 && is_needed)
    return Status(Code::kUnsupported,
                  "it has no room for a window of device addresses, which a list of servers needs");
  return taken >= 0 ? offered[static_cast<size_t>(taken)] : Window{};
}

void LeaveProcess();

// A session with one server of the list, added to Sessions().
Status Join(const Config& config, const Target& target, uint8_t index) {
  Hello hello;
  DescribeProcess(&hello);
  hello.vgpu = config.vgpu;
  hello.quota = config.quota;
  hello.device_windows = ReserveDeviceWindows();
  const std::vector<Window> offered = hello.device_windows;
  Result<Connected> opened = OpenSession(config, target, std::move(hello));
  if (!opened.ok()) {
    for (const Window& window : offered) ReleaseWindow(window);
    return opened.status();
  }
  Result<Window> window = TakenWindow(offered, *opened, config.targets.size() > 1);
  if (!window.ok()) return window.status();
  if (Status fresh = CheckNew(*opened, target.claim); !fresh.ok()) {
    if (window->bytes != 0) ReleaseWindow(*window);
    return fresh;
  }
  MakeDistinct(&opened->welcome, index);
  auto* session = new Session(opened->welcome, opened->endpoint, index, *window);
  session->set_place(PlaceOf(*opened));
  session->credit().SetWindow(CreditHalf(*window));
  UserRanges().SetWindow(ReservationHalf(*window), index);
  const Window& granted = session->welcome().first_credit;
  if (granted.bytes != 0 && !session->credit().AddGrant(0, granted.base, granted.bytes))
    return {Code::kMalformed, "the server granted memory outside the window that it took"};
  std::string path = opened->path;
  const std::string line = DescribeLine(*opened->channel, session->welcome().lanes);
  session->Start(std::move(opened->channel),
                 [id = session->welcome().session, key = opened->key, path, kind = opened->kind](
                     LinkRole role, uint32_t lane, uint64_t seq, uint64_t chunks) {
                   return Rejoin(path, kind, id, key, role, lane, seq, chunks);
                 });
  // UCX's library, which came after us, is torn down ahead of our own destructor.
  if (opened->kind == kUcxTransport) std::atexit(LeaveProcess);
  AddSession(session);
  Log(LogLevel::kInfo, "connected to %s over %s (%s, %zu devices%s)", opened->endpoint.c_str(),
      IsFabric(opened->kind) ? FabricName(opened->kind) : path.substr(0, path.find("://")).c_str(),
      session->welcome().device_kind.c_str(), session->welcome().devices.size(), line.c_str());
  SayIfNoResult(session->welcome().device_kind);
  return {};
}

CUresult Connect() {
  const Config& config = GetConfig();
  if (!config.error.empty()) {
    Log(LogLevel::kError, "%s", config.error.c_str());
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (config.endpoint.empty()) {
    Log(LogLevel::kError,
        "no server: set FARCALL_ENDPOINT=tcp://host:port, or start the program with `farcall run "
        "-- ...`");
    return CUDA_ERROR_NO_DEVICE;
  }
  if (!config.stats_file.empty() || !config.counters_folder.empty())
    StartStats(config.counters_folder);
  SetSync(config.sync);
  for (const Target& target : config.targets) {
    const Status joined = Join(config, target, static_cast<uint8_t>(Sessions().size()));
    if (joined.ok()) continue;
    for (Session* session : Sessions()) {
      session->Leave(CUDA_ERROR_NO_DEVICE);
      if (session->window().bytes != 0) ReleaseWindow(session->window());
    }
    ForgetSessions();
    return FailConnect(target.endpoint, joined);
  }
  LoadDevices(Sessions());
  return CurrentSession()->ended();
}

void BeforeFork() {
  g_connect_mutex->lock();
}
void AfterForkParent() {
  g_connect_mutex->unlock();
}

// The child owns copies of descriptors, not the session: it closes them without a word. CUDA's rule
// for a child forked after cuInit is that nothing works there.
void AfterForkChild() {
  g_connect_mutex = new std::mutex;
  for (Session* session : Sessions()) session->Abandon();
  ForgetSessions();
  ForgetThreads();
  g_stats.store(nullptr);
  if (g_life.load() == Life::kReady) g_life.store(Life::kForked);
  UpdateAllClear();
  g_last_failure = CUDA_SUCCESS;
}

void Add(Link::Counters* sum, const Link::Counters& one) {
  sum->frames_out += one.frames_out;
  sum->frames_in += one.frames_in;
  sum->bytes_out += one.bytes_out;
  sum->bytes_in += one.bytes_in;
  sum->chunk_bytes_out += one.chunk_bytes_out;
  sum->chunk_bytes_in += one.chunk_bytes_in;
  sum->reconnects += one.reconnects;
}

void LeaveProcess() {
  Life life = g_life.exchange(Life::kLeft);
  if (life == Life::kLeft) return;
  UpdateAllClear();
  Session* session = g_session.load();
  if (life == Life::kForked || session == nullptr) return;
  Link::Counters wire{};
  for (Session* each : Sessions()) {
    each->DrainOutput();
    each->Leave(CUDA_ERROR_DEINITIALIZED);
    Add(&wire, each->link().counters());
  }
  WriteStats(GetConfig().stats_file, wire);
}

__attribute__((constructor)) void RegisterHooks() {
  // Hooks run in the reverse of this order ahead of a fork: the log's lock, which is taken under
  // that of the connection, comes last.
  LogEnd();
  pthread_atfork(BeforeFork, AfterForkParent, AfterForkChild);
  at_quick_exit(LeaveProcess);
}
__attribute__((destructor)) void AtUnload() {
  LeaveProcess();
}

}  // namespace

CUresult ConnectSession() {
  if (g_life.load() == Life::kLeft) return CUDA_ERROR_DEINITIALIZED;
  if (g_life.load() == Life::kForked) return CUDA_ERROR_NOT_INITIALIZED;
  if (Session* session = g_session.load(std::memory_order_acquire)) return session->ended();
  std::lock_guard lock(*g_connect_mutex);
  if (Session* session = g_session.load(std::memory_order_acquire)) return session->ended();
  if (g_last_failure != CUDA_SUCCESS && Clock::now() < g_retry_after) return g_last_failure;
  g_last_failure = Connect();
  g_retry_after = Clock::now() + kRetryPause;
  return g_last_failure;
}

CUresult Initialise() {
  CUresult connected = ConnectSession();
  if (connected != CUDA_SUCCESS) return connected;
  if (VisibleDeviceCount() == 0) return CUDA_ERROR_NO_DEVICE;
  Life none = Life::kNone;
  g_life.compare_exchange_strong(none, Life::kReady);
  UpdateAllClear();
  return CUDA_SUCCESS;
}

bool IsInitialised() {
  return g_life.load(std::memory_order_acquire) == Life::kReady;
}

}  // namespace farcall::client
