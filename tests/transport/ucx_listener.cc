// SPDX-License-Identifier: Apache-2.0
#include "tests/transport/ucx_listener.h"

#include <cstdlib>
#include <map>
#include <mutex>

#include "transport/tcp/tcp_channel.h"
#include "transport/ucx/ucx_channel.h"

namespace farcall::test {
namespace {

Url WithoutTransport(const Url& url) {
  const size_t slash = url.rest.rfind('/');
  return {url.text, url.scheme, url.rest.substr(0, slash)};
}
std::string TransportOf(const Url& url) {
  return url.rest.substr(url.rest.rfind('/') + 1);
}

Result<std::unique_ptr<Channel>> GoOn(Result<std::unique_ptr<Channel>> socket,
                                      const std::string& transport) {
  if (!socket.ok()) return socket;
  UcxContext* context = UcxContextFor(transport);
  if (context == nullptr) return Status(Code::kUnavailable, "UCX has no transport " + transport);
  Result<FabricEndPointer> end = MakeUcxEnd(*context, kUcxLogWindowBytes);
  if (!end.ok()) return end.status();
  return std::unique_ptr<Channel>(MakeFabricChannel(std::move(*socket), std::move(*end)));
}

class UcxListener final : public Listener {
 public:
  UcxListener(std::unique_ptr<Listener> tcp, std::string transport)
      : tcp_(std::move(tcp)), transport_(std::move(transport)) {}

  Result<std::unique_ptr<Channel>> Accept(Clock::time_point deadline) override {
    return GoOn(tcp_->Accept(deadline), transport_);
  }
  int PollDescriptor() const override { return tcp_->PollDescriptor(); }
  void Close() override { tcp_->Close(); }
  std::string Url() const override { return "ucx" + tcp_->Url().substr(3) + "/" + transport_; }

 private:
  const std::unique_ptr<Listener> tcp_;
  const std::string transport_;
};

Result<std::unique_ptr<Channel>> DialUcx(const Url& url, Clock::time_point deadline) {
  return GoOn(DialTcp(WithoutTransport(url), deadline), TransportOf(url));
}

Result<std::unique_ptr<Listener>> ListenUcx(const Url& url) {
  Result<std::unique_ptr<Listener>> tcp = ListenTcp(WithoutTransport(url));
  if (!tcp.ok()) return tcp;
  return std::unique_ptr<Listener>(
      std::make_unique<UcxListener>(std::move(*tcp), TransportOf(url)));
}

}  // namespace

UcxContext* UcxContextFor(const std::string& transport) {
  static std::mutex mutex;
  static auto* contexts = new std::map<std::string, std::unique_ptr<UcxContext>>;
  std::lock_guard lock(mutex);
  std::unique_ptr<UcxContext>& context = (*contexts)[transport];
  if (context == nullptr) {
    Result<const UcxApi*> api = LoadUcx();
    if (!api.ok()) return nullptr;
    // Without it UCX leaves shared memory out where deaths of peers are to be told.
    setenv("UCX_POSIX_ERROR_HANDLING", "y", 1);
    Result<std::unique_ptr<UcxContext>> made = UcxContext::Make(**api, {{"TLS", transport}});
    if (!made.ok()) return nullptr;
    context = std::move(*made);
  }
  return context.get();
}

bool AddUcxForTests() {
  static const bool has_ucx = LoadUcx().ok();
  if (has_ucx) AddTransport("ucx", &DialUcx, &ListenUcx);
  return has_ucx;
}

}  // namespace farcall::test
