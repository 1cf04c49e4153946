// SPDX-License-Identifier: Apache-2.0
// The one global: when the session begins, and what fork and exit do to it.
#include <pthread.h>

#include <cstdio>
#include <cstdlib>

#include "client-shim/core/calls.h"
#include "client-shim/core/config.h"
#include "client-shim/core/connect.h"
#include "client-shim/core/credit.h"
#include "client-shim/core/devices.h"
#include "client-shim/core/error_map.h"
#include "client-shim/core/log.h"
#include "client-shim/core/log_ring.h"
#include "client-shim/core/reservations.h"
#include "client-shim/core/session.h"
#include "client-shim/core/stats.h"
#include "client-shim/core/thread_state.h"
#include "client-shim/core/windows.h"
#include "transport/tcp/tcp_channel.h"

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
  Hello hello;
  DescribeProcess(&hello);
  hello.vgpu = config.vgpu;
  hello.quota = config.quota;
  hello.device_windows = ReserveDeviceWindows();
  if (!config.stats_file.empty() || !config.counters_folder.empty())
    StartStats(config.counters_folder);
  Result<Connected> opened = OpenSession(config, hello);
  int taken = opened.ok() ? opened->welcome.device_window : -1;
  for (int i = 0; i < static_cast<int>(hello.device_windows.size()); ++i) {
    if (i != taken) ReleaseWindow(hello.device_windows[i]);
  }
  if (!opened.ok()) return FailConnect(config.endpoint, opened.status());
  if (taken >= static_cast<int>(hello.device_windows.size())) {
    return FailConnect(config.endpoint,
                       Status(Code::kMalformed, "the server took a window that was not offered"));
  }
  Window window = taken >= 0 ? hello.device_windows[taken] : Window{};
  DeviceCredit().SetWindow(CreditHalf(window));
  UserRanges().SetWindow(ReservationHalf(window));
  const Window& granted = opened->welcome.first_credit;
  if (granted.bytes != 0 && !DeviceCredit().AddGrant(0, granted.base, granted.bytes)) {
    return FailConnect(
        config.endpoint,
        Status(Code::kMalformed, "the server granted memory outside the window that it took"));
  }
  SetSync(config.sync);
  auto* session = new Session(opened->welcome, opened->endpoint);
  LoadDevices(session->welcome());
  std::string endpoint = opened->endpoint, path = opened->path;
  const std::string line = DescribeLine(*opened->channel, session->welcome().lanes);
  session->Start(std::move(opened->channel),
                 [id = session->welcome().session, key = opened->key, path](
                     LinkRole role, uint32_t lane, uint64_t seq, uint64_t chunks) {
                   return Rejoin(path, id, key, role, lane, seq, chunks);
                 });
  g_session.store(session, std::memory_order_release);
  Log(LogLevel::kInfo, "connected to %s over %s (%s, %zu devices%s)", endpoint.c_str(),
      path.substr(0, path.find("://")).c_str(), session->welcome().device_kind.c_str(),
      session->welcome().devices.size(), line.c_str());
  // Whatever the log level: nobody may take what comes back for a result.
  if (session->welcome().device_kind == "dry") {
    fprintf(stderr,
            "farcall: DRY DEVICE: no kernel is executed, nothing computed here is a result\n");
  } else if (session->welcome().device_kind == "cpu-skip") {
    fprintf(stderr,
            "farcall: SKIPPING MACHINE CODE: a kernel without PTX is not executed, what depends on "
            "it is no result\n");
  }
  return session->ended();
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
  Session* session = g_session.exchange(nullptr);
  if (session != nullptr) session->Abandon();
  ForgetThreads();
  g_stats.store(nullptr);
  if (g_life.load() == Life::kReady) g_life.store(Life::kForked);
  UpdateAllClear();
  g_last_failure = CUDA_SUCCESS;
}

void LeaveProcess() {
  Life life = g_life.exchange(Life::kLeft);
  UpdateAllClear();
  Session* session = g_session.load();
  if (life == Life::kForked || session == nullptr) return;
  session->DrainOutput();
  session->Leave(CUDA_ERROR_DEINITIALIZED);
  WriteStats(GetConfig().stats_file, session->link().counters());
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
