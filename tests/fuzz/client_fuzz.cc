// SPDX-License-Identifier: Apache-2.0
// What the shim makes of a hostile server's replies, messages and chunks. Input: steps {u8 step, u8
// how, u16 bytes, body}. A step is a call, whose reply is {i32 status, u32 (its lowest byte: the
// numbers among the arguments), the rest of the body}; or a message of the server with that body;
// or a chunk for a transfer under way. The shim answers each with success or an error, and touches
// nothing but its own: all memory that may be written has canaries on both sides.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <new>
#include <type_traits>
#include <vector>

#include "client-shim/core/memory_map.h"
#include "client-shim/core/session/contexts.h"
#include "client-shim/core/session/credit.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/handles.h"
#include "client-shim/core/session/session.h"
#include "client-shim/core/session/thread_state.h"
#include "client-shim/cuda/state/mirror.h"
#include "generated/client/calls.h"
#include "generated/client/handwritten.h"
#include "proto/handshake/session_features.h"
#include "tests/fuzz/client_answers.h"
#include "tests/fuzz/scripted_channel.h"

namespace {

using namespace farcall;
using namespace farcall::client;

constexpr size_t kMaxSteps = 64, kMaxTransfers = 8;
constexpr Window kWindow{0x200000000000, 64u << 20};
constexpr size_t kMirroredBytes = 2 * kHostPageBytes - 100;
constexpr char kImage[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";

template <typename T>
constexpr HandleKind KindOf() {
  return std::is_same_v<T, CUstream>           ? HandleKind::kStream
         : std::is_same_v<T, CUevent>          ? HandleKind::kEvent
         : std::is_same_v<T, CUgraph>          ? HandleKind::kGraph
         : std::is_same_v<T, CUgraphExec>      ? HandleKind::kGraphExec
         : std::is_same_v<T, CUgraphNode>      ? HandleKind::kGraphNode
         : std::is_same_v<T, CUmodule>         ? HandleKind::kModule
         : std::is_same_v<T, CUlibrary>        ? HandleKind::kLibrary
         : std::is_same_v<T, CUfunction>       ? HandleKind::kFunction
         : std::is_same_v<T, CUkernel>         ? HandleKind::kKernel
         : std::is_same_v<T, CUarray>          ? HandleKind::kArray
         : std::is_same_v<T, CUmipmappedArray> ? HandleKind::kMipmappedArray
         : std::is_same_v<T, CUtexref>         ? HandleKind::kTexObject
         : std::is_same_v<T, CUsurfref>        ? HandleKind::kSurfObject
                                               : HandleKind::kContext;
}

// Memory that a call or a chunk may write, between bytes that nobody may.
class Fenced {
 public:
  explicit Fenced(size_t bytes) : all_(bytes + 2 * kFenceBytes, kCanary) {}
  std::byte* data() { return all_.data() + kFenceBytes; }
  size_t size() const { return all_.size() - 2 * kFenceBytes; }
  bool Holds(std::span<const std::byte> part) {
    return part.data() >= data() && part.size() <= size() &&
           part.data() + part.size() <= data() + size();
  }
  void Check() const {
    auto is_canary = [](std::byte byte) { return byte == kCanary; };
    if (!std::all_of(all_.begin(), all_.begin() + kFenceBytes, is_canary) ||
        !std::all_of(all_.end() - kFenceBytes, all_.end(), is_canary)) {
      std::fprintf(stderr, "memory beside a destination was written\n");
      std::abort();
    }
  }

 private:
  static constexpr std::ptrdiff_t kFenceBytes = 256;
  static constexpr std::byte kCanary{0xA5};
  std::vector<std::byte> all_;
};

// What outputs of calls go into, and the registered memory: there for good.
std::vector<Fenced*>& Standing() {
  static auto* standing = new std::vector<Fenced*>;
  return *standing;
}

Fenced& NewStanding(size_t bytes) {
  Standing().push_back(new Fenced(bytes));
  return *Standing().back();
}

uint8_t g_number = 0;  // what every plain number of a call is; no more than `room` has elements
constexpr uint64_t kMemory = 0x100000;  // device memory that is there from the beginning

// An argument of any type: room for outputs, live handles, small numbers.
template <typename T>
T Any() {
  if constexpr (std::is_pointer_v<T>) {
    using Pointee = std::remove_pointer_t<T>;
    if constexpr (std::is_same_v<Pointee, const char>) {
      return "k";
    } else if constexpr (std::is_void_v<Pointee>) {
      return reinterpret_cast<T>(kMemory);  // device memory, where a void* is one
    } else if constexpr (std::is_function_v<Pointee>) {
      return nullptr;
    } else if constexpr (requires { sizeof(Pointee); }) {
      using Room = std::array<std::remove_cv_t<Pointee>, 16>;
      static Fenced& fenced = NewStanding(sizeof(Room));
      return (new (fenced.data()) Room{})->data();
    } else {
      static int object;
      static uint64_t handle = 0;
      constexpr HandleKind kKind = KindOf<T>();
      if (!CheckHandle(kKind, handle))  // the call before may have freed it
        handle = Handles(kKind).New(&object);
      return reinterpret_cast<T>(handle);
    }
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    return static_cast<T>(g_number);
  } else {
    return T{};
  }
}

template <typename... Arguments>
CUresult CallWithAny(CUresult (*function)(Arguments...)) {
  return function(Any<Arguments>()...);
}

struct Generated {
  const char* name;
  CUresult (*call)();
};
constexpr Generated kGenerated[] = {
#define FARCALL_NAME(name) {#name, [] { return CallWithAny(&RoundTrip_##name); }},
#include "fuzz_replies.inc"
#undef FARCALL_NAME
};
constexpr size_t kGeneratedCount = std::size(kGenerated);
std::array<std::atomic<bool>, kGeneratedCount> g_reached;

// The session never talks: what it hears comes from the steps.
Session& TheSession() {
  static Session* session = [] {
    setenv("FARCALL_CACHE_DIR", "/dev/null/farcall", 1);
    setenv("FARCALL_LOG", "off", 1);
    auto* welcome = new Welcome;
    welcome->device_kind = "cpu";
    welcome->grace_ms = 1;
    welcome->lanes = 1;
    welcome->features = FeatureBit(SessionFeature::kMirrors);
    welcome->devices.resize(1);
    welcome->devices[0].name = "device";
    welcome->devices[0].total_bytes = 1u << 30;
    welcome->devices[0].attributes.resize(CU_DEVICE_ATTRIBUTE_MAX, 8);
    auto* made = new Session(*welcome, "fuzz");
    made->Start(std::make_unique<fuzz::ScriptedChannel>(std::make_shared<fuzz::Script>(false)),
                nullptr);
    AddSession(made);
    LoadDevices(Sessions());
    Context* context = NewContext(0, *FindDevice(0), true, 0);
    Self()->current = context;
    Allocation memory;
    memory.base = kMemory;
    memory.bytes = 4096;
    memory.context = context;
    Memory().Insert(memory);
    // Registered memory that does not fill its pages.
    Fenced& mirrored = NewStanding(kMirroredBytes);
    fuzz::SetReply(CUDA_SUCCESS, {});
    MakeMirror(kHostWindows[0].base, kMirroredBytes, reinterpret_cast<uint64_t>(mirrored.data()),
               MirrorKind::kPinned, -1);
    return made;
  }();
  return *session;
}

// The program of one input: what it has loaded and allocated it gives back.
class Program {
 public:
  Program() : session_(TheSession()) {
    DeviceCredit().SetWindow({});
    CurrentContext()->late_error.store(0);
    CurrentContext()->sticky.store(false);
  }
  ~Program() {
    fuzz::SetReply(CUDA_SUCCESS, {});
    for (CUmodule module : modules_) Call_cuModuleUnload(module);
    for (CUlibrary library : libraries_) Call_cuLibraryUnload(library);
    for (CUdeviceptr address : memory_) Call_cuMemFree_v2(address);
    for (uint64_t transfer : transfers_) session_.transfers().Forget(transfer);
    DeviceCredit().SetWindow({});
  }

  void Take(uint8_t step, uint8_t how, std::span<const std::byte> body) {
    switch (step % 4) {
      case 0:
        return CallGenerated(how, body);
      case 1:
        return CallByHand(how, body);
      case 2:
        return Receive(how, body);
      default:
        return Land(how, body);
    }
  }

  void CheckFences() const {
    for (const Fenced* fenced : Standing()) fenced->Check();
    for (const Fenced& room : rooms_) room.Check();
  }

 private:
  // The reply's status and outputs are the body.
  static CUresult Prepare(std::span<const std::byte> body) {
    int32_t status = 0;
    std::memcpy(&status, body.data(), std::min(sizeof(status), body.size()));
    g_number = body.size() < 8 ? 0 : static_cast<uint8_t>(body[4]) % 16;
    fuzz::SetReply(static_cast<CUresult>(status), body.subspan(std::min<size_t>(8, body.size())));
    return static_cast<CUresult>(status);
  }

  void CallGenerated(uint8_t how, std::span<const std::byte> body) {
    CUresult status = Prepare(body);
    size_t index = how % kGeneratedCount;
    CUresult result = kGenerated[index].call();
    if (result == CUDA_SUCCESS && status != CUDA_SUCCESS)
      std::abort();  // a call that failed answers success
    if (result == CUDA_SUCCESS) g_reached[index] = true;
  }

  void Load(bool is_library) {
    if (modules_.size() + libraries_.size() >= 8) return;
    if (is_library) {
      CUlibrary library = nullptr;
      if (Call_cuLibraryLoadData(&library, kImage, nullptr, nullptr, 0, nullptr, nullptr, 0) ==
          CUDA_SUCCESS)
        libraries_.push_back(library);
      return;
    }
    CUmodule module = nullptr;
    char log[64];
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(sizeof(log))};
    if (Call_cuModuleLoadDataEx(&module, kImage, 2, options, values) == CUDA_SUCCESS)
      modules_.push_back(module);
  }

  // {status and number as ever, then the reply}: as many bytes as the call asks for, or not.
  static void Download(uint8_t how) {
    Fenced destination(1 + (how % 8) * 100);
    CUresult result =
        Call_cuMemcpyDtoH_v2(destination.data(), kMemory, destination.size(), nullptr);
    (void)result;
    destination.Check();
  }

  void CallByHand(uint8_t how, std::span<const std::byte> body) {
    Prepare(body);
    if (how >= 0xF0) return Download(how);
    CUmodule module = modules_.empty() ? nullptr : modules_.back();
    CUlibrary library = libraries_.empty() ? nullptr : libraries_.back();
    std::array<CUfunction, 4> functions{};
    std::array<CUkernel, 4> kernels{};
    std::array<char, 2> name = {static_cast<char>('a' + how / 16), 0};
    CUdeviceptr address = 0;
    size_t bytes = 0, more_bytes = 0;
    switch (how % 10) {
      case 0:
        return Load(false);
      case 1:
        return Load(true);
      case 2:
        Call_cuModuleGetFunction(functions.data(), module, name.data());
        return;
      case 3:
        Call_cuLibraryGetKernel(kernels.data(), library, name.data());
        return;
      case 4:
        Call_cuModuleEnumerateFunctions(functions.data(), functions.size(), module);
        return;
      case 5:
        Call_cuLibraryEnumerateKernels(kernels.data(), kernels.size(), library);
        return;
      case 6:
        if (how / 16 % 2 == 0)
          Call_cuModuleGetGlobal_v2(&address, &bytes, module, name.data());
        else
          Call_cuLibraryGetGlobal(&address, &bytes, library, name.data());
        return;
      case 7:
        if (Call_cuMemAlloc_v2(&address, 256) == CUDA_SUCCESS) memory_.push_back(address);
        return;
      case 8:
        Call_cuMemGetInfo_v2(&bytes, &more_bytes);
        PushMirrors();
        PullMirrors();
        return;
      default:
        Call_cuGraphGetNodes(Any<CUgraph>(), nullptr, &bytes);
        return;
    }
  }

  // A record of the server, as the link delivers it: its size is right.
  void Receive(uint8_t how, std::span<const std::byte> body) {
    if (how == 0xFF) return DeviceCredit().SetWindow(kWindow);
    RecordHeader header;
    header.bytes = static_cast<uint32_t>(sizeof(header) + AlignUp(body.size(), 8));
    header.call = static_cast<uint16_t>(how < 0x80 ? 0xF020 + how % 8 : 0xF000 + how % 64);
    header.flags = how % 16 == 15 ? kReply : 0;
    header.serial = how;
    std::vector<std::byte> record(header.bytes);
    std::memcpy(record.data(), &header, sizeof(header));
    std::copy(body.begin(), body.end(), record.begin() + sizeof(header));
    FrameHeader frame;
    frame.records = 1;
    const Status heard = session_.OnFrame({frame, record});
    if (heard.ok() && header.call == static_cast<uint16_t>(SessionCall::kGoodbye) &&
        (header.flags & kReply) == 0)
      std::abort();  // the session goes on after its end
    session_.DrainOutput();
  }

  // {u8 transfer, u8, u16 offset, u32 bytes}; a new transfer first, if `how` says so.
  void Land(uint8_t how, std::span<const std::byte> body) {
    Transfers& transfers = session_.transfers();
    if (how % 2 != 0 && transfers_.size() < kMaxTransfers) {
      Fenced& room = rooms_.emplace_back(1 + how);
      transfers_.push_back(transfers.NewId());
      transfers.Expect(transfers_.back(), room.data(), room.size());
      transfers.BindSerial(transfers_.back(), how);
    }
    if (body.size() < 8) return;
    uint16_t offset;
    std::memcpy(&offset, body.data() + 2, sizeof(offset));
    ChunkHeader header;
    std::memcpy(&header.bytes, body.data() + 4, sizeof(header.bytes));
    header.bytes = header.bytes % kMaxChunkBytes + 1;
    header.seq = ++chunk_;
    header.offset = offset;
    auto which = static_cast<uint8_t>(body[0]);
    header.transfer = which < transfers_.size() ? transfers_[which] : which;
    std::span<std::byte> room = session_.ChunkDestination(header);
    if (room.empty()) return;
    // One transfer's bytes go to no other's memory.
    for (size_t i = 0; i < transfers_.size(); ++i)
      if (rooms_[i].Holds(room) && header.transfer != transfers_[i]) std::abort();
    if (room.size() != header.bytes) std::abort();
    std::fill(room.begin(), room.end(), std::byte{1});
    session_.OnChunk(header);
  }

  Session& session_;
  std::vector<CUmodule> modules_;
  std::vector<CUlibrary> libraries_;
  std::vector<CUdeviceptr> memory_;
  std::deque<Fenced> rooms_;
  std::vector<uint64_t> transfers_;
  uint64_t chunk_ = 0;
};

void Report() {
  size_t reached = 0;
  for (size_t i = 0; i < kGeneratedCount; ++i) {
    reached += g_reached[i] ? 1 : 0;
    if (!g_reached[i]) std::fprintf(stderr, "not reached: %s\n", kGenerated[i].name);
  }
  std::fprintf(stderr, "generated reply decoders reached: %zu of %zu\n", reached, kGeneratedCount);
}

}  // namespace

// The shim keeps functions for ever, by its own rules: that is no leak here.
extern "C" const char* __asan_default_options() {
  return "quarantine_size_mb=32:malloc_context_size=12:detect_leaks=0";
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  // Where the shim writes what device code prints: bytes of the inputs.
  if (std::freopen("/dev/null", "w", stdout) == nullptr) std::abort();
  if (std::getenv("FARCALL_FUZZ_REPORT") != nullptr) std::atexit(Report);
  return 0;
}

extern "C" double ReachedPercent() {
  Report();
  auto reached = std::count(g_reached.begin(), g_reached.end(), true);
  return 100.0 * static_cast<double>(reached) / static_cast<double>(kGeneratedCount);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Program program;
  std::span<const uint8_t> left(data, size);
  for (size_t steps = 0; left.size() >= 4 && steps < kMaxSteps; ++steps) {
    uint16_t bytes;
    std::memcpy(&bytes, left.data() + 2, sizeof(bytes));
    auto body = left.subspan(4, std::min<size_t>(bytes, left.size() - 4));
    program.Take(left[0], left[1], std::as_bytes(body));
    program.CheckFences();
    left = left.subspan(4 + body.size());
  }
  return 0;
}
