// SPDX-License-Identifier: Apache-2.0
#include "tests/transport/shm_listener.h"

#include <unistd.h>

#include "transport/shm/shm_channel.h"
#include "transport/shm/shm_socket.h"

namespace farcall::test {
namespace {

class RingListener final : public Listener {
 public:
  explicit RingListener(std::unique_ptr<Listener> inner) : inner_(std::move(inner)) {}

  Result<std::unique_ptr<Channel>> Accept(Clock::time_point deadline) override {
    Result<std::unique_ptr<Channel>> accepted = inner_->Accept(deadline);
    if (!accepted.ok()) return accepted;
    const int fd = dup((*accepted)->Descriptor());
    (*accepted)->Abandon();
    return ServeRings(fd, kLogRingBytes);
  }
  int PollDescriptor() const override { return inner_->PollDescriptor(); }
  void Close() override { inner_->Close(); }
  std::string Url() const override { return inner_->Url(); }

 private:
  const std::unique_ptr<Listener> inner_;
};

Result<std::unique_ptr<Listener>> ListenWithRings(const Url& url) {
  Result<std::unique_ptr<Listener>> listener = ListenShm(url);
  if (!listener.ok()) return listener;
  return std::unique_ptr<Listener>(std::make_unique<RingListener>(std::move(*listener)));
}

}  // namespace

void AddShmForTests() {
  AddTransport("shm", &DialShm, &ListenWithRings);
}

}  // namespace farcall::test
