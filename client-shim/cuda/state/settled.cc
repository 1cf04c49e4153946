// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cuda/state/settled.h"

#include <algorithm>
#include <atomic>

#include "client-shim/core/host_functions.h"
#include "client-shim/core/session/session.h"
#include "client-shim/core/session/thread_state.h"
#include "client-shim/cuda/state/mirror.h"
#include "client-shim/cuda/state/stream.h"
#include "proto/raise.h"

namespace farcall::client {

namespace {

std::atomic<bool> g_shared{false};

LastWait LastWaitFor(uint64_t wire_stream) {
  if (wire_stream == kLegacyStream) return LastWaitOf(nullptr);
  Stream* stream = FindStream(reinterpret_cast<CUstream>(wire_stream));
  return stream == nullptr ? LastWait() : LastWaitOf(stream);
}

// Work that others do, or that the host may see, is known to the server alone.
bool IsServersToTell(Session* session, const Context* context) {
  return session == nullptr || context == nullptr || context->session != session ||
         g_shared.load() || context->captures.load() != 0 || HostFunctionsPending() ||
         AnyMirrors() || session->transfers().expected() != 0;
}

}  // namespace

LastWait LastWaitOf(Stream* stream) {
  if (stream != nullptr) return {&stream->waited, &stream->copied};
  Context* context = CurrentContext();
  if (context == nullptr) return {};
  return {&context->legacy_waited, &context->legacy_copied};
}

void NoteShared() {
  g_shared.store(true);
}

bool AnyShared() {
  return g_shared.load();
}

void NoteStreamWaited(const LastWait& last, uint64_t records) {
  if (last.records == nullptr) return;
  last.copied->store(false);
  RaiseTo(last.records, records);
}

void NoteStreamCopied(uint64_t wire_stream, uint64_t records) {
  LastWait last = LastWaitFor(wire_stream);
  if (last.records == nullptr) return;
  RaiseTo(last.records, records);
  last.copied->store(true);
}

void NoteContextWaited(uint64_t records) {
  Context* context = CurrentContext();
  if (context == nullptr) return;
  context->legacy_copied.store(false);
  RaiseTo(&context->all_waited, records);
}

// Host memory that work of other streams may still write (copies under way, mapped memory, host
// functions) would be seen behind a wait that the legacy stream shares with them.
bool HasNothingToTell(const LastWait& last) {
  Session* session = CurrentSession();
  Context* context = CurrentContext();
  if (IsServersToTell(session, context) || last.records == nullptr) return false;
  uint64_t up_to = std::max(last.records->load(), context->all_waited.load());
  if (session->last_work() > up_to) return false;
  return session->last_upload() > up_to || last.copied->exchange(false);
}

bool ContextHasNothingToTell() {
  Session* session = CurrentSession();
  Context* context = CurrentContext();
  // The legacy stream's order says nothing of streams that do not synchronise with it.
  if (IsServersToTell(session, context) || context->unordered_streams.load() != 0) return false;
  uint64_t up_to = std::max(context->legacy_waited.load(), context->all_waited.load());
  return session->last_work() <= up_to && session->last_upload() <= up_to &&
         context->legacy_copied.exchange(false);
}

bool BarrierSettles(uint64_t wire_stream) {
  Session* session = CurrentSession();
  Context* context = CurrentContext();
  LastWait last = LastWaitFor(wire_stream);
  if (IsServersToTell(session, context) || last.records == nullptr) return false;
  return CallingThreads() == 1 ||
         session->last_work() <= std::max(last.records->load(), context->all_waited.load());
}

}  // namespace farcall::client
