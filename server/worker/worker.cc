// SPDX-License-Identifier: Apache-2.0
// A worker's start, its control thread and its end.
#include "server/worker/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <type_traits>
#include <variant>

#include "proto/session_features.h"
#include "server/control/control_socket.h"
#include "server/control/memory_file.h"
#include "server/control/messages.h"
#include "server/leases/compute_gate.h"
#include "server/library/library_memory.h"
#include "server/nvml/nvml_desk.h"
#include "server/session/event_clock.h"
#include "server/session/session.h"
#include "server/session/steady_now.h"
#include "server/supervisor/device_library.h"
#include "server/worker/busy_clock.h"
#include "server/worker/control_client.h"
#include "server/worker/net_pacer.h"
#include "server/worker/process_memory.h"
#include "server/worker/sandbox.h"
#include "server/worker/worker_probe.h"
#include "server/worker/worker_setup.h"
#include "server/worker/worker_users.h"
#include "transport/handshake.h"

namespace farcall::server {

namespace {

using std::chrono::seconds;

constexpr size_t kMaxSetupBytes = kMaxWelcomeBytes + kMaxHelloBytes + (1u << 20);
constexpr size_t kMaxKnownImages = 32768;
constexpr int kTellMilliseconds = 1000;  // what has crossed the network

// Device printf writes to the process's standard output: a pipe whose other end we read.
int CatchOutput() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return -1;
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
  dup2(ends[1], STDOUT_FILENO);
  close(ends[1]);
  return ends[0];
}

std::vector<uint8_t> SupportedCalls(const DriverApi&) {
  std::vector<uint8_t> bitmap((kDispatchRows + 7) / 8, 0);
  for (uint16_t id = 0; id < kDispatchRows; ++id) {
    if (kDispatchTable[id].serve != nullptr) {
      bitmap[id / 8] |= static_cast<uint8_t>(1u << (id % 8));
    }
  }
  return bitmap;
}

void Tell(int control, const std::string& why, const Link::Counters& wire = {}) {
  (void)control::SendToSupervisor(
      control, control::Ended{.why = why,
                              .received_bytes = wire.bytes_in + wire.chunk_bytes_in,
                              .sent_bytes = wire.bytes_out + wire.chunk_bytes_out});
}

class Worker {
 public:
  Worker(WorkerSetup setup, int images, int socket)
      : setup_(std::move(setup)),
        images_(images),
        channel_(AdoptSocket(socket)),
        control_(kControlDescriptor),
        pacer_(
            [control = control_.fd()](const control::WantNetBytes& message) {
              (void)control::SendToSupervisor(control, message);
            },
            SteadyNow) {}

  ~Worker() {
    session_.reset();
    if (library_memory_ != nullptr) {
      library_memory_->Stop();
    }
  }

  void Run() {
    Status opened = Open();
    if (!opened.ok()) {
      (void)SendRefuse(*channel_, {opened.code(), opened.message()}, Clock::now() + seconds(2));
      return Tell(control_.fd(), opened.message());
    }
    Status why = session_->Run();
    Report();
    Tell(control_.fd(), why.message(), session_->link().counters());
  }

 private:
  Status Open() {
    std::thread([this] { Control(); }).detach();  // the ledger's answers are needed from the start
    for (const auto& [name, value] : setup_.hello.environment) {
      if (IsForwardedVariable(name)) {
        setenv(name.c_str(), value.c_str(), 1);
      }
    }
    FARCALL_TRY(LoadDeviceLibrary(setup_.device_path, &api_));
    CUresult result = api_.cuInit(0);
    if (result != CUDA_SUCCESS) {
      return {Code::kUnavailable, "cuInit on the server: " + ErrorWithCode(result)};
    }

    Welcome& welcome = setup_.welcome;
    SessionOptions options;
    options.devices = static_cast<int>(welcome.devices.size());
    for (const DeviceSnapshot& device : welcome.devices) {
      options.compute_capabilities.push_back(CapabilityOf(device));
    }
    options.grace_ms = welcome.grace_ms;
    options.heartbeat_ms = welcome.heartbeat_ms;
    options.lanes = welcome.lanes;
    options.first_credit_bytes = setup_.first_credit_bytes;
    options.image_folder = images_;
    options.image_keeper = &control_;
    options.output_fd = CatchOutput();
    options.client_takes_mirrors = HasFeature(setup_.hello, SessionFeature::kMirrors);
#ifdef FARCALL_NVML
    options.nvml = std::make_shared<NvmlDesk>(setup_.device_path, welcome.devices, control_);
#endif
    options.trust_tenants = setup_.trust_tenants;
    options.code_taste = TasteOf(setup_.device_kind);
    gate_ = MakeGate(options.devices);
    options.gate = gate_.get();
    options.clock = clock_.get();
    if (setup_.swaps) {
      control_.SetSwaps();
    }
    swap_ = MakeSwap(options.devices);
    options.swap = swap_.get();
    auto session = std::make_unique<Session>(api_, options, control_);
    bool has_vmm = true;
    for (const DeviceSnapshot& device : welcome.devices) {
      has_vmm = has_vmm && device.has_vmm;
    }
    welcome.device_window = has_vmm ? session->ReserveWindow(setup_.hello.device_windows) : -1;
    welcome.known_images = session->images().Known(kMaxKnownImages);
    welcome.supported_calls = SupportedCalls(api_);
    welcome.features =
        FeatureBit(SessionFeature::kMirrors) | FeatureBit(SessionFeature::kLibraries) |
        FeatureBit(SessionFeature::kLibraryArrays) | FeatureBit(SessionFeature::kLibraryLacks) |
        FeatureBit(SessionFeature::kLibraryInventory) | FeatureBit(SessionFeature::kImageUnits) |
        FeatureBit(SessionFeature::kEventTimes);
    if (HasFeature(setup_.hello, SessionFeature::kFirstCredit)) {
      welcome.features |= FeatureBit(SessionFeature::kFirstCredit);
      welcome.first_credit = session->WelcomeCredit();
    }
#ifdef FARCALL_NVML
    welcome.features |= FeatureBit(SessionFeature::kNvml);
#endif
    output_fd_ = options.output_fd;
    FARCALL_TRY(SendWelcome(*channel_, setup_.answer, welcome, Clock::now() + seconds(10)));
    library_memory_ = new LibraryMemory(api_, control_, session->memory(),
                                        [this](int device) { RecallFrom(device, ~0ull >> 1); });
    library_memory_->Watch();
    session->link().AttachLog(NetPacer::Pace(std::move(channel_), pacer_, /*is_log=*/true), 0, 0);
    session_ = std::move(session);
    open_.store(true);
    if (sharing_.load()) {  // may have come between
      gate_->Hear(control::Sharing{});
    }
    return {};
  }

  void Report() {
    for (const auto& [device, bytes] : control_.use().Peaks()) {
      (void)control::SendToSupervisor(control_.fd(),
                                      control::Peak{.device = device, .bytes = bytes});
    }
    ReportSkipped();
  }

  // Bounded: the supervisor's queue is.
  void ReportSkipped() {
    constexpr size_t kMostNamed = 64;
    if (setup_.device_kind != "cpu-skip") {
      return;
    }
    const auto skipped = SkippedKernels(api_);
    if (!skipped) {
      return;
    }
    control::Skipped rest{.kernel = "(others)"};
    for (size_t i = 0; i < skipped->size(); ++i) {
      const SkippedKernel& kernel = (*skipped)[i];
      if (i >= kMostNamed) {
        rest.launches += kernel.launches;
        continue;
      }
      (void)control::SendToSupervisor(
          control_.fd(), control::Skipped{.kernel = kernel.name, .launches = kernel.launches});
    }
    if (rest.launches != 0) {
      (void)control::SendToSupervisor(control_.fd(), rest);
    }
  }

  // What comes from the supervisor, and what device code prints.
  void Control() {
    Clock::time_point told_at = Clock::now();
    while (true) {
      bool open = open_.load();
      pollfd watched[2] = {{control_.fd(), POLLIN, 0}, {open ? output_fd_ : -1, POLLIN, 0}};
      poll(watched, 2, !open ? 5 : client_died_ ? 20 : kTellMilliseconds);
      TellNetUse(&told_at);
      if (watched[0].revents != 0 && !Receive()) {
        break;
      }
      if (watched[1].revents != 0) {
        session_->DrainOutput();
        session_->outbox().Flush();
      }
      if (open && client_died_ && !session_->link().attached()) {
        session_->Stop({Code::kDisconnected, "the client's process has ended"});
      }
    }
    control_.End();
    // Nobody can resume a session without its supervisor.
    if (open_.load()) {
      session_->Stop({Code::kDisconnected, "the server has ended"});
    } else {
      _exit(1);
    }
  }

  void TellNetUse(Clock::time_point* told_at) {
    if (Clock::now() - *told_at < std::chrono::milliseconds(kTellMilliseconds)) {
      return;
    }
    *told_at = Clock::now();
    if (std::optional<control::NetUse> use = pacer_.Use()) {
      (void)control::SendToSupervisor(control_.fd(), *use);
    }
  }

  bool Receive() {
    control::ToWorker message;
    std::vector<int> descriptors;
    bool received = control::Receive(control_.fd(), &message, &descriptors).ok();
    if (received && !control_.TakeAnswer(message, &descriptors)) {
      Hear(message, &descriptors);
    }
    for (int fd : descriptors) {
      close(fd);
    }
    return received;
  }

  using Descriptors = std::vector<int>;  // what stays in them is closed
  void Hear(const control::ToWorker& message, Descriptors* descriptors) {
    auto hear = [&](const auto& each) {
      if constexpr (requires { pacer_.Hear(each); }) {
        pacer_.Hear(each);
      } else if constexpr (requires { gate_->Hear(each); }) {
        HearGate(each);
      } else if constexpr (requires { swap_->Hear(each); }) {
        HearSwap(each);
      } else if constexpr (!IsAnswer<std::remove_cvref_t<decltype(each)>>) {
        Hear(each, descriptors);
      }
    };
    std::visit(hear, message);
  }
  // Before the session is open it has asked for nothing; that there is sharing is kept for then.
  template <typename M>
  void HearGate(const M& message) {
    if (std::is_same_v<M, control::Sharing>) {
      sharing_.store(true);
    }
    if (open_.load()) {
      gate_->Hear(message);
    }
  }
  // One that is only being opened has nothing to move yet.
  template <typename M>
  void HearSwap(const M& message) {
    if (open_.load()) {
      return swap_->Hear(message);
    }
    (void)control::SendToSupervisor(control_.fd(),
                                    control::SwapDone{.outcome = control::SwapOutcome::kStayed});
  }
  void Hear(const control::Resume& message, Descriptors* descriptors) {
    if (std::unique_ptr<Channel> channel = Welcomed(message.answer, descriptors)) {
      session_->link().AttachLog(NetPacer::Pace(std::move(channel), pacer_, /*is_log=*/true),
                                 message.received_seq, message.received_chunks);
    }
  }
  void Hear(const control::Lane& message, Descriptors* descriptors) {
    if (message.lane >= setup_.welcome.lanes) {
      return;
    }
    if (std::unique_ptr<Channel> channel = Welcomed(message.answer, descriptors)) {
      session_->link().AttachLane(message.lane,
                                  NetPacer::Pace(std::move(channel), pacer_, /*is_log=*/false));
    }
  }
  void Hear(const control::ClientGone&, Descriptors*) {
    client_died_ = true;
  }
  // The client gives back what it has not spent; its records do the rest.
  void Hear(const control::RecallCredit& message, Descriptors*) {
    if (open_.load()) {
      RecallFrom(message.device, message.bytes);
    }
  }
  void Hear(const control::Stop& message, Descriptors*) {
    if (!open_.load()) {
      _exit(1);
    }
    session_->Stop({Code::kDisconnected, message.why});
  }
  void Hear(const control::Setup&, Descriptors*) {}  // it has been

  // The connection that came with a message, once its client has been welcomed; null: it is not
  // wanted.
  std::unique_ptr<Channel> Welcomed(const AnswerKey& answer, Descriptors* descriptors) {
    if (descriptors->empty()) {
      return nullptr;
    }
    std::unique_ptr<Channel> channel = AdoptSocket(descriptors->back());
    descriptors->pop_back();
    if (!open_.load()) {
      return nullptr;  // a lane before WELCOME: no honest client knows the key yet
    }
    Welcome welcome = setup_.welcome;
    welcome.devices.clear();
    welcome.known_images.clear();
    welcome.first_credit = {};  // granted once
    welcome.received_seq = session_->link().received_seq();
    welcome.received_chunks = session_->link().chunks_received();
    bool sent = SendWelcome(*channel, answer, welcome, Clock::now() + seconds(2)).ok();
    return sent ? std::move(channel) : nullptr;
  }

  std::unique_ptr<ComputeGate> MakeGate(int devices) {
    GateHooks hooks;
    int control = control_.fd();
    hooks.tell = [control](const GateMessage& message) {
      (void)control::SendToSupervisor(control, message);
    };
    hooks.wake = [this] {
      if (open_.load()) {
        session_->Wake();
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
        session_->Wake();
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
    session_->outbox().Push(SessionCall::kRecall, body.bytes());
    session_->outbox().Flush();
  }

  WorkerSetup setup_;
  const int images_;          // a descriptor; -1: none
  bool client_died_ = false;  // the control thread's
  std::unique_ptr<Channel> channel_;
  ControlClient control_;
  NetPacer pacer_;
  DriverApi api_;
  std::unique_ptr<EventClock> clock_;  // none: the device counts by itself
  std::unique_ptr<ComputeGate> gate_;
  std::unique_ptr<MemorySwap> swap_;
  std::unique_ptr<Session> session_;
  LibraryMemory* library_memory_ = nullptr;  // outlives us
  std::atomic<bool> sharing_{false};
  std::atomic<bool> open_{false};
  int output_fd_ = -1;
};

int Serve() {
  control::ToWorker message;
  std::vector<int> descriptors;
  if (!control::Receive(kControlDescriptor, &message, &descriptors).ok() ||
      !std::holds_alternative<control::Setup>(message) || descriptors.size() < 2) {
    return 2;
  }
  Result<std::vector<std::byte>> bytes = ReadMemoryFile(descriptors[1], kMaxSetupBytes);
  close(descriptors[1]);
  if (!bytes.ok()) {
    return 2;
  }
  Result<WorkerSetup> setup = DecodeWorkerSetup(*bytes);
  if (!setup.ok()) {
    Tell(kControlDescriptor, setup.status().message());
    return 2;
  }
  SandboxRules rules;
  rules.files = TakeFiles(*setup, std::span<const int>(descriptors).subspan(2));
  rules.trust_tenants = setup->trust_tenants;
  rules.is_only_tenant = setup->is_only_tenant;
  rules.reports_calls = setup->reports_worker_calls;
  rules.debuggable = setup->debuggable;
  Status confined = EnterSandbox(rules);
  if (!confined.ok()) {
    std::unique_ptr<Channel> channel = AdoptSocket(descriptors[0]);
    (void)SendRefuse(*channel, {confined.code(), confined.message()}, Clock::now() + seconds(2));
    Tell(kControlDescriptor, confined.message());
    return 2;
  }
  // Never destroyed: threads of the driver and of ours may still run when the process leaves.
  auto* worker = new Worker(std::move(*setup), rules.files.images, descriptors[0]);
  worker->Run();
  return 0;
}

}  // namespace

int WorkerMain(const std::vector<std::string>& arguments) {
  if (fcntl(kControlDescriptor, F_GETFD) < 0) {
    return 2;
  }  // not started by a supervisor
  Confine();
  fcntl(kControlDescriptor, F_SETFD, FD_CLOEXEC);
  bool probes_mig = arguments.size() >= 2 && arguments[0] == "probe-mig";
  bool probes = probes_mig || (arguments.size() >= 2 && arguments[0] == "probe");
  size_t user = probes ? 2 : 0;
  if (arguments.size() == user + 2 && arguments[user] == "as") {
    Status became = BecomeUser(static_cast<uid_t>(std::stoul(arguments[user + 1])));
    if (!became.ok()) {
      if (probes) {
        (void)control::SendToSupervisor(kControlDescriptor,
                                        control::ProbeReport{.why = became.message()});
      } else {
        Tell(kControlDescriptor, became.message());
      }
      _exit(2);
    }
  }
  EndWithParent();
  const bool is_memory = arguments.size() >= 2 && arguments[0] == "process-memory";
  Status confined = probes || is_memory ? ConfineProbe(arguments[1]) : Status();
  if (!confined.ok()) {
    Tell(kControlDescriptor, confined.message());
    _exit(2);
  }
#ifdef FARCALL_NVML
  if (is_memory) {
    _exit(TellProcessMemory(arguments[1], {arguments.begin() + 2, arguments.end()}));
  }
#endif
  if (probes) {
    CatchOutput();
  }
  int code = probes_mig ? ProbeMigDevices(arguments[1])
             : probes   ? ProbeDevices(arguments[1])
                        : Serve();
  _exit(code);  // the driver's own teardown is the kernel's work: nothing of the session is to
                // outlive it
}

}  // namespace farcall::server
