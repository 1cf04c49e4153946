// SPDX-License-Identifier: Apache-2.0
// Library calls of a hostile client against libraries that touch all they are given: no address
// outside the session's memory reaches one, no host pointer leads anywhere but to the call's own
// rooms, no object is in two threads' hands or used after its end, and no reply tells of the
// worker's memory. An input is choices (library_maker.h).
#include <sys/mman.h>
#include <sys/prctl.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "proto/wire.h"
#include "server/library/library_call.h"
#include "server/library/library_loader.h"
#include "server/session/session_loop.h"
#include "server/state/objects/context_state.h"
#include "tests/fuzz/library_fake.h"
#include "tests/fuzz/library_maker.h"
#include "tests/fuzz/serve_client.h"
#include "tests/fuzz/serve_device.h"

namespace farcall::fuzz {

namespace {

using server::Session;

constexpr Window kWindow{kWindowBase, kWindowBytes};
constexpr uint64_t kSecretWord = 0x5ec7e75ec7e75ec7;
constexpr int kStreams = 4;

class Broker final : public server::MemoryBroker {
 public:
  Status Charge(int, uint64_t bytes) override {
    charged_ += bytes;
    return {};
  }
  void Refund(int, uint64_t bytes) override { charged_ -= bytes; }
  quota::Usage Query(int) override { return {kWindow.bytes, charged_}; }

 private:
  std::atomic<uint64_t> charged_{0};
};

// Page-locked memory: the rooms of results.
std::mutex g_pinned_mutex;
std::map<void*, size_t> g_pinned;

CUresult AllocHost(void** memory, size_t bytes, unsigned) {
  *memory = std::calloc(1, bytes);
  NoteRange(reinterpret_cast<uint64_t>(*memory), bytes);
  std::lock_guard lock(g_pinned_mutex);
  g_pinned[*memory] = bytes;
  return CUDA_SUCCESS;
}

CUresult Reserve(CUdeviceptr* base, size_t bytes, size_t align, CUdeviceptr hint,
                 unsigned long long flags) {
  const CUresult result = FuzzDevice().cuMemAddressReserve(base, bytes, align, hint, flags);
  if (result == CUDA_SUCCESS) NoteRange(*base, bytes);
  return result;
}

CUresult Unreserve(CUdeviceptr base, size_t bytes) {
  ForgetRange(base);
  return cuMemAddressFree(base, bytes);
}

const server::DriverApi& Device() {
  static const server::DriverApi api = [] {
    server::DriverApi made = FuzzDevice();
    made.cuMemHostAlloc = AllocHost;
    made.cuMemAddressReserve = Reserve;
    made.cuMemAddressFree = Unreserve;
    return made;
  }();
  return api;
}

void FreePinned() {
  std::lock_guard lock(g_pinned_mutex);
  for (auto [memory, bytes] : g_pinned) {
    ForgetRange(reinterpret_cast<uint64_t>(memory));
    std::free(memory);
  }
  g_pinned.clear();
}

void Prepare(Session& session) {
  const server::DriverApi& api = Device();
  Window credit;
  std::string detail;
  if (session.ReserveWindow({kWindow}) != 0 ||
      session.memory().Grant(0, kCreditBytes, &credit, &detail) != CUDA_SUCCESS)
    std::abort();
  RecordHeader header;
  server::Turn turn;
  server::ServeCall call(session, api, header, {}, turn);
  for (uint16_t slot = 1; slot <= 3; ++slot) {
    server::ContextState& context = session.contexts().Make(slot);
    context.generation = 1;
    context.native = static_cast<CUcontext>(NewNative());
    session.table(HandleKind::kContext)
        .Set(slot, 1, server::HandleTable::State::kLive, context.native);
  }
  call.context = session.contexts().at(1);
  for (uint32_t index = 1; index <= kStreams; ++index)
    call.Insert(HandleKind::kStream, MakeHandle(HandleKind::kStream, index, 1), NewNative());
}

// Neither what lies at the secret, nor where it lies.
void CheckReceived(std::span<const std::byte> bytes) {
  for (size_t at = 0; at + sizeof(uint64_t) <= bytes.size(); at += 4) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    if (word == kSecretWord || word == GivenAddress()) {
      std::fprintf(stderr, "a reply tells of the worker's memory: %#llx\n",
                   static_cast<unsigned long long>(word));
      std::abort();
    }
  }
}

void RunSession(const std::vector<Item>& items) {
  const std::vector<uint8_t> input = EncodeItems(0, items);
  Broker broker;
  server::SessionOptions options;
  options.devices = 1;
  options.grace_ms = 1;
  options.spin_us = 0;
  options.first_credit_bytes = 0;
  options.trust_tenants = true;
  Conversation conversation(false, CheckReceived);
  {
    server::SessionLoop loop(Device(), options, broker);
    Prepare(loop.session());
    auto client = std::make_unique<Client>(loop, conversation, std::span(input).subspan(1), false);
    loop.link().AttachLog(std::move(client), 0, 0);
    const Status why = loop.Run();
    conversation.NoteServed(why);
    ResetDevice([](void* of) { static_cast<Session*>(of)->host_calls().FinishAll(); },
                &loop.session());
  }
  FreePinned();
  ForgetRange(kWindow.base);
  cuMemAddressFree(kWindow.base, kWindow.bytes);
}

// Half of it can be read: what is copied from there is seen in the reply. The other half faults.
uint64_t MakeSecret() {
  void* got =
      mmap(nullptr, kSecretBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) std::abort();
  for (size_t at = 0; at < kSecretBytes / 2; at += sizeof(kSecretWord))
    std::memcpy(static_cast<char*>(got) + at, &kSecretWord, sizeof(kSecretWord));
  mprotect(static_cast<char*>(got) + kSecretBytes / 2, kSecretBytes / 2, PROT_NONE);
  return reinterpret_cast<uint64_t>(got);
}

// Written to by nobody.
bool IsSecretWhole() {
  const auto* words = reinterpret_cast<const uint64_t*>(SecretAddress());
  for (size_t i = 0; i < kSecretBytes / 2 / sizeof(kSecretWord); ++i)
    if (words[i] != kSecretWord) return false;
  return true;
}

void Report() {
  std::fprintf(
      stderr, "calls that reached a library: %llu, of %zu functions; %zu kinds of record\n",
      static_cast<unsigned long long>(FakeCalls()), FakeFunctionsCalled(), MakerRows().size());
}

}  // namespace

uint64_t SecretAddress() {
  static const uint64_t address = MakeSecret();
  return address;
}

}  // namespace farcall::fuzz

using namespace farcall::fuzz;

extern "C" const char* __asan_default_options() {
  return "quarantine_size_mb=32:malloc_context_size=8:use_sigaltstack=0:"
         "allocator_release_to_os_interval_ms=-1";
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  SetGround({kWindow.base, kWindow.bytes, SecretAddress(), kSecretBytes});
  if (std::getenv("FARCALL_FUZZ_REPORT") != nullptr) std::atexit(Report);
  return 0;
}

extern "C" double ReachedPercent() {
  Report();
  return 100.0 * static_cast<double>(FakeFunctionsCalled()) /
         static_cast<double>(MakerRows().size());
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 8) return 0;
  uint64_t seed = 0;
  std::memcpy(&seed, data, sizeof(uint16_t));
  ResetFakes(seed);
  RunSession(Program({data + 2, size - 2}).Run());
  if (!IsSecretWhole()) {
    std::fprintf(stderr, "the worker's memory was written\n");
    std::abort();
  }
  return 0;
}
