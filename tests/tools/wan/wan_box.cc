// SPDX-License-Identifier: Apache-2.0
// A long-distance line in user space, between two TUN devices: delay, rate, a bounded queue, loss,
// reordering and cuts. The kernel's own emulator (netem) is missing from many kernels.
//
//   wan_box --left NAME --right NAME --rtt-ms MS --rate-mbit N [--loss P] [--reorder P]
//           [--queue-ms MS] [--seed N]
//
// Makes both devices and prints `ready`; they belong in namespaces of their own (wan.py). A line on
// the standard input, `cut MS`, drops all packets for that long; at its end the box says what it
// did, as JSON, and ends.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

constexpr size_t kMaxPacketBytes = 65536;

struct Line {
  nanoseconds delay{};           // one way
  double bytes_per_ns = 0;       // of each direction
  nanoseconds queue{};           // what waits for the line, at most
  double loss = 0, reorder = 0;  // of packets, at random
  uint64_t seed = 1;
};

std::atomic<int64_t> g_cut_until{0};  // since the clock's epoch, in nanoseconds

// One direction: a thread that takes packets off a device, and one that delivers them.
class Direction {
 public:
  Direction(int from, int to, const Line& line)
      : from_(from), to_(to), line_(line), random_(line.seed) {}

  void Take() {
    std::array<char, kMaxPacketBytes> packet;
    for (;;) {
      const ssize_t bytes = read(from_, packet.data(), packet.size());
      if (bytes <= 0) return;
      Admit(packet.data(), static_cast<size_t>(bytes));
    }
  }

  void Deliver() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (waiting_.empty()) {
        came_.wait(lock);
        continue;
      }
      const Clock::time_point due = waiting_.front().due;
      if (due > Clock::now()) {
        came_.wait_until(lock, due);
        continue;
      }
      const std::vector<char> bytes = std::move(waiting_.front().bytes);
      waiting_.pop_front();
      lock.unlock();
      // A device that takes no more drops it, as a line would.
      if (write(to_, bytes.data(), bytes.size()) > 0) ++delivered_;
      lock.lock();
    }
  }

  void Print(const char* name) const {
    std::printf(
        "\"%s\": {\"packets\": %llu, \"bytes\": %llu, \"delivered\": %llu, \"lost\": %llu, "
        "\"overflowed\": %llu, \"cut\": %llu, \"reordered\": %llu}",
        name, Count(packets_), Count(bytes_), Count(delivered_), Count(lost_), Count(overflowed_),
        Count(cut_), Count(reordered_));
  }

 private:
  struct Packet {
    Clock::time_point due;
    std::vector<char> bytes;
  };

  static unsigned long long Count(const std::atomic<uint64_t>& count) { return count.load(); }
  bool Happens(double probability) {
    return probability > 0 && std::uniform_real_distribution<>(0, 1)(random_) < probability;
  }

  void Admit(const char* data, size_t bytes) {
    const Clock::time_point now = Clock::now();
    ++packets_;
    bytes_ += bytes;
    if (now.time_since_epoch().count() < g_cut_until.load()) {
      ++cut_;
      return;
    }
    if (Happens(line_.loss)) {
      ++lost_;
      return;
    }
    const Clock::time_point begins = std::max(now, free_at_);
    if (begins - now > line_.queue) {
      ++overflowed_;
      return;
    }
    free_at_ =
        begins + nanoseconds(static_cast<int64_t>(static_cast<double>(bytes) / line_.bytes_per_ns));
    Clock::time_point due = free_at_ + line_.delay;
    if (Happens(line_.reorder)) {
      ++reordered_;
      due += std::max<nanoseconds>(line_.delay / 4, std::chrono::milliseconds(1));
    }
    std::lock_guard lock(mutex_);
    auto at = waiting_.end();
    while (at != waiting_.begin() && std::prev(at)->due > due) --at;
    const bool is_next = at == waiting_.begin();
    waiting_.insert(at, Packet{due, std::vector<char>(data, data + bytes)});
    if (is_next) came_.notify_one();
  }

  const int from_, to_;
  const Line line_;
  std::mt19937_64 random_;
  Clock::time_point free_at_{};  // the line, for the next packet
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Packet> waiting_;  // by when they are due
  std::atomic<uint64_t> packets_{0}, bytes_{0}, delivered_{0}, lost_{0}, overflowed_{0}, cut_{0},
      reordered_{0};
};

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "wan_box: %s\n", why.c_str());
  std::exit(2);
}

int OpenTun(const std::string& name) {
  const int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  if (fd < 0) Fail(std::string("/dev/net/tun: ") + std::strerror(errno));
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  std::snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name.c_str());
  if (ioctl(fd, TUNSETIFF, &request) != 0) Fail(name + ": " + std::strerror(errno));
  return fd;
}

double Number(const std::map<std::string, std::string>& flags, const char* name, double otherwise) {
  auto found = flags.find(name);
  if (found == flags.end()) return otherwise;
  char* end = nullptr;
  const double number = std::strtod(found->second.c_str(), &end);
  if (end == found->second.c_str() || *end != '\0' || !(number >= 0))
    Fail(std::string(name) + " '" + found->second + "': a number from 0 on");
  return number;
}

nanoseconds Milliseconds(double ms) {
  return nanoseconds(static_cast<int64_t>(ms * 1e6));
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> flags;
  for (int i = 1; i + 1 < argc; i += 2) flags[argv[i]] = argv[i + 1];
  if (argc % 2 == 0 || flags.count("--left") == 0 || flags.count("--right") == 0)
    Fail("--left NAME --right NAME --rtt-ms MS --rate-mbit N [--loss P] [--reorder P] ...");
  const double rtt_ms = Number(flags, "--rtt-ms", 0), mbit = Number(flags, "--rate-mbit", 10'000);
  if (mbit <= 0) Fail("--rate-mbit: more than 0");
  Line line;
  line.delay = Milliseconds(rtt_ms / 2);
  line.bytes_per_ns = mbit / 8000;
  line.queue = Milliseconds(Number(flags, "--queue-ms", 20));
  line.loss = Number(flags, "--loss", 0);
  line.reorder = Number(flags, "--reorder", 0);
  line.seed = static_cast<uint64_t>(Number(flags, "--seed", 1));
  prctl(PR_SET_TIMERSLACK, 1000UL);
  const int left = OpenTun(flags["--left"]), right = OpenTun(flags["--right"]);
  static Direction there(left, right, line), back(right, left, line);
  for (Direction* each : {&there, &back}) {
    std::thread([each] { each->Take(); }).detach();
    std::thread([each] { each->Deliver(); }).detach();
  }
  std::puts("ready");
  std::fflush(stdout);
  std::array<char, 256> command;
  while (std::fgets(command.data(), command.size(), stdin) != nullptr) {
    double ms = 0;
    if (std::sscanf(command.data(), "cut %lf", &ms) == 1)
      g_cut_until = (Clock::now() + Milliseconds(ms)).time_since_epoch().count();
  }
  std::printf("{");
  there.Print("there");
  std::printf(", ");
  back.Print("back");
  std::printf("}\n");
  std::fflush(stdout);
  _exit(0);  // the threads wait in the kernel
}
