// SPDX-License-Identifier: Apache-2.0
#include "tests/transport/verbs_listener.h"

#include "tests/transport/fake_verbs.h"
#include "transport/tcp/tcp_channel.h"
#include "transport/verbs/verbs_channel.h"

namespace farcall::test {
namespace {

Url WithoutCard(const Url& url) {
  return {url.text, url.scheme, url.rest.substr(0, url.rest.rfind('/'))};
}
std::string CardOf(const Url& url) {
  return url.rest.substr(url.rest.rfind('/') + 1);
}

Result<std::unique_ptr<Channel>> GoOn(Result<std::unique_ptr<Channel>> socket,
                                      const std::string& card, VerbsRole role) {
  if (!socket.ok()) return socket;
  const bool is_lane = card.find("lane") != std::string::npos;
  VerbsDevice* device = VerbsDeviceFor(card.substr(0, 4));
  if (device == nullptr) return Status(Code::kUnavailable, "no card " + card);
  Result<FabricEndPointer> end =
      MakeVerbsEnd(*device, role, is_lane ? VerbsUse::kLane : VerbsUse::kLog);
  if (!end.ok()) return end.status();
  std::unique_ptr<FabricConnection> channel =
      MakeFabricChannel(std::move(*socket), std::move(*end));
  if (role == VerbsRole::kReaches)  // the suite expects to send at once
    (void)channel->AwaitPeer(Clock::now() + std::chrono::seconds(5));
  return std::unique_ptr<Channel>(std::move(channel));
}

class VerbsListener final : public Listener {
 public:
  VerbsListener(std::unique_ptr<Listener> tcp, std::string card)
      : tcp_(std::move(tcp)), card_(std::move(card)) {}

  Result<std::unique_ptr<Channel>> Accept(Clock::time_point deadline) override {
    return GoOn(tcp_->Accept(deadline), card_, VerbsRole::kReaches);
  }
  int PollDescriptor() const override { return tcp_->PollDescriptor(); }
  void Close() override { tcp_->Close(); }
  std::string Url() const override { return "verbs" + tcp_->Url().substr(3) + "/" + card_; }

 private:
  const std::unique_ptr<Listener> tcp_;
  const std::string card_;
};

Result<std::unique_ptr<Channel>> DialVerbs(const Url& url, Clock::time_point deadline) {
  return GoOn(DialTcp(WithoutCard(url), deadline), CardOf(url), VerbsRole::kOffers);
}
Result<std::unique_ptr<Listener>> ListenVerbs(const Url& url) {
  Result<std::unique_ptr<Listener>> tcp = ListenTcp(WithoutCard(url));
  if (!tcp.ok()) return tcp;
  return std::unique_ptr<Listener>(std::make_unique<VerbsListener>(std::move(*tcp), CardOf(url)));
}

}  // namespace

VerbsApi VerbsTableOf(const std::string& card) {
  return card == "fake" ? FakeVerbs() : **LoadVerbs();
}

VerbsDevice* VerbsDeviceFor(const std::string& card) {
  static VerbsDevice* const fake = [] {
    static const VerbsApi api = FakeVerbs();
    return VerbsDevice::Open(api, {})->release();
  }();
  if (card == "fake") return fake;
  Result<VerbsDevice*> real = VerbsDeviceOfProcess();
  return real.ok() ? *real : nullptr;
}

std::vector<std::string> AddVerbsForTests() {
  AddTransport("verbs", &DialVerbs, &ListenVerbs);
  std::vector<std::string> urls = {"verbs://127.0.0.1:0/fake", "verbs://127.0.0.1:0/fakelane"};
  if (VerbsDeviceFor("card") != nullptr)
    urls.insert(urls.end(), {"verbs://127.0.0.1:0/card", "verbs://127.0.0.1:0/cardlane"});
  return urls;
}

}  // namespace farcall::test
