// SPDX-License-Identifier: Apache-2.0
// The link against the raw channel under it, in one run: 64-byte round trips, one-way 16 KiB
// frames, 64 MiB transfers. Both ends share the process; figures on a loaded or small machine tell
// little, ratios more.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "transport/link.h"

namespace farcall {
namespace {

constexpr int kRoundTrips = 20000;
constexpr size_t kStreamBytes = 512u << 20;
constexpr size_t kTransferBytes = 64u << 20;
constexpr int kTransfers = 8;

Clock::time_point Later() {
  return Clock::now() + std::chrono::seconds(60);
}

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

struct Connection {
  std::unique_ptr<Channel> client, server;
};

Connection Connect(Listener& listener) {
  Connection connection;
  connection.client = std::move(*Dial(listener.Url(), Later()));
  connection.server = std::move(*listener.Accept(Later()));
  return connection;
}

// The waiting policy of both raw and link: spin, then block.
size_t ReceiveSome(Channel& channel, std::span<std::byte> into, uint32_t spin_us) {
  Clock::time_point stop = Clock::now() + std::chrono::microseconds(spin_us);
  for (;;) {
    Result<size_t> got = channel.TryReceive(into);
    if (!got.ok()) return 0;
    if (*got != 0) return *got;
    if (Clock::now() >= stop) channel.WaitReadable(Later());
  }
}

void ReceiveExactly(Channel& channel, std::span<std::byte> into, uint32_t spin_us) {
  while (!into.empty()) {
    size_t got = ReceiveSome(channel, into, spin_us);
    if (got == 0) return;
    into = into.subspan(got);
  }
}

double RawRoundTrip(Listener& listener, uint32_t spin_us) {
  Connection connection = Connect(listener);
  std::thread server([&] {
    std::byte message[64];
    for (int i = 0; i < kRoundTrips; ++i) {
      ReceiveExactly(*connection.server, message, spin_us);
      (void)SendAll(*connection.server, message, Later());
    }
  });
  std::byte message[64] = {};
  std::vector<double> us;
  for (int i = 0; i < kRoundTrips; ++i) {
    Clock::time_point start = Clock::now();
    (void)SendAll(*connection.client, message, Later());
    ReceiveExactly(*connection.client, message, spin_us);
    us.push_back(Seconds(start) * 1e6);
  }
  server.join();
  std::nth_element(us.begin(), us.begin() + kRoundTrips / 2, us.end());
  return us[kRoundTrips / 2];
}

// GB/s over as many connections as the link has lanes; one thread sends in turn, one receives per
// connection.
double RawTransfer(Listener& listener, uint32_t lanes) {
  std::vector<Connection> connections;
  for (uint32_t i = 0; i < lanes; ++i) connections.push_back(Connect(listener));
  std::vector<std::byte> source(kTransferBytes, std::byte{1}), target(kTransferBytes);
  Clock::time_point start = Clock::now();
  size_t each = kTransferBytes / lanes;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < lanes; ++i) {
    threads.emplace_back([&, i] {
      for (int t = 0; t < kTransfers; ++t)
        (void)ReceiveAll(*connections[i].server, std::span(target).subspan(i * each, each),
                         Later());
    });
    threads.emplace_back([&, i] {
      for (int t = 0; t < kTransfers; ++t) {
        (void)SendAll(*connections[i].client,
                      std::span<const std::byte>(source).subspan(i * each, each), Later());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return static_cast<double>(kTransferBytes) * kTransfers / Seconds(start) / 1e9;
}

class Sink final : public LinkObserver {
 public:
  explicit Sink(std::span<std::byte> target) : target_(target) {}
  Status OnFrame(const FrameView&) override {
    ++frames;
    if (echo != nullptr) return Send(*echo, 16);
    return {};
  }
  std::span<std::byte> ChunkDestination(const ChunkHeader& header) override {
    return target_.subspan(header.offset, header.bytes);
  }
  void OnChunk(const ChunkHeader&) override {}
  void OnClosed(const Status&) override {}

  // One frame whose records take `bytes`.
  static Status Send(Link& link, size_t bytes) {
    std::unique_ptr<FrameBuffer> frame = link.TakeBuffer(bytes);
    RecordHeader record;
    record.bytes = static_cast<uint32_t>(bytes);
    std::memcpy(frame->room().data(), &record, sizeof(record));
    frame->Commit(bytes);
    return link.SendFrame(std::move(frame));
  }

  std::atomic<uint64_t> frames = 0;
  Link* echo = nullptr;

 private:
  std::span<std::byte> target_;
};

struct Figures {
  double round_trip_us = 0, frames_gbps = 0, transfer_gbps = 0;
};

Figures MeasureLink(Listener& listener, const LinkOptions& base) {
  LinkOptions client_options = base;
  client_options.is_client = true;
  std::vector<std::byte> source(kTransferBytes, std::byte{1}), target(kTransferBytes);
  Sink client_sink({}), server_sink(target);
  std::unique_ptr<Link> client = std::make_unique<Link>(client_sink, client_options),
                        server = std::make_unique<Link>(server_sink, base);
  Connection log = Connect(listener);
  server->AttachLog(std::move(log.server), 0, 0);
  client->AttachLog(std::move(log.client), 0, 0);
  for (uint32_t i = 0; i < base.lanes; ++i) {
    Connection lane = Connect(listener);
    server->AttachLane(i, std::move(lane.server));
    client->AttachLane(i, std::move(lane.client));
  }
  Figures figures;
  server_sink.echo = server.get();
  std::thread pump([&] {
    while (server->closed().ok()) (void)server->Pump(Clock::now() + std::chrono::seconds(1));
  });
  std::vector<double> us;
  for (uint64_t i = 1; i <= kRoundTrips; ++i) {
    Clock::time_point start = Clock::now();
    (void)Sink::Send(*client, 16);  // with the frame's header 64 bytes
    while (client_sink.frames < i) (void)client->Pump(Later());
    us.push_back(Seconds(start) * 1e6);
  }
  std::nth_element(us.begin(), us.begin() + kRoundTrips / 2, us.end());
  figures.round_trip_us = us[kRoundTrips / 2];
  server_sink.echo = nullptr;
  std::thread acknowledgements([&] {
    while (client->closed().ok()) (void)client->Pump(Clock::now() + std::chrono::seconds(1));
  });
  uint64_t frames = kStreamBytes / kBatchBytes, before = server_sink.frames;
  Clock::time_point start = Clock::now();
  for (uint64_t i = 0; i < frames; ++i) (void)Sink::Send(*client, kBatchBytes);
  while (server_sink.frames < before + frames) std::this_thread::yield();
  figures.frames_gbps = static_cast<double>(kStreamBytes) / Seconds(start) / 1e9;
  start = Clock::now();
  for (int t = 0; t < kTransfers; ++t)
    (void)client->SendTransfer(1, 0, source, Link::Retain::kBorrowed);
  figures.transfer_gbps = static_cast<double>(kTransferBytes) * kTransfers / Seconds(start) / 1e9;
  client->Close({Code::kDisconnected, "measured"});
  pump.join();
  acknowledgements.join();
  return figures;
}

std::string CongestionControl() {
  char name[64] = "?";
  int fd = open("/proc/sys/net/ipv4/tcp_congestion_control", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    ssize_t got = read(fd, name, sizeof(name) - 1);
    name[std::max<ssize_t>(got, 1) - 1] = 0;
    close(fd);
  }
  return name;
}

int Run(int argc, char** argv) {
  std::string url = argc > 1 ? argv[1] : "tcp://127.0.0.1:0";
  Result<std::unique_ptr<Listener>> listener = Listen(url);
  if (!listener.ok()) {
    std::fprintf(stderr, "transport_bench: %s\n", listener.status().message().c_str());
    return 1;
  }
  LinkOptions options;
  std::printf(
      "policy: %s, spin %u us then block, %u lanes, checksum %s, congestion control %s, no "
      "pinning, %u CPUs\n",
      url.c_str(), options.spin_us, options.lanes, options.checksum ? "on" : "off",
      CongestionControl().c_str(), std::thread::hardware_concurrency());
  double raw_us = RawRoundTrip(**listener, options.spin_us);
  double raw_gbps = RawTransfer(**listener, options.lanes);
  Figures link = MeasureLink(**listener, options);
  std::printf("%-34s %10s %10s %8s\n", "", "raw", "link", "ratio");
  std::printf("%-34s %10.2f %10.2f %8.2f\n", "round trip of 64 B, us (median)", raw_us,
              link.round_trip_us, link.round_trip_us / raw_us);
  std::printf("%-34s %10.2f %10.2f %8.2f\n", "64 MiB transfers, GB/s", raw_gbps, link.transfer_gbps,
              link.transfer_gbps / raw_gbps);
  std::printf("%-34s %10s %10.2f\n", "16 KiB frames one way, GB/s", "-", link.frames_gbps);
  return 0;
}

}  // namespace
}  // namespace farcall

int main(int argc, char** argv) {
  return farcall::Run(argc, argv);
}
