// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cuda/settled.h"

#include <algorithm>
#include <atomic>

#include "client-shim/core/host_functions.h"
#include "client-shim/core/session.h"
#include "client-shim/core/thread_state.h"
#include "client-shim/cuda/mirror.h"
#include "client-shim/cuda/stream.h"
#include "proto/raise.h"

namespace farcall::client {

namespace {

std::atomic<bool> g_shared{false};

std::atomic<uint64_t>* WaitedUpTo(uint64_t wire_stream) {
  if (wire_stream == kLegacyStream) {
    Context* context = CurrentContext();
    return context == nullptr ? nullptr : &context->legacy_waited;
  }
  Stream* stream = FindStream(reinterpret_cast<CUstream>(wire_stream));
  return stream == nullptr ? nullptr : &stream->waited;
}

}  // namespace

void NoteShared() {
  g_shared.store(true);
}

void NoteStreamWaited(uint64_t wire_stream, uint64_t records) {
  if (std::atomic<uint64_t>* waited = WaitedUpTo(wire_stream)) RaiseTo(waited, records);
}

void NoteContextWaited(uint64_t records) {
  if (Context* context = CurrentContext()) RaiseTo(&context->all_waited, records);
}

// Host memory that work of other streams may still write (copies under way, mapped memory, host
// functions) would be seen behind a wait that the legacy stream shares with them.
bool HasNothingToTell(uint64_t wire_stream) {
  Session* session = CurrentSession();
  Context* context = CurrentContext();
  std::atomic<uint64_t>* waited = WaitedUpTo(wire_stream);
  if (session == nullptr || context == nullptr || waited == nullptr || g_shared.load() ||
      context->captures.load() != 0 || HostFunctionsPending() || AnyMirrors() ||
      session->transfers().expected() != 0) {
    return false;
  }
  uint64_t up_to = std::max(waited->load(), context->all_waited.load());
  // Without an upload there is nothing to wait for either: a program may ask to see whether the
  // device answers.
  return session->last_work() <= up_to && session->last_upload() > up_to;
}

}  // namespace farcall::client
