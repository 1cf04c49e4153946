// SPDX-License-Identifier: Apache-2.0
#include "listener/tls/tls_port.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "transport/tls/tls_channel.h"

namespace farcall {

TlsPort::TlsPort(TlsFiles files, std::unique_ptr<Listener> tcp, TlsAcceptor::Warn warn)
    : tcp_(std::move(tcp)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      made_(std::make_unique<TlsListener>("tls" + tcp_->Url().substr(3))),
      listener_(made_.get()),
      acceptor_(
          std::move(files),
          [this](std::unique_ptr<Channel> channel, const TlsKeys& keys,
                 const std::string& identity) { Pass(std::move(channel), keys, identity); },
          std::move(warn)) {}

TlsPort::~TlsPort() {
  Stop();
  close(stop_);
}

Status TlsPort::Start() {
  FARCALL_TRY(acceptor_.Open(tcp_->PollDescriptor(), stop_));
  return thread_.Start("fc-tls", &TlsAcceptor::Run, &acceptor_)
             ? Status()
             : Status(Code::kUnavailable, "no threads for TLS: raise the limit of processes");
}

void TlsPort::Pass(std::unique_ptr<Channel> channel, const TlsKeys& keys,
                   const std::string& identity) {
  Result<std::unique_ptr<Channel>> made = MakeTlsChannel(std::move(channel), keys, identity);
  if (made.ok()) listener_->Push(std::move(*made));
}

void TlsPort::Stop() {
  eventfd_write(stop_, 1);
  thread_.Join();
}

}  // namespace farcall
