// SPDX-License-Identifier: Apache-2.0
#include "tests/transport/tls_listener.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "tests/transport/link_harness.h"
#include "transport/tcp/tcp_channel.h"
#include "transport/tls/certificates.h"
#include "transport/tls/tls_channel.h"
#include "transport/tls/tls_dial.h"

namespace farcall::test {

namespace {

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

struct Shaken {
  std::unique_ptr<Channel> channel;
  TlsKeys keys;
  std::string identity;
  Status status;
};

Shaken Shake(std::shared_ptr<TlsContext> context, std::unique_ptr<Channel> channel,
             const std::string& host) {
  TlsHandshake handshake(std::move(context), *channel, host);
  for (;;) {
    Result<TlsHandshake::Progress> step = handshake.Step();
    if (!step.ok()) return {nullptr, {}, "", step.status()};
    if (*step == TlsHandshake::Progress::kDone) {
      Result<std::unique_ptr<Channel>> made = MakeTlsChannel(std::move(channel), handshake.keys());
      return {made.ok() ? std::move(*made) : nullptr, handshake.keys(), handshake.PeerIdentity(),
              made.status()};
    }
    const bool is_ready = *step == TlsHandshake::Progress::kWantsRead
                              ? channel->WaitReadable(In(kLong))
                              : channel->WaitWritable(In(kLong));
    if (!is_ready) return {nullptr, {}, "", {Code::kTimeout, "the handshake takes too long"}};
  }
}

std::shared_ptr<TlsContext> Context(TlsContext::Side side, const TlsFiles& files) {
  Result<std::shared_ptr<TlsContext>> made = TlsContext::Make(side, files);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() ? *made : nullptr;
}

class TlsListener final : public Listener {
 public:
  TlsListener(std::unique_ptr<Listener> tcp, std::shared_ptr<TlsContext> context)
      : tcp_(std::move(tcp)),
        context_(std::move(context)),
        ready_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)),
        thread_([this] { Run(); }) {}
  ~TlsListener() override {
    Close();
    thread_.join();
    close(ready_);
  }

  Result<std::unique_ptr<Channel>> Accept(Clock::time_point deadline) override {
    std::unique_lock lock(mutex_);
    came_.wait_until(lock, deadline, [this] { return is_closed_ || !channels_.empty(); });
    if (is_closed_) return Status(Code::kDisconnected, Url() + ": no longer listening");
    if (channels_.empty()) return Status(Code::kTimeout, Url() + ": nobody connected");
    eventfd_t count;
    (void)eventfd_read(ready_, &count);
    std::unique_ptr<Channel> channel = std::move(channels_.front());
    channels_.pop_front();
    return channel;
  }
  int PollDescriptor() const override { return ready_; }
  void Close() override {
    {
      std::lock_guard lock(mutex_);
      is_closed_ = true;
    }
    came_.notify_all();
    tcp_->Close();
  }
  std::string Url() const override { return "tls" + tcp_->Url().substr(3); }

 private:
  void Run() {
    for (;;) {
      Result<std::unique_ptr<Channel>> accepted = tcp_->Accept(Clock::time_point::max());
      if (!accepted.ok()) return;
      Shaken shaken = Shake(context_, std::move(*accepted), "");
      if (shaken.status.ok()) {
        std::lock_guard lock(mutex_);
        channels_.push_back(std::move(shaken.channel));
        eventfd_write(ready_, 1);
        came_.notify_all();
      }
    }
  }

  const std::unique_ptr<Listener> tcp_;
  const std::shared_ptr<TlsContext> context_;
  const int ready_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::unique_ptr<Channel>> channels_;
  bool is_closed_ = false;
  std::thread thread_;
};

TestAuthority& Authority() {
  static TestAuthority authority;
  return authority;
}

Result<std::unique_ptr<Channel>> DialForTests(const Url& url, Clock::time_point deadline) {
  static const std::shared_ptr<TlsContext> context = Context(
      TlsContext::Side::kClient,
      {.certificate = "", .key = "", .authorities = Authority().folder + "/ca.pem", .revoked = ""});
  return DialTls(url, context, deadline);
}

Result<std::unique_ptr<Listener>> ListenForTests(const Url& url) {
  static const std::shared_ptr<TlsContext> context =
      Context(TlsContext::Side::kServer, Authority().Issue("server", "127.0.0.1"));
  Result<std::unique_ptr<Listener>> tcp = Listen("tcp://" + url.rest);
  if (!tcp.ok()) return tcp.status();
  return std::unique_ptr<Listener>(std::make_unique<TlsListener>(std::move(*tcp), context));
}

}  // namespace

void AddTlsForTests() {
  AddTransport("tls", &DialForTests, &ListenForTests);
}

TestAuthority::TestAuthority(const std::string& name) {
  char path[] = "/tmp/farcall-tls-XXXXXX";
  folder = mkdtemp(path);
  Result<PemPair> made = MakeAuthority(name, 1);
  EXPECT_TRUE(made.ok()) << made.status().message();
  certificate_pem = made->certificate;
  key_pem = made->key;
  Write(folder + "/ca.pem", certificate_pem);
}

TestAuthority::~TestAuthority() {
  std::filesystem::remove_all(folder);
}

TlsFiles TestAuthority::Issue(const std::string& name, const std::string& host,
                              const std::string& uri, int days) {
  CertificateWish wish{name, {}, {}, days};
  if (!host.empty()) wish.hosts.push_back(host);
  if (!uri.empty()) wish.uris.push_back(uri);
  Result<PemPair> made = IssueCertificate({certificate_pem, key_pem}, wish);
  EXPECT_TRUE(made.ok()) << made.status().message();
  TlsFiles files;
  files.certificate = folder + "/" + name + ".pem";
  files.key = folder + "/" + name + ".key";
  Write(files.certificate, made->certificate);
  Write(files.key, made->key);
  return files;
}

TlsEnds ShakeHands(const TlsFiles& client, const TlsFiles& server, const std::string& host) {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  std::shared_ptr<TlsContext> of_client = Context(TlsContext::Side::kClient, client);
  std::shared_ptr<TlsContext> of_server = Context(TlsContext::Side::kServer, server);
  Shaken theirs;
  std::thread thread([&] { theirs = Shake(of_server, AdoptSocket(ends[1]), ""); });
  Shaken ours = Shake(of_client, AdoptSocket(ends[0]), host);
  if (!ours.status.ok()) ours.channel.reset();
  thread.join();
  return {std::move(ours.channel),
          std::move(theirs.channel),
          ours.keys,
          theirs.identity,
          ours.status,
          theirs.status};
}

}  // namespace farcall::test
