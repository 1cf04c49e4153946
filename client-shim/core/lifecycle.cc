// SPDX-License-Identifier: Apache-2.0
// The one global: when the session begins, what fork and exit do to it, and what every entry checks
// first.
#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "client-shim/core/answers.h"
#include "client-shim/core/calls.h"
#include "client-shim/core/config.h"
#include "client-shim/core/connect.h"
#include "client-shim/core/credit.h"
#include "client-shim/core/devices.h"
#include "client-shim/core/error_map.h"
#include "client-shim/core/log.h"
#include "client-shim/core/session.h"
#include "client-shim/core/stats.h"
#include "client-shim/core/thread_state.h"
#include "client-shim/core/windows.h"
#include "proto/call_info.h"

namespace farcall::client {

namespace {

enum class Life : int { kNone, kReady, kForked, kLeft };
std::atomic<Life> g_life{Life::kNone};
std::mutex* g_connect_mutex = new std::mutex;
std::atomic<bool> g_sync{false};
CUresult g_last_failure = CUDA_SUCCESS;
Clock::time_point g_retry_after;

constexpr auto kConnectTimeout = std::chrono::seconds(10);
constexpr auto kRetryPause = std::chrono::seconds(1);

// One line: where, why and what to do. The transport's own lines say some of it already.
CUresult FailConnect(const std::string& endpoint, const Status& why) {
  bool absent = why.code() == Code::kUnavailable || why.code() == Code::kTimeout ||
                why.code() == Code::kDisconnected;
  bool names_endpoint = why.message().find(endpoint) != std::string::npos;
  bool has_remedy = why.message().find("farcall serve") != std::string::npos;
  Log(LogLevel::kError, "cannot connect%s: %s%s", names_endpoint ? "" : (" to " + endpoint).c_str(),
      why.message().c_str(), absent && !has_remedy ? "; is `farcall serve` running there?" : "");
  return MapConnectError(why.code());
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
  if (!config.stats_file.empty()) StartStats();
  Result<Connected> opened = OpenSession(config, hello, Clock::now() + kConnectTimeout);
  int taken = opened.ok() ? opened->welcome.device_window : -1;
  for (int i = 0; i < static_cast<int>(hello.device_windows.size()); ++i) {
    if (i != taken) ReleaseWindow(hello.device_windows[i]);
  }
  if (!opened.ok()) return FailConnect(config.endpoint, opened.status());
  if (taken >= static_cast<int>(hello.device_windows.size())) {
    return FailConnect(config.endpoint,
                       Status(Code::kMalformed, "the server took a window that was not offered"));
  }
  DeviceCredit().SetWindow(taken >= 0 ? hello.device_windows[taken] : Window{});
  g_sync.store(config.sync);
  auto* session = new Session(opened->welcome, config.endpoint);
  LoadDevices(session->welcome());
  std::string endpoint = config.endpoint;
  session->Start(std::move(opened->channel),
                 [session, endpoint](LinkRole role, uint32_t lane, uint64_t seq, uint64_t chunks) {
                   return Rejoin(endpoint, session->welcome(), role, lane, seq, chunks);
                 });
  g_session.store(session, std::memory_order_release);
  Log(LogLevel::kInfo, "connected to %s (%s, %zu devices)", endpoint.c_str(),
      session->welcome().device_kind.c_str(), session->welcome().devices.size());
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
  g_last_failure = CUDA_SUCCESS;
}

void LeaveProcess() {
  Life life = g_life.exchange(Life::kLeft);
  Session* session = g_session.load();
  if (life == Life::kForked || session == nullptr) return;
  session->DrainOutput();
  session->Leave(CUDA_ERROR_DEINITIALIZED);
  WriteStats(GetConfig().stats_file, session->link().counters());
}

__attribute__((constructor)) void RegisterHooks() {
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
  return CUDA_SUCCESS;
}

bool IsInitialised() {
  return g_life.load(std::memory_order_acquire) == Life::kReady;
}

CUresult Enter(CallId call, Needs needs) {
  if (Stats* stats = g_stats.load(std::memory_order_relaxed)) [[unlikely]] {
    ThreadState* self = Self();
    self->call = static_cast<uint16_t>(call);
    self->waited = self->posted = false;
    stats->Of(self->call).calls.fetch_add(1, std::memory_order_relaxed);
  }
  if (needs == Needs::kNothing) return CUDA_SUCCESS;
  Life life = g_life.load(std::memory_order_acquire);
  if (life != Life::kReady) [[unlikely]] {
    return life == Life::kLeft ? CUDA_ERROR_DEINITIALIZED : CUDA_ERROR_NOT_INITIALIZED;
  }
  Session* session = g_session.load(std::memory_order_relaxed);
  if (session->ended() != CUDA_SUCCESS) [[unlikely]]
    return session->ended();
  if (needs != Needs::kContext) return CUDA_SUCCESS;
  Context* context = Self()->current;
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!context->alive.load(std::memory_order_relaxed)) [[unlikely]]
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return kCallInfo[static_cast<size_t>(call)].capture_unsafe ? CheckUnsafeInCapture()
                                                             : CUDA_SUCCESS;
}

Record MakeRecord(CallId call, std::span<const std::byte> head, std::span<const std::byte> tail) {
  ThreadState* self = Self();
  Record record;
  record.call = static_cast<uint16_t>(call);
  record.thread = self->slot;
  record.context = self->current == nullptr ? 0 : self->current->slot;
  record.head = head;
  record.tail = tail;
  return record;
}

namespace {

void CountPost() {
  Stats* stats = g_stats.load(std::memory_order_relaxed);
  if (stats == nullptr) [[likely]]
    return;
  ThreadState* self = Self();
  CallCounters& row = stats->Of(self->call);
  if (!self->posted) row.posted.fetch_add(1, std::memory_order_relaxed);
  if (!self->posted && !self->waited) row.local_left.fetch_add(1, std::memory_order_relaxed);
  self->posted = true;
  stats->posted.fetch_add(1, std::memory_order_relaxed);
}

CUresult WaitCounted(Session* session, const Record& record, Reply* reply) {
  Stats* stats = g_stats.load(std::memory_order_relaxed);
  if (stats == nullptr) return session->WaitRecord(record, reply);
  ThreadState* self = Self();
  CallCounters& row = stats->Of(self->call);
  if (!self->waited) row.waited.fetch_add(1, std::memory_order_relaxed);
  if (!self->posted && !self->waited) row.local_left.fetch_add(1, std::memory_order_relaxed);
  self->waited = true;
  stats->round_trips.fetch_add(1, std::memory_order_relaxed);
  uint64_t start = NowNs();
  CUresult status = session->WaitRecord(record, reply);
  uint64_t waited = NowNs() - start;
  row.wait_ns.fetch_add(waited, std::memory_order_relaxed);
  stats->wait_ns.fetch_add(waited, std::memory_order_relaxed);
  return status;
}

}  // namespace

CUresult PostRecordCounted(const Record& record) {
  Session* session = CurrentSession();
  if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (g_sync.load(std::memory_order_relaxed)) [[unlikely]]
    return WaitCounted(session, record, nullptr);
  CountPost();
  return session->PostRecord(record);
}

CUresult PostBound(const Record& record, uint64_t transfer) {
  Session* session = CurrentSession();
  if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (g_sync.load(std::memory_order_relaxed)) [[unlikely]]
    return WaitCounted(session, record, nullptr);
  CountPost();
  return session->PostRecord(record, true, transfer);
}

namespace {
CUresult PostAndLook(const Record& record, uint32_t* serial) {
  Session* session = CurrentSession();
  if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (g_sync.load(std::memory_order_relaxed)) [[unlikely]] {
    CUresult status = WaitCounted(session, record, nullptr);
    if (kCallInfo[record.call].renews) ForgetAnswers();
    return status;
  }
  CountPost();
  CUresult posted = session->PostRecord(record, true, 0, serial);
  if (kCallInfo[record.call].renews) [[unlikely]]
    ForgetAnswers();
  if (posted != CUDA_SUCCESS) return posted;
  Context* context = Self()->current;
  return context == nullptr ? CUDA_SUCCESS : TakeLateError(context);
}
}  // namespace

CUresult PostParts(CallId call, std::span<const std::byte> head, std::span<const std::byte> tail) {
  return PostAndLook(MakeRecord(call, head, tail), nullptr);
}

CUresult PostWhole(CallId call, RecordHeader* header, size_t bytes) {
  auto* start = reinterpret_cast<std::byte*>(header);
  size_t padded = AlignUp(bytes, 8);
  std::memset(start + bytes, 0, padded - bytes);
  Session* session = CurrentSession();
  if (session == nullptr) [[unlikely]]
    return CUDA_ERROR_NOT_INITIALIZED;
  if (g_sync.load(std::memory_order_relaxed)) [[unlikely]] {
    std::span body(start + sizeof(RecordHeader), padded - sizeof(RecordHeader));
    return WaitCounted(session, MakeRecord(call, body), nullptr);
  }
  CountPost();
  ThreadState* self = Self();
  Context* context = self->current;
  *header = RecordHeader();
  header->bytes = static_cast<uint32_t>(padded);
  header->call = static_cast<uint16_t>(call);
  header->thread = self->slot;
  header->context = context == nullptr ? 0 : context->slot;
  CUresult posted = session->PostWhole(header);
  if (posted != CUDA_SUCCESS || context == nullptr) [[unlikely]]
    return posted;
  return TakeLateError(context);
}

CUresult PostNumbered(CallId call, std::span<const std::byte> body, uint32_t* serial) {
  *serial = 0;
  return PostAndLook(MakeRecord(call, body), serial);
}

CUresult Post(CallId call, std::span<const std::byte> body) {
  return PostParts(call, body, {});
}

CUresult Query(CallId call, std::span<const std::byte> body, Reply* reply) {
  Context* context = Self()->current;
  Question question = {call, context == nullptr ? 0 : context->handle, body};
  CUresult late = context == nullptr ? CUDA_SUCCESS : TakeLateError(context);
  if (late != CUDA_SUCCESS) return late;
  std::vector<std::byte> known;
  if (FindAnswer(question, &known)) {
    reply->status = CUDA_SUCCESS;
    reply->owned = std::make_unique<std::byte[]>(known.size());
    std::copy(known.begin(), known.end(), reply->owned.get());
    reply->body = {reply->owned.get(), known.size()};
    return CUDA_SUCCESS;
  }
  uint64_t renewals = AnswerRenewals();
  CUresult status = RoundTrip(call, body, reply);
  if (status == CUDA_SUCCESS) KeepAnswer(question, reply->body, renewals);
  return status;
}

CUresult RoundTripParts(CallId call, std::span<const std::byte> head,
                        std::span<const std::byte> tail, Reply* reply) {
  Session* session = CurrentSession();
  if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  CUresult status = WaitCounted(session, MakeRecord(call, head, tail), reply);
  if (kCallInfo[static_cast<size_t>(call)].renews) [[unlikely]]
    ForgetAnswers();
  Context* context = Self()->current;
  if (context != nullptr) {
    // A sticky error came with the reply as well as ahead of it: one report is enough unless the
    // call itself was fine.
    if (IsSticky(status)) RecordLateError(context, status);
    if (status == CUDA_SUCCESS) status = TakeLateError(context);
  }
  return status;
}

CUresult RoundTrip(CallId call, std::span<const std::byte> body, Reply* reply) {
  return RoundTripParts(call, body, {}, reply);
}

CUresult AskSession(SessionCall call, uint16_t context, std::span<const std::byte> body,
                    Reply* reply) {
  Session* session = CurrentSession();
  if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  Record record;
  record.call = static_cast<uint16_t>(call);
  record.thread = Self()->slot;
  record.context = context;
  record.head = body;
  return WaitCounted(session, record, reply);
}

CUresult TellSession(SessionCall call, uint16_t context, std::span<const std::byte> body) {
  Session* session = CurrentSession();
  if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  Record record;
  record.call = static_cast<uint16_t>(call);
  record.thread = Self()->slot;
  record.context = context;
  record.head = body;
  return session->PostRecord(record);
}

CUresult NotSupported(CallId call) {
  static std::atomic<bool> said[kCallIdCount];
  if (!said[static_cast<size_t>(call)].exchange(true)) {
    Log(LogLevel::kWarn, "%s is not supported", CallName(call));
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace farcall::client
