// SPDX-License-Identifier: Apache-2.0
// What every entry checks first, and the ways of a call to the server: post, round trip, query.
#include "client-shim/core/session/calls.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "client-shim/core/report/log.h"
#include "client-shim/core/report/stats.h"
#include "client-shim/core/session/answers.h"
#include "client-shim/core/session/error_map.h"
#include "generated/proto/call_info.h"

namespace farcall::client {

std::atomic<bool> g_all_clear{false};

namespace {
std::atomic<bool> g_sync{false};
}  // namespace

// What is stored last may have been looked up before the others changed: so look again.
void UpdateAllClear() {
  auto is_clear = [] {
    Session* session = g_session.load();
    return g_life.load() == Life::kReady && g_stats.load() == nullptr && !g_sync.load() &&
           !HasSeveralServers() && session != nullptr && session->ended() == CUDA_SUCCESS;
  };
  g_all_clear.store(is_clear());
  if (!is_clear()) g_all_clear.store(false);
}

void SetSync(bool sync) {
  g_sync.store(sync);
}

bool IsSync() {
  return g_sync.load(std::memory_order_relaxed);
}

CUresult EnterWithCare(CallId call, Needs needs) {
  if (HasSeveralServers()) [[unlikely]]
    BeginRoute();
  if (Stats* stats = g_stats.load(std::memory_order_relaxed)) [[unlikely]] {
    ThreadState* self = Self();
    self->call = static_cast<uint16_t>(call);
    self->waited = self->posted = false;
    stats->Of(self->call).calls.fetch_add(1, std::memory_order_relaxed);
  }
  if (needs == Needs::kNothing) return CUDA_SUCCESS;
  Life life = g_life.load(std::memory_order_acquire);
  if (life != Life::kReady) [[unlikely]]
    return life == Life::kLeft ? CUDA_ERROR_DEINITIALIZED : CUDA_ERROR_NOT_INITIALIZED;
  // One of several servers that is lost takes along its devices' contexts, and nothing else.
  Session* session = CurrentSession();
  const bool is_asked = needs == Needs::kContext || !HasSeveralServers();
  if (is_asked && session->ended() != CUDA_SUCCESS) [[unlikely]]
    return session->ended();
  if (needs == Needs::kContext) {
    Context* context = Self()->current;
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (!context->alive.load(std::memory_order_relaxed)) [[unlikely]]
      return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  return InfoOf(call).capture == CallCapture::kUnsafe ? CheckUnsafeInCapture() : CUDA_SUCCESS;
}

Record MakeRecord(CallId call, std::span<const std::byte> head, std::span<const std::byte> tail) {
  ThreadState* self = Self();
  const Context* context = HasSeveralServers() ? ContextFor(RoutedSession()) : self->current;
  Record record;
  record.call = static_cast<uint16_t>(call);
  record.thread = self->slot;
  record.context = context == nullptr ? 0 : context->slot;
  record.head = head;
  record.tail = tail;
  return record;
}

namespace {

// Where a record goes: to its context's server, if it has one.
Session* SessionOf(const Record& record) {
  if (!HasSeveralServers()) [[likely]]
    return g_session.load(std::memory_order_acquire);
  const Context* context = record.context == 0 ? nullptr : ContextBySlot(record.context);
  return context == nullptr ? RoutedSession() : context->session;
}

// Whose late errors a call with this record tells of.
Context* ContextOf(const Record& record) {
  if (!HasSeveralServers()) [[likely]]
    return Self()->current;
  return record.context == 0 ? nullptr : ContextBySlot(record.context);
}

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

CUresult PostRecord(const Record& record, const PostOptions& options) {
  if (options.serial != nullptr) *options.serial = 0;
  Session* session = SessionOf(record);
  if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (CUresult refused = CheckOneServer(record.call); refused != CUDA_SUCCESS) [[unlikely]]
    return refused;
  if (g_sync.load(std::memory_order_relaxed)) [[unlikely]]
    return WaitCounted(session, record, nullptr);
  CountPost();
  return session->PostRecord(record, options);
}

// Then what an earlier post has brought home. A call that was waited for has given its own answer.
CUresult Post(CallId call, std::span<const std::byte> head, std::span<const std::byte> tail,
              const PostOptions& options) {
  const Record record = MakeRecord(call, head, tail);
  CUresult posted = PostRecord(record, options);
  if (InfoOf(record.call).renews) [[unlikely]]
    ForgetAnswers();
  if (posted != CUDA_SUCCESS || g_sync.load(std::memory_order_relaxed)) [[unlikely]]
    return posted;
  Context* context = ContextOf(record);
  return context == nullptr ? CUDA_SUCCESS : TakeLateError(context);
}

CUresult Query(CallId call, std::span<const std::byte> body, Reply* reply) {
  Context* context = HasSeveralServers() ? ContextFor(RoutedSession()) : Self()->current;
  // Without a context, the server: no handle is that small.
  Question question = {call, context == nullptr ? CurrentServer() : context->handle, body};
  CUresult late = context == nullptr ? CUDA_SUCCESS : TakeLateError(context);
  if (late != CUDA_SUCCESS) return late;
  std::vector<std::byte> known;
  if (FindAnswer(question, &known)) {
    reply->status = CUDA_SUCCESS;
    std::copy(known.begin(), known.end(), reply->Allot(known.size()).begin());
    return CUDA_SUCCESS;
  }
  uint64_t renewals = AnswerRenewals();
  CUresult status = RoundTrip(call, body, reply);
  if (status == CUDA_SUCCESS) KeepAnswer(question, reply->body, renewals);
  return status;
}

namespace {

// What the caller is told: the call's own status, or what an earlier one has left.
inline CUresult ConcludeWait(CallId call, Context* context, CUresult status) {
  const CallInfo& info = InfoOf(call);
  if (info.renews) [[unlikely]]
    ForgetAnswers();
  if (context == nullptr) return status;
  if (status == CUDA_SUCCESS) [[likely]]
    return info.waits ? TakeErrorAtWait(context) : TakeLateError(context);
  // A sticky error came with the reply as well as ahead of it: one report is enough unless the
  // call itself was fine.
  if (IsSticky(status)) RecordLateError(context, status);
  return status;
}

[[gnu::noinline]] CUresult RoundTripWithCare(const Record& record, Reply* reply) {
  Session* session = SessionOf(record);
  if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (CUresult refused = CheckOneServer(record.call); refused != CUDA_SUCCESS) return refused;
  const CUresult status = WaitCounted(session, record, reply);
  return ConcludeWait(static_cast<CallId>(record.call), ContextOf(record), status);
}

}  // namespace

CUresult RoundTripParts(CallId call, std::span<const std::byte> head,
                        std::span<const std::byte> tail, Reply* reply) {
  const ThreadState* self = t_thread;
  if (!g_all_clear.load(std::memory_order_acquire) || self == nullptr) [[unlikely]]
    return RoundTripWithCare(MakeRecord(call, head, tail), reply);
  Context* context = self->current;
  Record record;
  record.call = static_cast<uint16_t>(call);
  record.thread = self->slot;
  record.context = context == nullptr ? 0 : context->slot;
  record.head = head;
  record.tail = tail;
  const CUresult status = g_session.load(std::memory_order_relaxed)->WaitRecord(record, reply);
  return ConcludeWait(call, context, status);
}

CUresult RoundTrip(CallId call, std::span<const std::byte> body, Reply* reply) {
  return RoundTripParts(call, body, {}, reply);
}

namespace {
Record SessionRecord(SessionCall call, uint16_t context, std::span<const std::byte> body) {
  Record record;
  record.call = static_cast<uint16_t>(call);
  record.thread = Self()->slot;
  record.context = context;
  record.head = body;
  return record;
}
}  // namespace

CUresult AskRecord(const Record& record, Reply* reply) {
  Session* session = SessionOf(record);
  if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return WaitCounted(session, record, reply);
}

CUresult AskSession(SessionCall call, uint16_t context, std::span<const std::byte> body,
                    Reply* reply) {
  return AskRecord(SessionRecord(call, context, body), reply);
}

CUresult TellSession(SessionCall call, uint16_t context, std::span<const std::byte> body) {
  const Record record = SessionRecord(call, context, body);
  Session* session = SessionOf(record);
  if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return session->PostRecord(record);
}

CUresult NotSupported(CallId call) {
  static std::atomic<bool> said[kCallIdCount];
  if (!said[static_cast<size_t>(call)].exchange(true))
    Log(LogLevel::kWarn, "%s is not supported", CallName(call));
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace farcall::client
