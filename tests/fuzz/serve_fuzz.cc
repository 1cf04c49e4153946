// SPDX-License-Identifier: Apache-2.0
// A real session fed by a hostile client (serve_items.h says what an input is). The session may
// refuse at any point; it never crashes, hangs, leaks, answers twice, or takes records whose sizes
// lie.
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "server/calls/graph/graph.h"
#include "server/nvml/nvml_service.h"
#include "server/session/session_loop.h"
#include "tests/fuzz/serve_client.h"
#include "tests/fuzz/serve_device.h"
#include "tests/fuzz/serve_items.h"
#include "tests/fuzz/serve_reached.h"

namespace {

using farcall::Code;
using farcall::HandleKind;
using farcall::ShareToken;
using farcall::Status;
using farcall::Window;
using farcall::fuzz::kLiveHandles;
using farcall::server::Session;
using farcall::server::Shared;

constexpr Window kWindow{farcall::fuzz::kWindowBase, farcall::fuzz::kWindowBytes};

class Broker final : public farcall::server::MemoryBroker {
 public:
  Status Charge(int, uint64_t bytes) override {
    uint64_t before = charged_.fetch_add(bytes);
    if (before + bytes >= before && before + bytes <= kWindow.bytes) return {};
    charged_ -= bytes;
    return {Code::kQuotaExceeded, "over the quota"};
  }
  void Refund(int, uint64_t bytes) override {
    if (charged_.fetch_sub(bytes) < bytes) std::abort();  // more came back than was charged
  }
  farcall::quota::Usage Query(int) override { return {kWindow.bytes, charged_}; }

  // One session lends to itself. Tokens count from one, so that an input can name them.
  Status Share(int descriptor, int device, uint64_t bytes, ShareToken* token) override {
    std::lock_guard lock(mutex_);
    *token = {1, shared_.size() + 1};
    shared_.push_back({dup(descriptor), device, bytes, 1});
    return {};
  }
  Status Redeem(const ShareToken& token, Shared* shared) override {
    std::lock_guard lock(mutex_);
    Held* held = FindLocked(token);
    if (held == nullptr) return {Code::kUnavailable, "no such token"};
    ++held->holders;
    *shared = {dup(held->descriptor), held->device, held->bytes};
    return {};
  }
  void DropShared(const ShareToken& token) override {
    std::lock_guard lock(mutex_);
    Held* held = FindLocked(token);
    if (held == nullptr) std::abort();  // let go more often than held
    if (--held->holders == 0) {
      close(held->descriptor);
      Refund(held->device, held->bytes);
    }
  }
  ~Broker() override {
    for (const Held& held : shared_)
      if (held.holders != 0) close(held.descriptor);
  }

 private:
  struct Held {
    int descriptor = -1;
    int device = 0;
    uint64_t bytes = 0;
    int holders = 0;
  };
  Held* FindLocked(const ShareToken& token) {
    if (token.high != 1 || token.low == 0 || token.low > shared_.size()) return nullptr;
    Held& held = shared_[token.low - 1];
    return held.holders == 0 ? nullptr : &held;
  }

  std::atomic<uint64_t> charged_{0};
  std::mutex mutex_;
  std::vector<Held> shared_;
};

// The kinds of handle that an input's words could be. Pages of tables that no record looks at would
// be most of an execution's cost.
std::set<HandleKind> KindsNamed(std::span<const uint8_t> input) {
  std::set<HandleKind> kinds;
  for (size_t at = 0; at + 8 <= input.size(); at += 4) {  // items begin at multiples of 4
    uint64_t word = 0;
    std::memcpy(&word, input.data() + at, sizeof(word));
    farcall::HandleParts parts = farcall::SplitHandle(word);
    if (farcall::HasHandleForm(word) && parts.index <= kLiveHandles &&
        parts.kind > HandleKind::kContext && parts.kind <= HandleKind::kLast)
      kinds.insert(parts.kind);
  }
  return kinds;
}

// What a client would have made by then.
void Prepare(Session& session, const farcall::server::DriverApi& api,
             std::span<const uint8_t> input) {
  for (uint16_t slot = 1; slot <= farcall::fuzz::kContexts; ++slot) {
    farcall::server::ContextState& context = session.contexts().Make(slot);
    context.generation = 1;
    context.native = static_cast<CUcontext>(farcall::fuzz::NewNative());
    session.table(HandleKind::kContext)
        .Set(slot, 1, farcall::server::HandleTable::State::kLive, context.native);
  }
  farcall::RecordHeader header;
  farcall::server::Turn turn;
  farcall::server::ServeCall call(session, api, header, {}, turn);
  call.context = session.contexts().at(1);
  std::set<HandleKind> kinds = KindsNamed(input);
  bool has_nodes = kinds.erase(HandleKind::kGraphNode) != 0;
  kinds.erase(HandleKind::kMemHandle);  // physical memory is nobody's to make up: cuMemCreate
  if (has_nodes) kinds.insert(HandleKind::kGraph);
  for (HandleKind kind : kinds)
    for (uint32_t index = 1; index <= kLiveHandles; ++index)
      call.Insert(kind, farcall::MakeHandle(kind, index, 1), farcall::fuzz::NewNative());
  // Nodes of the first graph.
  uint64_t graph = farcall::MakeHandle(HandleKind::kGraph, 1, 1);
  for (uint32_t index = 1; has_nodes && index <= kLiveHandles; ++index) {
    farcall::server::NameNode(call, graph, farcall::server::FindGraph(call, graph),
                              farcall::MakeHandle(HandleKind::kGraphNode, index, 1),
                              static_cast<CUgraphNode>(farcall::fuzz::NewNative()), {});
  }
}

void PrepareMemory(Session& session) {
  Window credit;
  std::string detail;
  if (session.ReserveWindow({kWindow}) != 0 ||
      session.memory().Grant(0, farcall::fuzz::kCreditBytes, &credit, &detail) != CUDA_SUCCESS)
    std::abort();
}

void RunSession(std::span<const uint8_t> items, bool is_prepared, bool is_raw) {
  const farcall::server::DriverApi& api = farcall::fuzz::FuzzDevice();
  Broker broker;
  farcall::server::SessionOptions options;
  options.devices = farcall::fuzz::kDevices;
  options.grace_ms = 1;
  options.spin_us = 0;
#ifdef FARCALL_NVML
  // No library: what questions say is read, and the tenant's figures are answered.
  std::vector<farcall::DeviceSnapshot> devices(farcall::fuzz::kDevices);
  options.nvml =
      std::make_shared<farcall::server::NvmlService>("/nonexistent/libcuda.so.1", devices, broker);
#endif
  options.first_credit_bytes = 0;
  farcall::fuzz::Conversation conversation(is_raw);
  farcall::server::SessionLoop loop(api, options, broker);
  PrepareMemory(loop.session());
  if (is_prepared) Prepare(loop.session(), api, items);
  auto client = std::make_unique<farcall::fuzz::Client>(loop, conversation, items, is_raw);
  bool sizes_lie = client->sizes_lie();
  loop.link().AttachLog(std::move(client), 0, 0);
  Status why = loop.Run();
  if (sizes_lie && why.code() != Code::kMalformed) std::abort();
  farcall::fuzz::ResetDevice([](void* of) { static_cast<Session*>(of)->host_calls().FinishAll(); },
                             &loop.session());
  conversation.NoteServed(why);
}

}  // namespace

// Large chunks kept in quarantine would cost more than they find here.
extern "C" const char* __asan_default_options() {
  return "quarantine_size_mb=32:malloc_context_size=8:use_sigaltstack=0:"
         "allocator_release_to_os_interval_ms=-1";
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  // Slots of a megabyte, of which an input touches a few bytes, in pages of two.
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  // A sanitizer pays for each thread's stack, and each session has threads.
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 512u << 10);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
  if (std::getenv("FARCALL_FUZZ_REPORT") != nullptr) std::atexit(farcall::fuzz::ReportReached);
  return 0;
}

// For replay_main: the smallest share of handlers that the inputs so far have reached.
extern "C" double ReachedPercent() {
  farcall::fuzz::ReportReached();
  return std::min({farcall::fuzz::GeneratedReached().percent(),
                   farcall::fuzz::HandwrittenReached().percent(),
                   farcall::fuzz::MessagesReached().percent()});
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  RunSession(std::span(data + 1, size - 1), (data[0] & farcall::fuzz::kPrepared) != 0,
             (data[0] & farcall::fuzz::kRawFrame) != 0);
  farcall::fuzz::UnmapRegistered();
  cuMemAddressFree(kWindow.base, kWindow.bytes);
  return 0;
}
