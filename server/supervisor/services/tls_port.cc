// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/services/tls_port.h"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/spdlog.h>

#include "transport/poll.h"
#include "transport/tls/tls_channel.h"

namespace farcall::server {

namespace {

constexpr std::chrono::seconds kRestartPause(1), kReadyPatience(20);

}  // namespace

TlsPort::TlsPort(Closer& closer, int epoll, TlsFiles files, std::unique_ptr<Listener> tcp)
    : files_(std::move(files)),
      tcp_(std::move(tcp)),
      url_("tls" + tcp_->Url().substr(3)),
      gateway_(closer, epoll, nullptr,
               [this](int fd, std::vector<int>* descriptors) {
                 control::FromTlsGateway message;
                 FARCALL_TRY(control::Receive(fd, &message, descriptors));
                 std::visit([&](const auto& each) { Answer(each, *descriptors); }, message);
                 return Status();
               }),
      made_(std::make_unique<TlsListener>(url_)),
      listener_(made_.get()) {}

Status TlsPort::Start() {
  is_started_ = true;
  start_again_ = Clock::now() + kRestartPause;
  return gateway_.Start({"farcall", "tls-gateway", files_.certificate, files_.key,
                         files_.authorities, files_.revoked},
                        tcp_->PollDescriptor());
}

Status TlsPort::Open() {
  FARCALL_TRY(Start());
  const Clock::time_point deadline = Clock::now() + kReadyPatience;
  while (!is_ready_ && gateway_.runs()) {
    pollfd readable{gateway_.control(), POLLIN, 0};
    if (!PollUntil({&readable, 1}, deadline))
      return {Code::kUnavailable, url_ + ": its gateway does not start"};
    gateway_.OnReadable(readable.fd);
  }
  return is_ready_ ? Status()
                   : Status(Code::kInvalid,
                            warning_.empty() ? url_ + ": its gateway has ended" : warning_);
}

std::unique_ptr<Listener> TlsPort::TakeListener() {
  return std::move(made_);
}

bool TlsPort::OnReadable(int fd) {
  const HelperProcess::Read read = gateway_.OnReadable(fd);
  if (read == HelperProcess::Read::kEnded)
    spdlog::error("{}: its gateway has ended; it is started again", url_);
  return read != HelperProcess::Read::kNotOurs;
}

void TlsPort::Tick() {
  if (!is_started_ || gateway_.runs() || Clock::now() < start_again_) return;
  if (Status started = Start(); !started.ok()) spdlog::error("{}: {}", url_, started.message());
}

void TlsPort::Answer(const control::TlsReady&, const std::vector<int>&) {
  is_ready_ = true;
}

void TlsPort::Answer(const control::TlsConnected& message, const std::vector<int>& descriptors) {
  const int socket = descriptors.empty() ? -1 : fcntl(descriptors[0], F_DUPFD_CLOEXEC, 0);
  if (socket < 0) return;
  const std::string& keys = message.keys;
  Result<std::unique_ptr<Channel>> channel =
      AdoptChannel(socket, std::as_bytes(std::span(keys)), message.identity);
  // Without keys it would be a connection that nobody has shaken hands with.
  if (!channel.ok() || keys.empty()) {
    spdlog::error("{}: its gateway passes on what cannot be used", url_);
    return;
  }
  listener_->Push(std::move(*channel));
}

void TlsPort::Answer(const control::TlsWarning& message, const std::vector<int>&) {
  warning_ = message.why;
  if (is_ready_) spdlog::warn("{}: {}", url_, message.why.str());
}

}  // namespace farcall::server
