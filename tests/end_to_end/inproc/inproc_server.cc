// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/inproc/inproc_server.h"

#include <sys/mman.h>

#include "proto/handshake/session_features.h"
#include "transport/handshake.h"

namespace farcall::inproc_test {

namespace {

constexpr uint32_t kLanes = 2;
constexpr uint32_t kGraceMs = 30000;

Clock::time_point Soon() {
  return Clock::now() + std::chrono::seconds(10);
}

// A channel that the link owns and the test can still cut.
class SharedChannel final : public Channel {
 public:
  explicit SharedChannel(std::shared_ptr<Channel> inner) : inner_(std::move(inner)) {}
  Result<size_t> TrySend(std::span<const std::span<const std::byte>> parts) override {
    return inner_->TrySend(parts);
  }
  Result<size_t> TryReceive(std::span<std::byte> into) override { return inner_->TryReceive(into); }
  bool WaitReadable(Clock::time_point deadline, int wake_fd) override {
    return inner_->WaitReadable(deadline, wake_fd);
  }
  bool WaitWritable(Clock::time_point deadline) override { return inner_->WaitWritable(deadline); }
  void Close() override { inner_->Close(); }
  void Abandon() override { inner_->Abandon(); }
  int Descriptor() const override { return inner_->Descriptor(); }
  std::string PeerName() const override { return inner_->PeerName(); }

 private:
  const std::shared_ptr<Channel> inner_;
};

CUresult (*g_reserve)(CUdeviceptr*, size_t, size_t, CUdeviceptr, unsigned long long);

// Client and server share one address space here: the client's reservation makes room for the
// device's at the same address.
CUresult ReserveOverClients(CUdeviceptr* base, size_t bytes, size_t align, CUdeviceptr hint,
                            unsigned long long flags) {
  if (hint != 0) munmap(reinterpret_cast<void*>(hint), bytes);
  return g_reserve(base, bytes, align, hint, flags);
}

std::vector<uint8_t> SupportedCalls() {
  std::vector<uint8_t> bitmap((server::kDispatchRows + 7) / 8, 0);
  for (uint16_t id = 0; id < server::kDispatchRows; ++id)
    if (server::kDispatchTable[id].serve != nullptr)
      bitmap[id / 8] |= static_cast<uint8_t>(1u << (id % 8));
  return bitmap;
}

}  // namespace

Status OpenBroker::Charge(int, uint64_t bytes) {
  if (charged_.fetch_add(bytes) + bytes <= total_bytes_) return {};
  charged_ -= bytes;
  return {Code::kQuotaExceeded, "the device is full"};
}

void OpenBroker::Refund(int, uint64_t bytes) {
  charged_ -= bytes;
}

quota::Usage OpenBroker::Query(int) {
  return {total_bytes_, charged_};
}

Result<std::unique_ptr<InprocServer>> InprocServer::Start(const std::string& device_path,
                                                          const std::string& url) {
  std::unique_ptr<InprocServer> self(new InprocServer);
  Status loaded = server::LoadDeviceLibrary(device_path, &self->api_);
  if (!loaded.ok()) return loaded;
  Result<server::DeviceReport> report = server::ReportDevices(self->api_);
  if (!report.ok()) return report.status();
  self->report_ = *report;
  self->broker_ = std::make_unique<OpenBroker>(report->devices[0].total_bytes);
  if (url == kInprocUrl) {
    g_reserve = self->api_.cuMemAddressReserve;
    self->api_.cuMemAddressReserve = ReserveOverClients;
  }
  self->handshakes_ = std::make_unique<HandshakeServer>(
      false, [self = self.get()](std::unique_ptr<Channel> channel, const ReceivedHello& heard,
                                 const Listener&) { self->Admit(std::move(channel), heard); });
  Result<std::unique_ptr<Listener>> listener = Listen(url);
  if (!listener.ok()) return listener.status();
  self->url_ = (*listener)->Url();
  self->handshakes_->Listen(std::move(*listener));
  if (Status started = self->handshakes_->Start(); !started.ok()) return started;
  return self;
}

void InprocServer::Admit(std::unique_ptr<Channel> channel, const ReceivedHello& heard) {
  const Hello& hello = heard.hello();
  std::lock_guard lock(mutex_);
  bool is_new = hello.role == LinkRole::kLog && hello.session == SessionId{};
  std::optional<ExchangeKeys> keys;
  if (is_new && session_ == nullptr) {
    keys = heard.AcceptAnyone();
    key_ = keys->session;
  } else if (!is_new && session_ != nullptr && hello.session == welcome_.session) {
    keys = heard.AcceptSession(key_);
  }
  if (!keys) {
    (void)SendRefuse(*channel, {Code::kRefused, "one session only, and this is not it"}, Soon());
    return;
  }
  std::shared_ptr<Channel> shared = std::move(channel);
  connections_.push_back(shared);
  auto lent = std::make_unique<SharedChannel>(std::move(shared));
  if (is_new)
    Open(std::move(lent), hello, keys->answer);
  else
    Attach(std::move(lent), hello, keys->answer);
}

void InprocServer::Open(std::unique_ptr<Channel> channel, const Hello& hello,
                        const AnswerKey& answer) {
  RandomBytes(welcome_.session);
  welcome_.driver_version = report_.driver_version;
  welcome_.lanes = kLanes;
  welcome_.grace_ms = kGraceMs;
  welcome_.device_kind = "cpu";
  welcome_.devices = report_.devices;
  welcome_.supported_calls = SupportedCalls();
  welcome_.features = FeatureBit(SessionFeature::kMirrors) | FeatureBit(SessionFeature::kLibraries);
  server::SessionOptions options;
  options.devices = static_cast<int>(report_.devices.size());
  options.grace_ms = kGraceMs;
  options.lanes = kLanes;
  session_ = std::make_unique<server::SessionLoop>(api_, options, *broker_);
  welcome_.device_window = session_->session().ReserveWindow(hello.device_windows);
  if (!SendWelcome(*channel, answer, welcome_, Soon()).ok()) return;
  session_->link().AttachLog(std::move(channel), 0, 0);
  issue_ = std::thread([this, session = session_.get()] { ended_ = session->Run(); });
}

void InprocServer::Attach(std::unique_ptr<Channel> channel, const Hello& hello,
                          const AnswerKey& answer) {
  Link& link = session_->link();
  Welcome welcome = welcome_;
  welcome.devices.clear();
  welcome.received_seq = link.received_seq();
  welcome.received_chunks = link.chunks_received();
  if (!SendWelcome(*channel, answer, welcome, Soon()).ok()) return;
  if (hello.role == LinkRole::kLane) {
    link.AttachLane(hello.lane, std::move(channel));
  } else {
    link.AttachLog(std::move(channel), hello.received_seq, hello.received_chunks);
    ++resumes_;
  }
}

void InprocServer::Cut() {
  std::vector<std::weak_ptr<Channel>> connections;
  {
    std::lock_guard lock(mutex_);
    connections.swap(connections_);
  }
  for (const std::weak_ptr<Channel>& connection : connections)
    if (std::shared_ptr<Channel> channel = connection.lock()) channel->Close();
}

int InprocServer::resumes() {
  std::lock_guard lock(mutex_);
  return resumes_;
}

Status InprocServer::Join() {
  std::thread issue;
  {
    std::lock_guard lock(mutex_);  // a thread of handshakes_ made it
    issue = std::move(issue_);
  }
  if (issue.joinable()) issue.join();
  handshakes_->Stop();
  std::lock_guard lock(mutex_);
  session_.reset();
  return ended_;
}

}  // namespace farcall::inproc_test
