// SPDX-License-Identifier: Apache-2.0
#include "server/worker/session_worker.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "proto/handshake/fabric_transport.h"
#include "proto/handshake/session_features.h"
#include "server/control/control_socket.h"
#include "server/control/messages.h"
#include "server/device/busy_clock.h"
#include "server/device/device_library.h"
#include "server/device/driver_output.h"
#include "server/device/event_clock.h"
#include "server/device/steady_now.h"
#include "server/leases/compute_gate.h"
#include "server/memory/library_memory.h"
#include "server/nvml/nvml_service.h"
#include "server/session/session_loop.h"
#include "server/worker/connection/client_connection.h"
#include "server/worker/connection/control_client.h"
#include "server/worker/connection/net_pacer.h"
#include "server/worker/connection/skipped_report.h"
#include "server/worker/numa.h"
#include "server/worker/sandbox/system_calls.h"
#include "transport/handshake.h"
#include "transport/link/chunk_packing.h"
#include "transport/shm/shm_channel.h"

namespace farcall::server {

void TellEnd(int control, const std::string& why, const Link::Counters& wire) {
  (void)control::SendToSupervisor(
      control, control::Ended{.why = why,
                              .received_bytes = wire.bytes_in + wire.chunk_bytes_in,
                              .sent_bytes = wire.bytes_out + wire.chunk_bytes_out});
}

namespace {

using std::chrono::seconds;

constexpr size_t kMaxKnownImages = 32768;
constexpr int kTellMilliseconds = 1000;  // what has crossed the network

std::vector<uint8_t> SupportedCalls(const DriverApi&) {
  std::vector<uint8_t> bitmap((kDispatchRows + 7) / 8, 0);
  for (uint16_t id = 0; id < kDispatchRows; ++id)
    if (kDispatchTable[id].serve != nullptr) bitmap[id / 8] |= static_cast<uint8_t>(1u << (id % 8));
  return bitmap;
}

class SessionWorker {
 public:
  SessionWorker(WorkerSetup setup, int images, std::unique_ptr<Channel> channel,
                const WarmDevice* warm)
      : setup_(std::move(setup)),
        warm_(warm),
        images_(images),
        channel_(std::move(channel)),
        control_(kControlDescriptor),
        pacer_(
            [control = control_.fd()](const control::WantNetBytes& message) {
              (void)control::SendToSupervisor(control, message);
            },
            SteadyNow) {}

  ~SessionWorker() {
    session_.reset();
    if (library_memory_ != nullptr) library_memory_->Stop();
  }

  void Run() {
    Status opened = Open();
    if (!opened.ok()) {
      (void)SendRefuse(*channel_, {opened.code(), opened.message()}, Clock::now() + seconds(2));
      return TellEnd(control_.fd(), opened.message());
    }
    Status why = session_->Run();
    Report();
    TellEnd(control_.fd(), why.message(), session_->link().counters());
  }

 private:
  Status Open() {
    std::vector<std::string> places;
    for (const DeviceSnapshot& device : setup_.welcome.devices) places.push_back(device.pci_bus_id);
    StayNear("/sys", places);
    std::thread([this] { Control(); }).detach();  // the ledger's answers are needed from the start
    for (const auto& [name, value] : setup_.hello.environment)
      if (IsForwardedVariable(name)) setenv(name.c_str(), value.c_str(), 1);
    FARCALL_TRY(OpenDevice());

    const SessionOptions options = MakeOptions();
    auto loop = std::make_unique<SessionLoop>(api_, options, control_);
    Session* session = &loop->session();
    FillWelcome(options, session);
    output_ = options.output;
    Result<FabricEndPointer> end = PrepareFabric(setup_.welcome, /*is_log=*/true);
    FARCALL_TRY(end.status());
    FARCALL_TRY(SendWelcome(*channel_, setup_.answer, setup_.welcome, Clock::now() + seconds(10)));
    channel_ = GoOn(std::move(channel_), std::move(*end));
    library_memory_ = new LibraryMemory(api_, control_, session->memory(),
                                        [this](int device) { RecallFrom(device, ~0ull >> 1); });
    library_memory_->Watch();
    session->link().AttachLog(NetPacer::Pace(std::move(channel_), pacer_, /*is_log=*/true), 0, 0);
    session_ = std::move(loop);
    open_.store(true);
    if (sharing_.load())  // may have come between
      gate_->OnMessage(control::Sharing{});
    return {};
  }

  // With the gate and the scheduler that they name.
  SessionOptions MakeOptions() {
    const Welcome& welcome = setup_.welcome;
    SessionOptions options;
    options.devices = static_cast<int>(welcome.devices.size());
    for (const DeviceSnapshot& device : welcome.devices)
      options.compute_capabilities.push_back(CapabilityOf(device));
    options.grace_ms = welcome.grace_ms;
    options.heartbeat_ms = welcome.heartbeat_ms;
    options.idle_after_ms =
        HasFeature(setup_.hello, SessionFeature::kIdleSilence) ? kIdleAfterMs : 0;
    if (HasFeature(welcome, SessionFeature::kPackedChunks) && CanPackChunks())
      options.packing = LinkOptions::Packing::kAuto;
    options.lanes = welcome.lanes;
    options.first_credit_bytes = setup_.first_credit_bytes;
    options.image_folder = images_;
    options.image_keeper = &control_;
    options.output = CaptureDriverOutput();
    options.client_takes_error_output = HasFeature(setup_.hello, SessionFeature::kErrorOutput);
    options.client_takes_mirrors = HasFeature(setup_.hello, SessionFeature::kMirrors);
#ifdef FARCALL_NVML
    options.nvml = std::make_shared<NvmlService>(setup_.device_path, welcome.devices, control_);
#endif
    options.trust_tenants = setup_.trust_tenants;
    options.code_taste = TasteOf(setup_.device_kind);
    gate_ = MakeGate(options.devices);
    options.gate = gate_.get();
    options.clock = clock_.get();
    if (setup_.swaps) control_.SetSwaps();
    swap_ = MakeSwap(options.devices);
    options.swap = swap_.get();
    return options;
  }

  // What the client is told of a session with these options.
  void FillWelcome(const SessionOptions& options, Session* session) {
    Welcome& welcome = setup_.welcome;
    bool has_vmm = true;
    for (const DeviceSnapshot& device : welcome.devices) has_vmm = has_vmm && device.has_vmm;
    welcome.device_window = has_vmm ? session->ReserveWindow(setup_.hello.device_windows) : -1;
    welcome.known_images = session->images().Known(kMaxKnownImages);
    welcome.supported_calls = SupportedCalls(api_);
    constexpr uint64_t kOfSupervisor =
        FeatureBit(SessionFeature::kSharedMemory) | FeatureBit(SessionFeature::kPackedChunks);
    welcome.features &= kOfSupervisor;
    if (options.packing == LinkOptions::Packing::kOff)
      welcome.features &= ~FeatureBit(SessionFeature::kPackedChunks);
    welcome.features |=
        FeatureBit(SessionFeature::kMirrors) | FeatureBit(SessionFeature::kLibraries) |
        FeatureBit(SessionFeature::kLibraryArrays) | FeatureBit(SessionFeature::kLibraryLacks) |
        FeatureBit(SessionFeature::kLibraryInventory) | FeatureBit(SessionFeature::kImageUnits) |
        FeatureBit(SessionFeature::kEventTimes) | FeatureBit(SessionFeature::kSharedHost);
    if (options.idle_after_ms != 0) welcome.features |= FeatureBit(SessionFeature::kIdleSilence);
    if (HasFeature(setup_.hello, SessionFeature::kFirstCredit)) {
      welcome.features |= FeatureBit(SessionFeature::kFirstCredit);
      welcome.first_credit = session->credit().Welcome();
    }
#ifdef FARCALL_NVML
    welcome.features |= FeatureBit(SessionFeature::kNvml);
#endif
  }

  Status OpenDevice() {
    if (warm_ != nullptr)
      api_ = warm_->api;
    else
      FARCALL_TRY(LoadDeviceLibrary(setup_.device_path, &api_));
    const CUresult result =
        warm_ != nullptr && warm_->is_initialised ? CUDA_SUCCESS : api_.cuInit(0);
    if (UsesFabric(kUcxTransport, setup_.welcome)) FARCALL_TRY(RefuseUnixSockets());
    return result == CUDA_SUCCESS
               ? Status()
               : Status(Code::kUnavailable, "cuInit on the server: " + ErrorWithCode(result));
  }

  void Report() {
    for (const auto& [device, bytes] : control_.use().Peaks()) {
      (void)control::SendToSupervisor(control_.fd(),
                                      control::Peak{.device = device, .bytes = bytes});
    }
    if (setup_.device_kind == "cpu-skip") ReportSkipped(api_, control_.fd());
  }

  // What comes from the supervisor, and what device code prints.
  void Control() {
    Clock::time_point reported_at = Clock::now();
    bool is_quiet = false;  // nothing crosses the network
    while (true) {
      bool open = open_.load();
      pollfd watched[4] = {{control_.fd(), POLLIN, 0},
                           {open ? output_.output : -1, POLLIN, 0},
                           {open ? output_.error : -1, POLLIN, 0},
                           {is_quiet ? pacer_.news_descriptor() : -1, POLLIN, 0}};
      const int until_told = is_quiet ? -1 : kTellMilliseconds;
      poll(watched, 4, !early_.empty() ? 1 : !open ? 5 : client_died_ ? 20 : until_told);
      TakeEarly();
      is_quiet = TellNetUse(&reported_at);
      if (watched[0].revents != 0 && !Receive()) break;
      if (watched[1].revents != 0 || watched[2].revents != 0) {
        session_->session().output().Drain();
        session_->session().outbox().Flush();
      }
      if (open && client_died_ && !session_->link().attached())
        session_->Stop({Code::kDisconnected, "the client's process has ended"});
    }
    control_.End();
    // Nobody can resume a session without its supervisor.
    if (open_.load())
      session_->Stop({Code::kDisconnected, "the server has ended"});
    else
      _exit(1);
  }

  // Once in kTellMilliseconds. True: there is nothing to tell until the pacer has news.
  bool TellNetUse(Clock::time_point* reported_at) {
    if (Clock::now() - *reported_at < std::chrono::milliseconds(kTellMilliseconds)) return false;
    *reported_at = Clock::now();
    if (std::optional<control::NetUse> use = pacer_.Use()) {
      (void)control::SendToSupervisor(control_.fd(), *use);
      return false;
    }
    return pacer_.AwaitNews();
  }

  bool Receive() {
    control::ToWorker message;
    std::vector<int> descriptors;
    bool received = control::Receive(control_.fd(), &message, &descriptors).ok();
    if (received && !control_.TakeAnswer(message, &descriptors)) OnMessage(message, &descriptors);
    for (int fd : descriptors) close(fd);
    return received;
  }

  using Descriptors = std::vector<int>;  // what stays in them is closed
  void OnMessage(const control::ToWorker& message, Descriptors* descriptors) {
    auto hear = [&](const auto& each) {
      if constexpr (requires { pacer_.OnMessage(each); })
        pacer_.OnMessage(each);
      else if constexpr (requires { gate_->OnMessage(each); })
        PassToGate(each);
      else if constexpr (requires { swap_->OnMessage(each); })
        PassToSwap(each);
      else if constexpr (!IsAnswer<std::remove_cvref_t<decltype(each)>>)
        OnMessage(each, descriptors);
    };
    std::visit(hear, message);
  }
  // Before the session is open it has asked for nothing; that there is sharing is kept for then.
  template <typename M>
  void PassToGate(const M& message) {
    if (std::is_same_v<M, control::Sharing>) sharing_.store(true);
    if (open_.load()) gate_->OnMessage(message);
  }
  // One that is only being opened has nothing to move yet.
  template <typename M>
  void PassToSwap(const M& message) {
    if (open_.load()) return swap_->OnMessage(message);
    (void)control::SendToSupervisor(control_.fd(),
                                    control::SwapDone{.outcome = control::SwapOutcome::kStayed});
  }
  // Its client has WELCOME before the rest of the start is done, and may open lanes, or go on by
  // shared memory, in between. True: the connection waits until then.
  template <typename Message>
  bool IsEarly(const Message& message, Descriptors* descriptors) {
    if (open_.load() || descriptors->empty() || early_.size() > setup_.welcome.lanes) return false;
    early_.emplace_back(message, descriptors->back());
    descriptors->pop_back();
    return true;
  }
  void TakeEarly() {
    if (early_.empty() || !open_.load()) return;
    for (const auto& [message, fd] : std::exchange(early_, {})) {
      Descriptors descriptors = {fd};
      std::visit([&](const auto& one) { OnMessage(one, &descriptors); }, message);
      for (int left : descriptors) close(left);
    }
  }
  void OnMessage(const control::Resume& message, Descriptors* descriptors) {
    if (IsEarly(message, descriptors)) return;
    if (std::unique_ptr<Channel> channel = Welcomed(message.answer, message.state, kLogRingBytes,
                                                    /*is_log=*/true, descriptors)) {
      session_->link().AttachLog(NetPacer::Pace(std::move(channel), pacer_, /*is_log=*/true),
                                 message.received_seq, message.received_chunks);
    }
  }
  void OnMessage(const control::Lane& message, Descriptors* descriptors) {
    if (message.lane >= setup_.welcome.lanes || IsEarly(message, descriptors)) return;
    if (std::unique_ptr<Channel> channel = Welcomed(message.answer, message.state, kLaneRingBytes,
                                                    /*is_log=*/false, descriptors)) {
      session_->link().AttachLane(message.lane,
                                  NetPacer::Pace(std::move(channel), pacer_, /*is_log=*/false));
    }
  }
  void OnMessage(const control::ClientGone&, Descriptors*) {
    client_died_ = true;
  }
  // The client gives back what it has not spent; its records do the rest.
  void OnMessage(const control::RecallCredit& message, Descriptors*) {
    if (open_.load()) RecallFrom(message.device, message.bytes);
  }
  void OnMessage(const control::Stop& message, Descriptors*) {
    if (!open_.load()) _exit(1);
    session_->Stop({Code::kDisconnected, message.why});
  }
  void OnMessage(const control::Setup&, Descriptors*) {}  // it has been

  // The connection that came with a message, once its client has been welcomed; null: it is not
  // wanted.
  std::unique_ptr<Channel> Welcomed(const AnswerKey& answer, const std::string& state,
                                    size_t ring_bytes, bool is_log, Descriptors* descriptors) {
    if (descriptors->empty()) return nullptr;
    if (!open_.load()) return nullptr;  // more than an honest client opens
    Result<std::unique_ptr<Channel>> adopted =
        TakeConnection(descriptors->back(), std::as_bytes(std::span(state)), ring_bytes);
    descriptors->pop_back();
    if (!adopted.ok()) return nullptr;
    std::unique_ptr<Channel> channel = std::move(*adopted);
    Welcome welcome = setup_.welcome;
    welcome.devices.clear();
    welcome.known_images.clear();
    welcome.first_credit = {};  // granted once
    welcome.received_seq = session_->link().received_seq();
    welcome.received_chunks = session_->link().chunks_received();
    Result<FabricEndPointer> end = PrepareFabric(welcome, is_log);
    if (!end.ok()) {
      (void)SendRefuse(*channel, {end.status().code(), end.status().message()},
                       Clock::now() + seconds(2));
      return nullptr;
    }
    const bool sent = SendWelcome(*channel, answer, welcome, Clock::now() + seconds(2)).ok();
    return sent ? GoOn(std::move(channel), std::move(*end)) : nullptr;
  }

  std::unique_ptr<ComputeGate> MakeGate(int devices) {
    GateHooks hooks;
    int control = control_.fd();
    hooks.tell = [control](const GateMessage& message) {
      (void)control::SendToSupervisor(control, message);
    };
    hooks.wake = [this] {
      if (open_.load()) {
        session_->session().Wake();
      }
    };
    hooks.now = SteadyNow;
    hooks.used = BusyClock(api_);
    if (!hooks.used && EventClock::CanMeasure(api_)) {
      clock_ = std::make_unique<EventClock>(api_);
      hooks.used = [clock = clock_.get()](int device) { return clock->used(device); };
    }
    return std::make_unique<ComputeGate>(devices, std::move(hooks));
  }

  std::unique_ptr<MemorySwap> MakeSwap(int devices) {
    SwapHooks hooks;
    int control = control_.fd();
    hooks.tell = [control](const SwapReport& message) {
      (void)control::SendToSupervisor(control, message);
    };
    hooks.wake = [this] {
      if (open_.load()) {
        session_->session().Wake();
      }
    };
    hooks.now = SteadyNow;
    hooks.end = [this](const Status& why) { session_->Stop(why); };
    return std::make_unique<MemorySwap>(api_, devices, setup_.swaps, std::move(hooks));
  }

  void RecallFrom(int device, uint64_t bytes) {
    Builder body;
    body.Put<int32_t>(device);
    body.Put<uint64_t>(bytes);
    session_->session().outbox().Push(SessionCall::kRecall, body.bytes());
    session_->session().outbox().Flush();
  }

  WorkerSetup setup_;
  const WarmDevice* const warm_;
  const int images_;          // a descriptor; -1: none
  bool client_died_ = false;  // the control thread's
  // Likewise: connections that came before `open_`.
  std::vector<std::pair<std::variant<control::Resume, control::Lane>, int>> early_;
  std::unique_ptr<Channel> channel_;
  ControlClient control_;
  NetPacer pacer_;
  DriverApi api_;
  std::unique_ptr<EventClock> clock_;  // none: the device counts by itself
  std::unique_ptr<ComputeGate> gate_;
  std::unique_ptr<MemorySwap> swap_;
  std::unique_ptr<SessionLoop> session_;
  LibraryMemory* library_memory_ = nullptr;  // outlives us
  std::atomic<bool> sharing_{false};
  std::atomic<bool> open_{false};
  CapturedOutput output_;
};

}  // namespace

void RunSession(WorkerSetup setup, int images, std::unique_ptr<Channel> channel,
                const WarmDevice* warm) {
  // Never destroyed: threads of the driver and of ours may still run when the process leaves.
  auto* worker = new SessionWorker(std::move(setup), images, std::move(channel), warm);
  worker->Run();
}

}  // namespace farcall::server
