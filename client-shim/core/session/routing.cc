// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/session/routing.h"

#include <array>

#include "client-shim/core/report/log.h"
#include "client-shim/core/session/contexts.h"
#include "client-shim/core/session/session.h"
#include "client-shim/core/session/thread_state.h"
#include "generated/proto/call_info.h"

namespace farcall::client {

std::atomic<bool> g_several_servers{false};
std::atomic<Spread> g_spread{nullptr};

namespace {
std::array<Session*, kMaxServers> g_sessions;
std::atomic<size_t> g_session_count{0};
// By server: the context that was made current there last.
std::array<std::atomic<Context*>, kMaxServers> g_contexts;
}  // namespace

std::span<Session* const> Sessions() {
  return {g_sessions.data(), g_session_count.load(std::memory_order_acquire)};
}

void AddSession(Session* session) {
  const size_t count = g_session_count.load();
  g_sessions[count] = session;
  g_session_count.store(count + 1, std::memory_order_release);
  if (count == 0)
    g_session.store(session, std::memory_order_release);
  else
    g_several_servers.store(true);
}

void ForgetSessions() {
  g_several_servers.store(false);
  g_session.store(nullptr);
  g_session_count.store(0);
  for (std::atomic<Context*>& context : g_contexts) context.store(nullptr);
}

Session* RoutedSession() {
  const ThreadState* self = Self();
  if (self->route != nullptr) return self->route;
  if (self->current != nullptr) return self->current->session;
  return g_session.load(std::memory_order_acquire);
}

uint8_t CurrentServer() {
  return HasSeveralServers() ? RoutedSession()->index() : 0;
}

void NoteContext(Context* context) {
  if (context->session != nullptr) g_contexts[context->session->index()].store(context);
}

Context* ContextFor(Session* session) {
  Context* current = Self()->current;
  if (current != nullptr && current->session == session) return current;
  Context* other = session == nullptr ? nullptr : g_contexts[session->index()].load();
  return other != nullptr && other->alive.load() ? other : nullptr;
}

void BeginRoute() {
  ThreadState* self = Self();
  self->route = nullptr;
  self->spans = false;
}

void NoteServer(Session* session) {
  if (!HasSeveralServers() || session == nullptr) return;
  ThreadState* self = Self();
  if (self->route == nullptr) self->route = session;
  if (self->route != session) self->spans = true;
}

void NoteServerIndex(uint8_t server) {
  const std::span<Session* const> sessions = Sessions();
  if (server < sessions.size()) NoteServer(sessions[server]);
}

Session* ServerOfAddress(uint64_t address) {
  for (Session* session : Sessions())
    if (session->window().Contains(address, 1)) return session;
  return nullptr;
}

void NoteAddressSlowly(uint64_t address) {
  NoteServer(ServerOfAddress(address));
}

CUresult CheckOneServerSlowly(uint16_t call) {
  if (!Self()->spans) return CUDA_SUCCESS;
  static std::atomic<bool> said[kCallIdCount];
  if (call >= kCallIdCount || !said[call].exchange(true))
    Log(LogLevel::kWarn,
        "%s: what it names belongs to devices of two servers, which is not supported",
        CallName(call));
  return CUDA_ERROR_NOT_SUPPORTED;
}

void ServerScope::Begin(Session* session) {
  ThreadState* self = Self();
  began_ = true;
  before_ = self->route;
  spans_before_ = self->spans;
  self->route = session;
  self->spans = false;
}

void ServerScope::End() {
  ThreadState* self = Self();
  self->route = before_;
  self->spans = spans_before_;
}

}  // namespace farcall::client
