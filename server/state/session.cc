// SPDX-License-Identifier: Apache-2.0
#include "server/state/session.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "generated/proto/call_id.h"
#include "server/device/current_context.h"
#include "server/device/event_clock.h"
#include "server/memory/library_memory.h"

namespace farcall::server {

Session::Session(const DriverApi& api, const SessionOptions& options, MemoryBroker& broker,
                 Link& link)
    : api_(api),
      options_(options),
      link_(link),
      outbox_(link_),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      broker_(broker),
      memory_(api, broker),
      user_memory_(api, broker),
      mirrors_(api, broker),
      mirror_reports_(
          mirrors_,
          [this](std::span<const std::byte> body) { outbox_.Push(SessionCall::kMirrored, body); }),
      landing_(
          api, options.landing_slots, options.max_landing_heap_bytes, [this] { Wake(); },
          [this](uint64_t bytes) {
            Builder body;
            body.Put<uint64_t>(bytes);
            outbox_.Push(SessionCall::kUsed, body.bytes());
          }),
      readback_(api, kMaxChunkBytes, options.readback_slots, 8),
      small_readback_(api, kMaxInlineBytes, 256, 16),
      images_(options.image_folder, options.image_keeper),
      credit_(
          memory_, options.first_credit_bytes, options.swap != nullptr && options.swap->swaps(),
          {.push =
               [this](int device, const Window& range) {
                 Builder body;
                 body.Put<int32_t>(device);
                 body.Put<uint64_t>(range.base);
                 body.Put<uint64_t>(range.bytes);
                 outbox_.Push(SessionCall::kGrant, body.bytes());
               },
           .make_room = [this](int device, uint64_t bytes) { return MakeRoom(device, bytes); }}),
      output_(api, options.output,
              [this, tells = options.client_takes_error_output](std::span<const std::byte> printed,
                                                                bool is_error) {
                if (is_error) LogDriverError(printed);  // as if nobody had captured it
                Builder body;
                body.PutBytes(printed.data(), printed.size());
                if (tells) body.Put<uint8_t>(is_error);
                outbox_.Push(SessionCall::kOutput, body.bytes());
              }),
      streams_(api, completion_, mirror_reports_, options.gate),
      contexts_(api, table(HandleKind::kContext), streams_, options.clock,
                [this](uint16_t slot, uint64_t epoch) {
                  Builder body;
                  body.Put<uint16_t>(slot);
                  body.Put<uint64_t>(epoch);
                  outbox_.Push(SessionCall::kFreed, body.bytes());
                }),
      completion_(api,
                  [this] {
                    outbox_.Flush();
                    Wake();
                  }),
      helper_([this] {
        outbox_.Flush();
        Wake();
      }),
      memory_helper_([this] {
        outbox_.Flush();
        Wake();
      }),
      library_helper_([this] {
        outbox_.Flush();
        Wake();
      }),
      toolchain_helper_([this] {
        outbox_.Flush();
        Wake();
      }) {
  completion_.OnReached(
      [this](uint64_t stream_key, uint64_t order) { mirror_reports_.Reached(stream_key, order); });
}

void Session::StopThreads() {
  host_calls_.FinishAll();
  if (options_.swap != nullptr) options_.swap->Stop();
  landing_.Stop();
  leaving_.store(true);
  library_helper_.Stop();
  toolchain_helper_.Stop();
  helper_.Stop();
  memory_helper_.Stop();
  completion_.Stop();
}

Session::~Session() {
  StopThreads();
  DeleteExtras();
  if (guard_.bytes != 0) api_.cuMemAddressFree(guard_.base, guard_.bytes);
  if (wake_fd_ >= 0) close(wake_fd_);
}

int Session::ReserveWindow(const std::vector<Window>& offers) {
  int taken = memory_.ReserveWindow(offers);
  if (taken >= 0) user_memory_.SetWindow(ReservationHalf(memory_.window()));
  return taken;
}

bool Session::MayReach(uint64_t address, uint64_t bytes) const {
  if (memory_.window().Contains(address, bytes) || OwnsMemory(address, bytes) ||
      LibraryMemory::Holds(address, bytes))
    return true;
  std::lock_guard lock(guard_mutex_);
  return guard_.Contains(address, bytes);
}

uint64_t Session::GuardAddress(uint64_t address) {
  constexpr uint64_t kGuardBytes = uint64_t{1} << 30, kPageBytes = 4096;
  std::lock_guard lock(guard_mutex_);
  CUdeviceptr base = 0;
  if (guard_.bytes == 0 && api_.cuMemAddressReserve != nullptr &&
      api_.cuMemAddressReserve(&base, kGuardBytes, 0, 0, 0) == CUDA_SUCCESS)
    guard_ = {base, kGuardBytes};
  return guard_.bytes == 0 ? 0 : guard_.base + address % kPageBytes;
}

void Session::DeleteExtras() {
  for (uint8_t number = 1; number <= static_cast<uint8_t>(HandleKind::kLast); ++number) {
    auto kind = static_cast<HandleKind>(number);
    table(kind).ForEachLive(
        [kind](uint32_t, uint16_t, void*, void* extra) { DeleteExtra(kind, extra); });
  }
  retained_.DeleteAll();
}

bool Session::MakeRoom(int device, uint64_t bytes) {
  return options_.swap != nullptr && memory_.SplitsFor(device, bytes) &&
         options_.swap->Split(device);
}

void Session::GrantFirstCredit(int device) {
  if (credit_.WantsFirst(device)) OnMemoryHelper([this, device] { credit_.PushFirst(device); });
}

void Session::FinishFree(CUcontext context, const DeviceMemory::Freed& freed) {
  CurrentContext::Set(api_, context);
  memory_.FinishFree(freed);
}

void Session::ForgetContext(CUcontext context) {
  on_forget_(context);
  if (options_.swap != nullptr) options_.swap->ForgetContext(context);
  completion_.ForgetContext(context);
  if (options_.clock != nullptr) options_.clock->ForgetContext(context);
  landing_.slots().ForgetContext(context);
  readback_.ForgetContext(context);
  small_readback_.ForgetContext(context);
  output_.ForgetContext(context);
}

// A helper that waits for room works with nothing: it may be the very room others wait for.
bool Session::Quiet() const {
  int busy = (helper_.busy() ? 1 : 0) + (memory_helper_.busy() ? 1 : 0);
  return streams_.captures() == 0 && completion_.idle() && !library_helper_.busy() &&
         busy <= broker_.waiting_charges() + options_.swap->waiting_splits();
}

void Session::BehindLibraries(std::function<void()> task) {
  if (libraries_busy())
    library_helper_.Submit(std::move(task));
  else
    task();
}

void Session::Wake() {
  uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof(one));
  // Last: a thread that clears too early looks once more, and one that does not would never.
  may_be_woken_.store(true, std::memory_order_release);
}

// Without a system call where nobody has called: the issue thread is here after each frame.
void Session::ClearWake() {
  if (!may_be_woken_.load(std::memory_order_relaxed) || !may_be_woken_.exchange(false)) return;
  uint64_t drained = 0;
  (void)!read(wake_fd_, &drained, sizeof(drained));
}

void Session::Answer(const RecordHeader& header, CUresult result, std::span<const std::byte> out,
                     const std::string& detail) {
  // A kernel that fails has printed before: that comes ahead of its error.
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) output_.Drain();
  if ((header.flags & kWantReply) != 0) {
    bool is_call = header.call < kFirstSessionCall ||
                   header.call == static_cast<uint16_t>(SessionCall::kLibrary);
    if (result == CUDA_SUCCESS && is_call) mirror_reports_.Report();
    outbox_.Reply(header, result, out);
  } else if (result != CUDA_SUCCESS) {
    outbox_.Error(header, result, detail);
  }
}

void Session::Finish(const ServeCall& call) {
  if (!call.parked) Answer(call.header, call.result, call.out.bytes(), call.detail);
}

}  // namespace farcall::server
