// SPDX-License-Identifier: Apache-2.0
// Changes are found by comparing with what both sides last agreed on, so idle pages cross nothing
// and what host and device write side by side survives.
#include "client-shim/cuda/mirror.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "client-shim/core/calls.h"
#include "client-shim/core/log.h"
#include "client-shim/cuda/copy.h"

namespace farcall::client {

namespace mirror_internal {
std::atomic<uint32_t> g_mirrors{0};
}

namespace {

constexpr uint64_t kLargeRunBytes = 64u << 10;
constexpr uint64_t kRunsBytes = 48u << 10;  // of one record
constexpr size_t kMaxStreams = 8;

struct Mirror {
  uint64_t bytes = 0;
  std::byte* memory = nullptr;  // the program's
  std::byte* agreed = nullptr;
  uint64_t valid_bytes = 0;  // of memory; registered memory need not fill its pages
  MirrorKind kind = MirrorKind::kPinned;
  bool concurrent = true;
  bool fresh = true;  // the program has waited since it was last compared: it may have written
};

struct State {
  std::mutex mutex;
  std::map<uint64_t, Mirror> mirrors;
  // Streams with work since the device's writes were last fetched; too many: all.
  std::vector<uint64_t> busy;
  bool busy_beyond = false;
  bool is_busy() const { return busy_beyond || !busy.empty(); }
};
State* g_state = new State;

uint64_t StreamKey(uint64_t wire_stream) {
  return wire_stream != 2 ? wire_stream : (uint64_t{Self()->slot} + 1) << 48 | wire_stream;
}

class RunWriter {
 public:
  void Add(uint64_t address, const std::byte* bytes, size_t count) {
    runs_.Put<uint64_t>(address);
    runs_.PutBytes(bytes, count);
    runs_.mutable_bytes().resize(AlignUp(runs_.bytes().size(), 8));
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

void SendLarge(uint64_t address, const std::byte* bytes, uint64_t count) {
  Session* session = CurrentSession();
  if (session == nullptr || !session->link().OpenLanes().ok()) return;
  for (uint64_t offset = 0; offset < count; offset += kCopyPieceBytes) {
    uint64_t piece = std::min(count - offset, kCopyPieceBytes);
    uint64_t transfer = session->transfers().NewId();
    session->transfers().AwaitRoom(piece);
    Status sent =
        session->link().SendTransfer(transfer, 0, {bytes + offset, piece}, Link::Retain::kCopied);
    if (!sent.ok()) return;  // the session ends; every call says so
    Builder body;
    body.Put<uint64_t>(transfer);
    body.Put<uint64_t>(address + offset);
    body.Put<uint64_t>(piece);
    body.PutBytes(nullptr, 0);
    TellSession(SessionCall::kMirrorUp, 0, body.bytes());
  }
}

// Words of one page that differ; the agreed copy follows.
void PushPage(RunWriter* writer, uint64_t address, const std::byte* memory, std::byte* agreed,
              size_t bytes) {
  size_t from = 0;
  auto differs = [&](size_t at) {
    return std::memcmp(memory + at, agreed + at, std::min<size_t>(8, bytes - at)) != 0;
  };
  while (from < bytes) {
    if (!differs(from)) {
      from += 8;
      continue;
    }
    size_t to = from + 8;
    while (to < bytes && differs(to)) to += 8;
    to = std::min(to, bytes);
    std::memcpy(agreed + from, memory + from, to - from);
    writer->Add(address + from, agreed + from, to - from);
    from = to;
  }
}

void Push(RunWriter* writer, uint64_t base, Mirror& mirror) {
  uint64_t large = 0;  // bytes of a run of changed pages that ends here
  auto flush = [&](uint64_t end) {
    if (large == 0) return;
    uint64_t from = end - large;
    if (large >= kLargeRunBytes) {
      std::memcpy(mirror.agreed + from, mirror.memory + from, large);
      SendLarge(base + from, mirror.agreed + from, large);
    } else {
      for (uint64_t at = from; at < end; at += kHostPageBytes) {
        PushPage(writer, base + at, mirror.memory + at, mirror.agreed + at,
                 std::min(kHostPageBytes, end - at));
      }
    }
    large = 0;
  };
  for (uint64_t page = 0; page < mirror.valid_bytes; page += kHostPageBytes) {
    uint64_t bytes = std::min(kHostPageBytes, mirror.valid_bytes - page);
    if (std::memcmp(mirror.memory + page, mirror.agreed + page, bytes) != 0) {
      large += bytes;
    } else {
      flush(page);
    }
  }
  flush(mirror.valid_bytes);
}

// A byte the program has changed meanwhile stays as it is, and goes up later.
void Merge(const Mirror& mirror, uint64_t offset, std::span<const std::byte> bytes) {
  for (size_t i = 0; i < bytes.size() && offset + i < mirror.valid_bytes; ++i) {
    std::byte* agreed = mirror.agreed + offset + i;
    if (bytes[i] == *agreed) continue;
    mirror.memory[offset + i] = bytes[i];
    *agreed = bytes[i];
  }
}

Mirror* FindLocked(uint64_t address, uint64_t bytes, uint64_t* base) {
  auto after = g_state->mirrors.upper_bound(address);
  if (after == g_state->mirrors.begin()) return nullptr;
  auto& [start, mirror] = *std::prev(after);
  *base = start;
  return Window{start, mirror.bytes}.Contains(address, bytes) ? &mirror : nullptr;
}

// Too much for a reply: it comes as a copy does.
CUresult FetchLarge(const Mirror& mirror, uint64_t base, uint64_t address, uint64_t bytes) {
  uint64_t offset = address - base;
  bytes = std::min(bytes, mirror.valid_bytes - std::min(offset, mirror.valid_bytes));
  CUresult status = FetchMirrored(mirror.memory + offset, address, bytes);
  if (status == CUDA_SUCCESS) std::memcpy(mirror.agreed + offset, mirror.memory + offset, bytes);
  return status;
}

// True: there is more to ask for.
bool PullOnce(CUresult* status) {
  Reply reply;
  *status = AskSession(SessionCall::kMirrorDown, 0, {}, &reply);
  if (*status != CUDA_SUCCESS) return false;
  Reader in = reply.outputs();
  auto more = in.Get<uint64_t>();
  while (in.ok() && in.remaining_bytes() >= 8 && *status == CUDA_SUCCESS) {
    auto address = in.Get<uint64_t>();
    auto bytes = in.Get<uint64_t>();
    std::span<const std::byte> content = in.GetBytes();
    uint64_t base = 0;
    Mirror* mirror = in.ok() ? FindLocked(address, bytes, &base) : nullptr;
    if (mirror == nullptr) continue;  // ended meanwhile
    if (content.empty()) {
      *status = FetchLarge(*mirror, base, address, bytes);
    } else if (content.size() == bytes) {
      Merge(*mirror, address - base, content);
    }
  }
  return more != 0 && *status == CUDA_SUCCESS;
}

}  // namespace

namespace mirror_internal {

void PushAll(uint64_t wire_stream) {
  uint64_t key = wire_stream == kNoStream ? kNoStream : StreamKey(wire_stream);
  std::lock_guard lock(g_state->mutex);
  RunWriter writer;
  Context* context = CurrentContext();
  bool captures = context != nullptr && context->captures.load() != 0;
  for (auto& [base, mirror] : g_state->mirrors) {
    // Managed memory is the device's until the program has waited: nothing in it is new.
    if (!mirror.concurrent && !mirror.fresh) continue;
    Push(&writer, base, mirror);
    mirror.fresh = captures;  // what is captured does not run yet
  }
  writer.Send();
  std::vector<uint64_t>& busy = g_state->busy;
  if (key == kNoStream || busy.size() == kMaxStreams) {
    g_state->busy_beyond = true;
  } else if (std::find(busy.begin(), busy.end(), key) == busy.end()) {
    busy.push_back(key);
  }
}

void PullAll(uint64_t wire_stream) {
  std::lock_guard lock(g_state->mutex);
  for (auto& [base, mirror] : g_state->mirrors) mirror.fresh = true;
  if (!g_state->is_busy()) return;
  CUresult status = CUDA_SUCCESS;
  while (PullOnce(&status)) {
  }
  if (status != CUDA_SUCCESS) {
    if (Context* context = CurrentContext()) RecordLateError(context, status);
    return;
  }
  if (wire_stream == kAllStreams) {
    g_state->busy.clear();
    g_state->busy_beyond = false;
  } else if (wire_stream != kNoStream) {
    std::erase(g_state->busy, StreamKey(wire_stream));
  }
}

void ExposeWord(uint64_t word) {
  Allocation found;
  CUresult status = CUDA_SUCCESS;
  if (Memory().Find(word, &found) && found.kind != MemoryKind::kDevice && !found.mirrored)
    Expose(found, &status);
}

}  // namespace mirror_internal

void NoteMirrorUse() {
  PushMirrors(kNoStream);
}

CUresult MakeMirror(uint64_t address, uint64_t bytes, uint64_t from, MirrorKind kind, int device) {
  uint64_t whole = AlignUp(bytes, kHostPageBytes);
  FixedBody<24> body;
  body.Put<uint64_t>(address);
  body.Put<uint64_t>(whole);
  body.Put<int32_t>(kind == MirrorKind::kManaged ? device : -1);
  Context* context = CurrentContext();
  CUresult status = AskSession(SessionCall::kHostWindow, context == nullptr ? 0 : context->slot,
                               body.padded(), nullptr);
  if (status != CUDA_SUCCESS) return status;
  void* agreed = mmap(nullptr, whole, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (agreed == MAP_FAILED) {
    EndMirror(address);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  std::lock_guard lock(g_state->mutex);
  g_state->mirrors[address] = {
      whole, reinterpret_cast<std::byte*>(from), static_cast<std::byte*>(agreed), bytes,
      kind,  kind == MirrorKind::kPinned};
  mirror_internal::g_mirrors.fetch_add(1);
  return CUDA_SUCCESS;
}

void EndMirror(uint64_t address) {
  {
    std::lock_guard lock(g_state->mutex);
    auto found = g_state->mirrors.find(address);
    if (found != g_state->mirrors.end()) {
      munmap(found->second.agreed, found->second.bytes);
      g_state->mirrors.erase(found);
      mirror_internal::g_mirrors.fetch_sub(1);
    }
  }
  FixedBody<8> body;
  body.Put<uint64_t>(address);
  Context* context = CurrentContext();
  TellSession(SessionCall::kHostWindowEnd, context == nullptr ? 0 : context->slot, body.bytes());
}

bool IsMirrored(uint64_t address) {
  std::lock_guard lock(g_state->mutex);
  uint64_t base = 0;
  return FindLocked(address, 1, &base) != nullptr;
}

void SetConcurrent(uint64_t address) {
  std::lock_guard lock(g_state->mutex);
  uint64_t base = 0;
  if (Mirror* mirror = FindLocked(address, 1, &base)) mirror->concurrent = true;
}

CUdeviceptr Expose(const Allocation& allocation, CUresult* status) {
  static std::mutex* mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  Allocation known;
  if (!Memory().Find(allocation.base, &known)) {
    *status = CUDA_ERROR_INVALID_VALUE;
    return 0;
  }
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
