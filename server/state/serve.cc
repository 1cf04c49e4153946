// SPDX-License-Identifier: Apache-2.0
// Resolving what a record names: handles, streams, addresses, devices.
#include "server/state/serve.h"

#include <algorithm>

#include "server/state/objects/array_state.h"
#include "server/state/objects/context_state.h"
#include "server/state/objects/graph_state.h"
#include "server/state/objects/link_state.h"
#include "server/state/session.h"

namespace farcall::server {

namespace {

CUresult StaleCode(HandleKind kind) {
  return kind == HandleKind::kContext ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_HANDLE;
}

// Objects without a destroy call of their own go with their parent; the client may then use their
// index again.
bool OwnedByParent(HandleKind kind) {
  return kind == HandleKind::kFunction || kind == HandleKind::kKernel ||
         kind == HandleKind::kGraphNode || kind == HandleKind::kTexObject ||
         kind == HandleKind::kSurfObject;
}

// Destroyed handles stay listed until there are many of them: a program that makes and destroys
// events for hours costs nothing.
void PruneOwned(Session& session, ContextState& context) {
  std::erase_if(context.owned, [&session](const auto& owned) {
    HandleParts parts = SplitHandle(owned.second);
    HandleTable::Found found = session.table(owned.first).Find(parts.index, parts.generation);
    return !found.generation_matches || found.state != HandleTable::State::kLive;
  });
  context.prune_owned_at = std::max<size_t>(1024, 2 * context.owned.size());
}

}  // namespace

void DeleteExtra(HandleKind kind, void* extra) {
  switch (kind) {
    case HandleKind::kStream:
      delete static_cast<StreamState*>(extra);
      return;
    case HandleKind::kEvent:
      delete static_cast<EventState*>(extra);
      return;
    case HandleKind::kFunction:
    case HandleKind::kKernel:
      delete static_cast<FunctionState*>(extra);
      return;
    case HandleKind::kArray:
    case HandleKind::kMipmappedArray:
      delete static_cast<ArrayState*>(extra);
      return;
    case HandleKind::kLinkState:
      delete static_cast<LinkState*>(extra);
      return;
    case HandleKind::kMemHandle:
      delete static_cast<PhysicalMemory*>(extra);
      return;
    case HandleKind::kGraph:
      delete static_cast<GraphState*>(extra);
      return;
    case HandleKind::kGraphNode:
      delete static_cast<GraphNodeState*>(extra);
      return;
    default:
      return;
  }
}

void ServeCall::Reject(const char* what) {
  if (!rejected_) reject_reason_ = what;
  rejected_ = true;
}

// What is not there yet may be on its way: a slow create runs on the helper while the log goes on.
// Then this record waits; once the helper has nothing left, what is still missing is the record's
// fault.
void* ServeCall::ResolveRaw(HandleKind kind, uint64_t wire, bool optional) {
  if (wire == 0) {
    if (!optional && result == CUDA_SUCCESS) result = CUDA_ERROR_INVALID_HANDLE;
    return nullptr;
  }
  HandleParts parts = SplitHandle(wire);
  if (parts.kind != kind || !HasHandleForm(wire) || parts.index == 0) {
    Reject("a handle of another kind");
    return nullptr;
  }
  if (kind == HandleKind::kEvent && !on_helper) {
    turn.touched.events.push_back(wire);
    if (session.ahead().TouchesEvent(wire)) {
      stalled = turn.blocked = true;
      return nullptr;
    }
  }
  // Asked before the table: a helper that finishes in between has then already filled it.
  bool may_come = !on_helper && session.helper_busy();
  HandleTable::Found found = session.table(kind).Find(parts.index, parts.generation);
  if (found.state == HandleTable::State::kLive && found.generation_matches) {
    if (kind == HandleKind::kStream && !MayUse(*static_cast<StreamState*>(found.extra)))
      return nullptr;
    return found.native;
  }
  if (may_come)
    stalled = true;
  else if (found.state == HandleTable::State::kNever)
    Reject("a handle never assigned");
  else if (result == CUDA_SUCCESS)
    result = StaleCode(kind);
  return nullptr;
}

void* ServeCall::ResolveExtra(HandleKind kind, uint64_t wire) {
  if (ResolveRaw(kind, wire, false) == nullptr) return nullptr;
  HandleParts parts = SplitHandle(wire);
  return session.table(kind).Find(parts.index, parts.generation).extra;
}

// Noted also when something else stalls the record: it may come to stand in the side queue.
bool ServeCall::MayUse(const StreamState& stream) {
  if (on_helper) return true;
  turn.touched.streams.push_back(stream.key);
  turn.touched.default_stream |= stream.is_default;
  turn.touched.blocking_stream |= stream.blocking;
  if (session.ahead().Touches(stream)) {
    stalled = turn.blocked = true;
    return false;
  }
  return true;
}

StreamState* ServeCall::FindStream(uint64_t wire) {
  if (wire == 1 || wire == 2) {
    if (context == nullptr) {
      if (result == CUDA_SUCCESS) result = CUDA_ERROR_INVALID_CONTEXT;
      return nullptr;
    }
    if (wire == 2 && on_helper) {
      result = CUDA_ERROR_NOT_SUPPORTED;  // per-thread streams are the issue thread's
      return nullptr;
    }
    StreamState* stream = wire == 1 ? &context->legacy
                                    : session.streams().PerThread(*context, header.thread, &result);
    return stream != nullptr && MayUse(*stream) ? stream : nullptr;
  }
  return static_cast<StreamState*>(ResolveExtra(HandleKind::kStream, wire));
}

CUstream ServeCall::ResolveStream(uint64_t wire) {
  StreamState* stream = FindStream(wire);
  if (stream == nullptr) return nullptr;
  if (!on_helper) session.streams().MarkActive(*stream);
  session.streams().NoteWork(*stream);
  return stream->native;
}

CUdeviceptr ServeCall::ResolveAddress(uint64_t wire, uint64_t bytes) {
  if (bytes == 0) {
    return wire;
  }  // nothing is touched
  if (!session.OwnsMemory(wire, bytes)) Reject("an address outside the session's memory");
  return wire;
}

CUdevice ServeCall::ResolveDevice(int32_t ordinal) {
  if (ordinal < 0 || ordinal >= session.options().devices) {
    if (result == CUDA_SUCCESS) result = CUDA_ERROR_INVALID_DEVICE;
    return 0;
  }
  return ordinal;  // the driver's CUdevice is the ordinal
}

void ServeCall::CheckNew(HandleKind kind, uint64_t wire) {
  HandleParts parts = SplitHandle(wire);
  if (parts.kind != kind || !HasHandleForm(wire)) return Reject("a new handle of another kind");
  if (kind == HandleKind::kContext && parts.index > UINT16_MAX)
    return Reject("a context slot over 65535");
  // Its last life may end on the helper or in the side queue.
  bool may_come = !on_helper && (session.helper_busy() || session.holds_records());
  HandleTable& table = session.table(kind);
  HandleTable::Found now = table.FindNewest(parts.index);
  bool replaces = OwnedByParent(kind) && now.state == HandleTable::State::kLive &&
                  !table.Find(parts.index, parts.generation).generation_matches;
  if (replaces || table.MayCreate(parts.index, parts.generation)) {
    if (replaces) session.retained().RetireReplaced(kind, now.extra);
    // Until Insert says otherwise: a post that fails leaves a handle that later records may name.
    table.Set(parts.index, parts.generation, HandleTable::State::kFailed, nullptr);
    return;
  }
  if (may_come)
    stalled = true;
  else
    Reject("a new handle that is taken");
}

void ServeCall::Insert(HandleKind kind, uint64_t wire, void* native) {
  HandleParts parts = SplitHandle(wire);
  void* extra = nullptr;
  if (kind == HandleKind::kStream) {
    auto* stream =
        new StreamState{session.streams().NewKey(), static_cast<CUstream>(native), context, false};
    unsigned flags = 0;
    stream->blocking = api.cuStreamGetFlags == nullptr ||
                       api.cuStreamGetFlags(stream->native, &flags) != CUDA_SUCCESS ||
                       (flags & CU_STREAM_NON_BLOCKING) == 0;
    extra = stream;
  } else if (kind == HandleKind::kEvent) {
    extra = new EventState();
  } else if (kind == HandleKind::kArray || kind == HandleKind::kMipmappedArray) {
    extra = new ArrayState();
  } else if (kind == HandleKind::kLinkState) {
    extra = new LinkState{static_cast<CUlinkState>(native), {}, {}};
  } else if (kind == HandleKind::kGraph) {
    auto* graph = new GraphState;
    graph->native = static_cast<CUgraph>(native);
    extra = graph;
  }
  session.table(kind).Set(parts.index, parts.generation, HandleTable::State::kLive, native, extra);
  const bool outlives_contexts = kind == HandleKind::kLibrary || kind == HandleKind::kKernel;
  if (context != nullptr && !outlives_contexts) {
    std::lock_guard lock(context->owned_mutex);
    if (context->owned.size() >= context->prune_owned_at) PruneOwned(session, *context);
    context->owned.emplace_back(kind, wire);
  }
}

void ServeCall::Erase(HandleKind kind, uint64_t wire) {
  HandleParts parts = SplitHandle(wire);
  HandleTable::Found found = session.table(kind).Find(parts.index, parts.generation);
  if (found.state != HandleTable::State::kLive || !found.generation_matches) return;
  if (kind == HandleKind::kStream)
    session.streams().Orphan(*static_cast<StreamState*>(found.extra));
  session.table(kind).Kill(parts.index, parts.generation);
  DeleteExtra(kind, found.extra);
}

bool ServeCall::AnswerNotReady() {
  if (!turn.blocked || rejected_ || result != CUDA_SUCCESS) return false;
  stalled = turn.blocked = false;
  result = CUDA_ERROR_NOT_READY;
  return true;
}

Status ServeCall::Malformed(const char* what) const {
  return {Code::kMalformed,
          std::string(header.call < kDispatchRows ? kDispatchTable[header.call].name : "?") + ": " +
              what};
}

Status ServeCall::RejectStatus() const {
  return rejected_ ? Malformed(reject_reason_) : Status();
}

}  // namespace farcall::server
