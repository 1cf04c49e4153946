// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cuda/objects/shared_host.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>

#include "client-shim/core/memory/host_window.h"
#include "client-shim/core/report/log.h"
#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/contexts.h"
#include "client-shim/core/session/session.h"
#include "client-shim/core/session/thread_state.h"
#include "proto/codec.h"
#include "proto/handshake/session_features.h"

namespace farcall::client {

namespace {

struct Range {
  uint64_t bytes = 0;
  bool is_mapped = false;
};

struct State {
  std::mutex mutex;
  std::map<uint64_t, Range> ranges;  // asked for, or mapped
};
State* g_state = new State;
std::atomic<uint32_t> g_shared{0};

// In a child, which has nothing there: nobody else gets the addresses, which the window counts as
// its own.
void HoldAddresses() {
  for (const auto& [address, range] : g_state->ranges)
    if (range.is_mapped) HostAddresses().Hold(address, range.bytes);
}

void RegisterForkHooks() {
  static const int registered =
      pthread_atfork([] { g_state->mutex.lock(); }, [] { g_state->mutex.unlock(); },
                     [] {
                       HoldAddresses();
                       g_state->mutex.unlock();
                     });
  (void)registered;
}

// A file that whoever sent it cannot shrink: then no access to it faults.
bool IsSound(int file, uint64_t bytes, uint64_t inode) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  struct stat status {};
  const int seals = fcntl(file, F_GET_SEALS);
  return seals >= 0 && (seals & kSeals) == kSeals && fstat(file, &status) == 0 &&
         status.st_size >= 0 && static_cast<uint64_t>(status.st_size) == bytes &&
         status.st_ino == inode;
}

bool Map(int file, uint64_t address, uint64_t bytes) {
  void* want = reinterpret_cast<void*>(address);
  if (mmap(want, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != want)
    return false;
  return madvise(want, bytes, MADV_DONTFORK) == 0;
}

}  // namespace

bool NoteHostShared(Reader body, Link& link) {
  auto address = body.Get<uint64_t>();
  auto bytes = body.Get<uint64_t>();
  auto inode = body.Get<uint64_t>();
  if (!body.Done()) return false;
  std::lock_guard lock(g_state->mutex);
  auto found = g_state->ranges.find(address);
  // Only what was asked for, once: else a server could map what it likes where it likes.
  if (found == g_state->ranges.end() || found->second.bytes != bytes || found->second.is_mapped)
    return false;
  // Those of connections that were lost on the way are nobody's.
  for (int file; !found->second.is_mapped && (file = link.TakeDescriptor()) >= 0; close(file))
    if (IsSound(file, bytes, inode)) found->second.is_mapped = Map(file, address, bytes);
  return true;
}

CUresult ShareHostMemory(uint64_t address, uint64_t bytes, int device) {
  Session* session = CurrentSession();
  const Context* context = CurrentContext();
  if (session == nullptr || context == nullptr || HasSeveralServers() ||
      !session->link().CarriesDescriptors() ||
      !HasFeature(session->welcome(), SessionFeature::kSharedHost))
    return CUDA_ERROR_NOT_SUPPORTED;
  RegisterForkHooks();
  const uint64_t whole = AlignUp(bytes, kHostPageBytes);
  {
    std::lock_guard lock(g_state->mutex);
    g_state->ranges[address] = {whole, false};
  }
  FixedBody<24> body;
  body.Put<uint64_t>(address);
  body.Put<uint64_t>(whole);
  body.Put<int32_t>(device);
  CUresult status = AskSession(SessionCall::kShareHost, context->slot, body.padded(), nullptr);
  {
    std::lock_guard lock(g_state->mutex);
    auto found = g_state->ranges.find(address);
    if (status == CUDA_SUCCESS && found->second.is_mapped) {
      g_shared.fetch_add(1);
      return status;
    }
    g_state->ranges.erase(found);
  }
  if (status == CUDA_SUCCESS) {  // the server has it, and this process has not
    FixedBody<8> end;
    end.Put<uint64_t>(address);
    TellSession(SessionCall::kHostWindowEnd, context->slot, end.bytes());
    status = CUDA_ERROR_NOT_SUPPORTED;
  }
  Log(LogLevel::kInfo, "%llu bytes of host memory are not shared with the server: code %d",
      static_cast<unsigned long long>(bytes), static_cast<int>(status));
  return status;
}

void ForgetSharedHost(uint64_t address) {
  std::lock_guard lock(g_state->mutex);
  if (g_state->ranges.erase(address) != 0) g_shared.fetch_sub(1);
}

bool AnySharedHost() {
  return g_shared.load(std::memory_order_relaxed) != 0;
}

}  // namespace farcall::client
