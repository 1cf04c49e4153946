// SPDX-License-Identifier: Apache-2.0
// Figures of verbs:// between two ends in this process, over this machine's card: a round trip of
// 64 bytes on a log, and bulk on a lane, each way. tests/transport/on_hardware sets others beside
// them.
//
//   verbs_figures [ROUND_TRIPS [MEBIBYTES]]     prints "NAME VALUE UNIT", a line each
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/transport/verbs_listener.h"
#include "transport/channel.h"
#include "transport/verbs/verbs_channel.h"

namespace farcall::test {
namespace {

constexpr auto kLimit = std::chrono::minutes(5);

struct Ends {
  std::unique_ptr<Channel> client, server;
};

bool Open(const char* url, Ends* ends) {
  Result<std::unique_ptr<Listener>> listener = Listen(url);
  if (!listener.ok()) return false;
  const Clock::time_point deadline = Clock::now() + kLimit;
  Result<std::unique_ptr<Channel>> client = Dial((*listener)->Url(), deadline);
  Result<std::unique_ptr<Channel>> server =
      client.ok() ? (*listener)->Accept(deadline) : Result<std::unique_ptr<Channel>>(Status());
  if (!client.ok() || !server.ok()) return false;
  *ends = {std::move(*client), std::move(*server)};
  return true;
}

// Looks until it is there: what a wake-up takes is the machine's.
bool Take(Channel& channel, std::span<std::byte> into) {
  while (!into.empty()) {
    Result<size_t> got = channel.TryReceive(into);
    if (!got.ok()) return false;
    into = into.subspan(*got);
  }
  return true;
}

// Half of a round trip, as ib_send_lat has it: the median.
bool Latency(int turns) {
  Ends ends;
  if (!Open("verbs://127.0.0.1:0/card", &ends)) return false;
  std::vector<std::byte> there(64), here(64);
  std::thread echo([&] {
    for (int i = 0; i < turns && Take(*ends.server, there); ++i)
      (void)SendAll(*ends.server, there, Clock::now() + kLimit);
  });
  std::vector<double> times;
  for (int i = 0; i < turns; ++i) {
    const Clock::time_point begin = Clock::now();
    if (!SendAll(*ends.client, here, begin + kLimit).ok() || !Take(*ends.client, here)) break;
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / 2);
  }
  echo.join();
  if (times.empty()) return false;
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2),
                   times.end());
  std::printf("latency %.2f us\n", times[times.size() / 2]);
  return true;
}

bool Bulk(const char* name, Channel& from, Channel& to, size_t bytes) {
  std::vector<std::byte> source(bytes), target(bytes);
  std::fill(target.begin(), target.end(), std::byte{1});  // every page is there
  const Clock::time_point begin = Clock::now();
  std::thread sender([&] { (void)SendAll(from, source, begin + kLimit); });
  const bool is_whole = ReceiveAll(to, target, begin + kLimit).ok();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  sender.join();
  std::printf("%s %.1f MB/s\n", name, static_cast<double>(bytes) / 1e6 / seconds);
  return is_whole;
}

int Run(int argc, char** argv) {
  AddVerbsForTests();
  const int turns = argc > 1 ? std::atoi(argv[1]) : 10000;
  const size_t bytes = static_cast<size_t>(argc > 2 ? std::atoi(argv[2]) : 1024) << 20;
  Result<VerbsDevice*> device = VerbsDeviceOfProcess();
  if (!device.ok()) {
    std::fprintf(stderr, "verbs_figures: %s\n", device.status().message().c_str());
    return 77;
  }
  std::printf("card %s\n", VerbsDeviceText(**device).c_str());
  Ends lane;
  const bool is_measured = Latency(turns) && Open("verbs://127.0.0.1:0/cardlane", &lane) &&
                           Bulk("upload", *lane.client, *lane.server, bytes) &&
                           Bulk("download", *lane.server, *lane.client, bytes);
  return is_measured ? 0 : 1;
}

}  // namespace
}  // namespace farcall::test

int main(int argc, char** argv) {
  return farcall::test::Run(argc, argv);
}
