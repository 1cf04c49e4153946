// SPDX-License-Identifier: Apache-2.0
// Changes are found by comparing with what both sides last agreed on; each side sends and takes
// only the bytes that changed, so idle pages cross nothing and what host and device write side by
// side survives. Partner: server/memory/mirrors.cc.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#pragma GCC diagnostic ignored "-Wstringop-overflow"  // wrong where GCC 12 inlines the library
#pragma GCC diagnostic ignored "-Warray-bounds"
#endif

#include "client-shim/cuda/state/mirror.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "client-shim/core/report/log.h"
#include "client-shim/core/roles.h"
#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/cuda/objects/shared_host.h"
#include "client-shim/cuda/state/copy.h"
#include "client-shim/cuda/state/stream.h"
#include "proto/changed_bytes.h"
#include "proto/raise.h"
#include "proto/shared_bytes.h"

namespace farcall::client {

namespace mirror_internal {
std::atomic<uint32_t> g_mirrors{0}, g_adopted{0};
}

namespace {

constexpr uint64_t kLargeRunBytes = 64u << 10;
constexpr uint64_t kRunsBytes = 48u << 10;  // of one record
// A run's most: the thread that reads the socket waits so long, and its mask fits a record.
constexpr uint64_t kLookedAtOnceBytes = 1u << 20;
// What is compared at each wait: flags, not data.
constexpr uint64_t kPolledBytes = 32u << 10, kAllPolledBytes = 1u << 20;

struct Mirror {
  uint64_t bytes = 0;
  std::byte* memory = nullptr;  // the program's
  std::byte* agreed = nullptr;
  uint64_t valid_bytes = 0;  // of memory; registered memory need not fill its pages
  MirrorKind kind = MirrorKind::kPinned;
  bool concurrent = true;
  uint64_t device_address = 0;  // of a variable; else it is the mirror's own
  bool fresh = true;  // the program has waited since it was last compared: it may have written
};

struct State {
  // Held by whoever sends, or adds or ends a mirror; never by the thread that reads the socket.
  std::mutex push;
  // The mirrors and their agreed copies: shortly, and never while something is sent.
  std::mutex mutex;
  // By server (routing.h) and address: several may mirror the same memory.
  std::array<std::map<uint64_t, Mirror>, kMaxServers> mirrors;
  std::map<uint64_t, Mirror>& here() { return mirrors[CurrentServer()]; }
  // By server: how often it said that there is more to ask for; up to where it was asked.
  struct News {
    std::atomic<uint64_t> told{0}, asked{0};
  };
  std::array<News, kMaxServers> news;
};
State* g_state = new State;

// A run of pages, from the first changed word to the last.
struct Run {
  uint64_t address = 0;
  std::vector<std::byte> bytes, mask;
};

class RunWriter {
 public:
  void Add(const Run& run) {
    runs_.Put<uint64_t>(run.address);
    runs_.PutBytes(run.bytes.data(), run.bytes.size());
    runs_.PutBytes(run.mask.data(), run.mask.size());
    if (runs_.bytes().size() > kRunsBytes) Send();
  }
  void Send() {
    if (runs_.bytes().empty()) return;
    Builder body;
    for (int i = 0; i < 3; ++i) body.Put<uint64_t>(0);  // no transfer
    body.PutBytes(runs_.bytes().data(), runs_.bytes().size());
    body.mutable_bytes().resize(AlignUp(body.bytes().size(), 8));
    TellSession(SessionCall::kMirrorUp, 0, body.bytes());
    runs_ = Builder();
  }

 private:
  Builder runs_;
};

void SendLarge(const Run& run) {
  Session* session = CurrentSession();
  if (session == nullptr || !session->link().OpenLanes().ok()) return;
  uint64_t transfer = session->transfers().NewId();
  session->transfers().AwaitRoom(run.bytes.size());
  Status sent = session->link().SendTransfer(transfer, 0, run.bytes, Link::Retain::kCopied);
  if (!sent.ok()) return;  // the session ends; every call says so
  Builder body;
  body.Put<uint64_t>(transfer);
  body.Put<uint64_t>(run.address);
  body.Put<uint64_t>(run.bytes.size());
  body.PutBytes(run.mask.data(), run.mask.size());
  body.mutable_bytes().resize(AlignUp(body.bytes().size(), 8));
  TellSession(SessionCall::kMirrorUp, 0, body.bytes());
}

// What the program wrote from `from` on, at most until `to`: pages that touch, or nothing. *next:
// where to look on. The agreed copy follows.
Run FindRunLocked(uint64_t base, Mirror& mirror, uint64_t from, uint64_t to, uint64_t* next) {
  auto bytes_of = [&](uint64_t page) {
    return std::min(kHostPageBytes, mirror.valid_bytes - page);
  };
  auto changed = [&](uint64_t page) {
    return SharedBytesDiffer(mirror.memory + page, mirror.agreed + page, bytes_of(page));
  };
  while (from < to && !changed(from)) from += kHostPageBytes;
  uint64_t end = from;
  while (end < to && changed(end)) end += kHostPageBytes;
  *next = end;
  end = std::min(end, mirror.valid_bytes);
  Run run;
  if (from >= end) return run;
  run.address = base + from;
  run.bytes.resize(end - from);
  CopySharedBytes(run.bytes.data(), mirror.memory + from, end - from);
  run.mask.resize(MaskBytes(run.bytes.size()));
  if (!MaskChanged(run.bytes, mirror.agreed + from, run.mask.data())) {
    run.bytes.clear();
    return run;
  }
  std::memcpy(mirror.agreed + from, run.bytes.data(), run.bytes.size());
  return run;
}

// A small run without the words around it that have not changed.
void Trim(Run* run) {
  size_t first = 0, last = run->mask.size();
  while (run->mask[first] == std::byte{0}) ++first;
  while (run->mask[last - 1] == std::byte{0}) --last;
  size_t end = std::min(last * 8, run->bytes.size());
  run->address += first * 8;
  run->bytes = {run->bytes.begin() + static_cast<ptrdiff_t>(first * 8),
                run->bytes.begin() + static_cast<ptrdiff_t>(end)};
  run->mask = {run->mask.begin() + static_cast<ptrdiff_t>(first),
               run->mask.begin() + static_cast<ptrdiff_t>(last)};
}

void Push(RunWriter* writer, uint64_t base, Mirror& mirror) {
  for (uint64_t at = 0; at < mirror.valid_bytes;) {
    uint64_t to = std::min(at + kLookedAtOnceBytes, AlignUp(mirror.valid_bytes, kHostPageBytes));
    Run run;
    {
      std::lock_guard lock(g_state->mutex);
      run = FindRunLocked(base, mirror, at, to, &at);
    }
    if (run.bytes.empty()) continue;
    if (run.bytes.size() >= kLargeRunBytes) {
      SendLarge(run);
      continue;
    }
    Trim(&run);
    writer->Add(run);
  }
}

Mirror* FindLocked(uint8_t server, uint64_t address, uint64_t bytes, uint64_t* base) {
  std::map<uint64_t, Mirror>& mirrors = g_state->mirrors[server];
  auto after = mirrors.upper_bound(address);
  if (after == mirrors.begin()) return nullptr;
  auto& [start, mirror] = *std::prev(after);
  *base = start;
  return Window{start, mirror.bytes}.Contains(address, bytes) ? &mirror : nullptr;
}

// Where the device has the variable that the program has at `address`; 0: none is there.
uint64_t VariableAt(uint64_t address) {
  std::lock_guard lock(g_state->mutex);
  uint64_t base = 0;
  const Mirror* mirror = FindLocked(CurrentServer(), address, 1, &base);
  return mirror == nullptr || mirror->device_address == 0
             ? 0
             : mirror->device_address + (address - base);
}

}  // namespace

namespace mirror_internal {
CUresult AskForMore() {
  State::News& news = g_state->news[CurrentServer()];
  uint64_t told = news.told.load();
  uint64_t from = 0;
  while (news.asked.load() < told) {
    FixedBody<8> body;
    body.Put<uint64_t>(from);
    Reply reply;
    CUresult status = AskSession(SessionCall::kMirrorDown, 0, body.bytes(), &reply);
    if (status != CUDA_SUCCESS) return status;
    Reader outputs = reply.outputs();
    uint64_t before_it = std::exchange(from, outputs.Get<uint64_t>());
    if (!outputs.Done() || (from != 0 && from <= before_it)) return CUDA_ERROR_UNKNOWN;
    if (from != 0) continue;
    RaiseTo(&news.asked, told);
  }
  return CUDA_SUCCESS;
}
}  // namespace mirror_internal

bool NoteMirrored(Reader body, uint8_t server) {
  auto more = body.Get<uint64_t>();
  std::lock_guard lock(g_state->mutex);
  while (body.ok() && body.remaining_bytes() >= 8) {
    auto address = body.Get<uint64_t>();
    std::span<const std::byte> bytes = body.GetBytes();
    std::span<const std::byte> mask = body.GetBytes();
    if (!body.ok() || !MaskFits(mask.size(), bytes.size())) return false;
    uint64_t base = 0;
    Mirror* mirror = FindLocked(server, address, bytes.size(), &base);
    if (mirror == nullptr) {  // ended meanwhile, unless it never can have been
      if (!InHostWindows(address, bytes.size())) return false;
      continue;
    }
    uint64_t offset = address - base;
    if (offset >= mirror->valid_bytes) continue;
    bytes = bytes.first(std::min(bytes.size(), mirror->valid_bytes - offset));
    TakeChanged(bytes, mask, mirror->memory + offset, mirror->agreed + offset);
  }
  if (!body.Done()) return false;
  if (more != 0) g_state->news[server].told.fetch_add(1);
  return true;
}

namespace mirror_internal {

void PushAll() {
  std::lock_guard pushing(g_state->push);
  RunWriter writer;
  Context* context = CurrentContext();
  bool captures = context != nullptr && context->captures.load() != 0;
  for (auto& [base, mirror] : g_state->here()) {
    // Managed memory is the device's until the program has waited: nothing in it is new.
    {
      std::lock_guard lock(g_state->mutex);
      if (!mirror.concurrent && !mirror.fresh) continue;
      mirror.fresh = captures;  // what is captured does not run yet
    }
    Push(&writer, base, mirror);
  }
  writer.Send();
}

void PushSmall() {
  std::lock_guard pushing(g_state->push);
  RunWriter writer;
  uint64_t bytes = 0;
  for (auto& [base, mirror] : g_state->here()) {
    if (mirror.kind != MirrorKind::kPinned || mirror.bytes > kPolledBytes) continue;
    if ((bytes += mirror.bytes) > kAllPolledBytes) break;
    Push(&writer, base, mirror);
  }
  writer.Send();
}

void PullAll() {
  CUresult status = AskForMore();
  {
    std::lock_guard lock(g_state->mutex);
    for (auto& [base, mirror] : g_state->here()) mirror.fresh = true;
  }
  Context* context = ContextFor(CurrentSession());
  if (status != CUDA_SUCCESS && context != nullptr) RecordLateError(context, status);
}

uint64_t AddressOfVariable(uint64_t address) {
  uint64_t there = HostAddresses().Holds(address) ? VariableAt(address) : 0;
  if (there == 0) return address;
  PushMirrors();
  return there;
}

uint64_t ExposeWord(uint64_t word) {
  if (g_adopted.load() != 0) {
    uint64_t there = VariableAt(word);
    if (there != 0) return there;
  }
  Allocation found;
  CUresult status = CUDA_SUCCESS;
  if (!Memory().Find(word, &found) || found.kind == MemoryKind::kDevice) return word;
  if (!found.mirrored || !OnDevice(found)) Expose(found, &status);
  if (status != CUDA_SUCCESS && found.servers != 0) Self()->spans = true;
  SettleMirror(found);
  return word;
}

}  // namespace mirror_internal

void NoteMirrorUse() {
  PushMirrors();
}

// Devices reach page-locked memory by the address that the program has for it, mapped or not
// (unified addressing).
uint64_t AddressOnDevice(uint64_t address) {
  Allocation found;
  const bool is_host =
      Memory().Find(address, &found) && !OnDevice(found) &&
      (found.kind == MemoryKind::kHostOwned || found.kind == MemoryKind::kHostRegistered);
  CUresult status = CUDA_SUCCESS;
  if (CUdeviceptr base = is_host ? Expose(found, &status) : 0; base != 0)
    return base + (address - found.base);
  return DeviceAddress(address);
}

namespace {

std::byte* NewAgreed(uint64_t bytes) {
  void* agreed = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return agreed == MAP_FAILED ? nullptr : static_cast<std::byte*>(agreed);
}

void Keep(uint64_t address, const Mirror& mirror) {
  std::lock_guard pushing(g_state->push);
  std::lock_guard lock(g_state->mutex);
  g_state->here()[address] = mirror;
  mirror_internal::g_mirrors.fetch_add(1);
}

}  // namespace

CUresult MakeMirror(uint64_t address, uint64_t bytes, uint64_t from, MirrorKind kind, int device) {
  if (!ServerMirrors()) {
    static std::atomic<bool> said{false};
    if (!said.exchange(true))
      Log(LogLevel::kWarn, "the server mirrors no host memory as this client does: it is older");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  uint64_t whole = AlignUp(bytes, kHostPageBytes);
  FixedBody<24> body;
  body.Put<uint64_t>(address);
  body.Put<uint64_t>(whole);
  body.Put<int32_t>(kind == MirrorKind::kManaged ? device : -1);
  const Context* context = ContextFor(CurrentSession());
  CUresult status = AskSession(SessionCall::kHostWindow, context == nullptr ? 0 : context->slot,
                               body.padded(), nullptr);
  if (status != CUDA_SUCCESS) return status;
  std::byte* agreed = NewAgreed(whole);
  if (agreed == nullptr) {
    EndMirror(address);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  Keep(address, {whole, reinterpret_cast<std::byte*>(from), agreed, bytes, kind,
                 kind == MirrorKind::kPinned});
  return CUDA_SUCCESS;
}

CUresult AdoptMirror(uint64_t address, uint64_t bytes, uint64_t device_address) {
  uint64_t whole = AlignUp(bytes, kHostPageBytes);
  std::byte* agreed = NewAgreed(whole);
  if (agreed == nullptr) {
    EndMirror(address);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  Keep(address, {whole, reinterpret_cast<std::byte*>(address), agreed, bytes, MirrorKind::kManaged,
                 false, device_address});
  mirror_internal::g_adopted.fetch_add(1);
  g_state->news[CurrentServer()].told.fetch_add(1);
  return mirror_internal::AskForMore();
}

namespace {
// False: the server mirrors nothing there.
bool ForgetMirror(uint8_t server, uint64_t address) {
  std::lock_guard pushing(g_state->push);
  std::lock_guard lock(g_state->mutex);
  std::map<uint64_t, Mirror>& mirrors = g_state->mirrors[server];
  auto found = mirrors.find(address);
  if (found == mirrors.end()) return false;
  munmap(found->second.agreed, found->second.bytes);
  if (found->second.device_address != 0) mirror_internal::g_adopted.fetch_sub(1);
  mirrors.erase(found);
  mirror_internal::g_mirrors.fetch_sub(1);
  return true;
}
}  // namespace

void EndMirror(uint64_t address) {
  ForgetSharedHost(address);
  for (Session* session : Sessions()) {
    const bool is_known = ForgetMirror(session->index(), address);
    if (!is_known && HasSeveralServers()) continue;  // one server may share it instead
    const ServerScope scope(session);
    const Context* context = ContextFor(session);
    FixedBody<8> body;
    body.Put<uint64_t>(address);
    TellSession(SessionCall::kHostWindowEnd, context == nullptr ? 0 : context->slot, body.bytes());
  }
}

void SetConcurrent(uint64_t address) {
  std::lock_guard lock(g_state->mutex);
  uint64_t base = 0;
  if (Mirror* mirror = FindLocked(CurrentServer(), address, 1, &base)) mirror->concurrent = true;
}

CUdeviceptr Expose(const Allocation& allocation, CUresult* status) {
  static std::mutex* mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  Allocation known;
  if (!Memory().Find(allocation.base, &known)) {
    *status = CUDA_ERROR_INVALID_VALUE;
    return 0;
  }
  if ((known.mirrored || known.alias != 0) && HasSeveralServers() &&
      !IsMirroredBy(known, CurrentServer()))
    return mirror_internal::ExposeToAnother(known, status);
  if (known.mirrored) return known.base;
  if (known.alias != 0) return known.alias;
  HostWindow& window = HostAddresses();
  bool own = known.kind == MemoryKind::kHostOwned && window.Holds(known.base);
  uint64_t address = own ? known.base : window.Take(known.bytes);
  *status = address == 0 ? CUDA_ERROR_NOT_SUPPORTED
                         : MakeMirror(address, known.bytes, known.base, MirrorKind::kPinned, -1);
  if (*status != CUDA_SUCCESS) {
    if (!own && address != 0) window.Give(address, known.bytes);
    Log(LogLevel::kWarn, "host memory of %llu bytes cannot be mapped for the device: code %d",
        static_cast<unsigned long long>(known.bytes), static_cast<int>(*status));
    return 0;
  }
  Memory().SetMirrored(known.base, own ? 0 : address);
  if (!own) {  // what kernels and copies see of it
    Allocation alias = known;
    alias.base = address;
    alias.mirrored = true;
    alias.alias = known.base;
    Memory().Insert(alias);
  }
  return address;
}

}  // namespace farcall::client
