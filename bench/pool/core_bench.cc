// SPDX-License-Identifier: Apache-2.0
// pool-core [GPUS] [PENDING] [DECISIONS]: the pool's core alone, without store and network. A pool
// that claims of the shapes of docs/internals/pool.md fill, with others that wait; then claims end
// and come, and each event that places, or queues, is timed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "bench/pool/trace_shapes.h"
#include "pool/core/core.h"

namespace farcall::pool {
namespace {

constexpr uint64_t kGiB = 1ull << 30;
constexpr uint32_t kGpusOfHost = 8, kProjects = 20;

double Since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Quantile(std::vector<double>& values, double part) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<size_t>(part * static_cast<double>(values.size())))];
}

class Bench {
 public:
  Bench(size_t gpus, Core core) : core_(std::move(core)) {
    core_.Load({}, {}, 0);
    for (size_t i = 0; i < gpus / kGpusOfHost; ++i) {
      HostReport report;
      report.host = "host-" + std::to_string(i);
      report.incarnation = 1;
      report.gpus.resize(kGpusOfHost);
      for (Gpu& gpu : report.gpus) {
        gpu.name = "NVIDIA H100 80GB HBM3";
        gpu.memory_bytes = 80 * kGiB;
      }
      hosts_.push_back(std::move(report));
      Beat(i);
    }
    for (uint32_t i = 0; i < kProjects; ++i) {
      SetProject set;
      set.project.name = "p" + std::to_string(i);
      set.project.weight = 1 + i % 4;
      core_.Apply(set, now_);
    }
  }

  void Fill(size_t pending) {
    while (core_.pending() < pending) Request();
    for (size_t i = 0; i < hosts_.size(); ++i) Beat(i), Beat(i);
  }

  double FullPart() const {
    double used = 0, all = 0;
    for (const auto& [name, host] : core_.hosts())
      for (const Gpu& gpu : host.gpus) {
        used += gpu.exclusive != 0 ? kWholeMilli : gpu.used_milli;
        all += kWholeMilli;
      }
    return used / all;
  }

  double Request() {
    RequestClaim request;
    request.id = "c-" + std::to_string(++made_);
    const Shape& shape = AnyShape();
    request.ask.count = shape.count;
    request.ask.memory_bytes = shape.milli == kWholeMilli ? 0 : 80 * kGiB / 1000 * shape.milli;
    request.ask.share_milli = shape.milli;
    request.ask.project = "p" + std::to_string(random_() % kProjects);
    request.ask.preemptible = random_() % 2 == 0;
    request.tenant = "";  // a tenant's own bounds are not what is measured
    return Timed(request);
  }

  // A claim of any host ends: what comes to its place is decided when the host has said so.
  double End() {
    for (;;) {
      const size_t at = random_() % hosts_.size();
      const Host& host = core_.hosts().at(hosts_[at].host);
      if (host.claims.empty()) continue;
      core_.Apply(ReleaseClaim{*host.claims.begin(), "done", {}}, now_);
      return Beat(at);
    }
  }

  double Urgent() {
    RequestClaim request;
    request.id = "u-" + std::to_string(++made_);
    request.ask.queue_priority = 5;
    request.ask.share_milli = kWholeMilli;
    // Of one line the first alone looks whom it may preempt.
    request.ask.project = "p" + std::to_string(made_ % kProjects);
    request.tenant = request.id;
    return Timed(request);
  }
  double Turn() {
    now_ += 200;
    return Timed(Tick{});
  }
  void Later(Ms ms) { now_ += ms; }
  const Core& core() const { return core_; }

 private:
  const Shape& AnyShape() {
    uint32_t all = 0;
    for (const Shape& shape : kShapes) all += shape.weight;
    uint64_t at = random_() % all;
    for (const Shape& shape : kShapes) {
      if (at < shape.weight) return shape;
      at -= shape.weight;
    }
    return kShapes[0];
  }
  double Timed(const Event& event) {
    const auto start = std::chrono::steady_clock::now();
    core_.Apply(event, now_);
    return Since(start);
  }
  // The host holds what it is granted, and has let go what it is not.
  double Beat(size_t at) {
    HostReport& report = hosts_[at];
    report.claims.clear();
    ++report.beat;
    if (auto host = core_.hosts().find(report.host); host != core_.hosts().end())
      for (const std::string& id : host->second.claims) {
        const Claim& claim = *core_.Find(id);
        if (!IsGranted(claim.state)) continue;
        ReportedClaim told;
        told.claim = id;
        told.epoch = claim.epoch;
        told.sessions = 1;
        report.claims.push_back(told);
      }
    return Timed(report);
  }

  Core core_;
  std::mt19937_64 random_{1};
  Ms now_ = 1'000'000;
  uint64_t made_ = 0;
  std::vector<HostReport> hosts_;
};

void Row(const char* what, std::vector<double> seconds, const char* goal) {
  double sum = 0;
  for (double one : seconds) sum += one;
  std::printf("%-44s %9.3f ms %9.3f ms %9.0f/s   %s\n", what, Quantile(seconds, 0.5) * 1e3,
              Quantile(seconds, 0.99) * 1e3, static_cast<double>(seconds.size()) / sum, goal);
}

void Measure(size_t gpus, size_t pending, size_t decisions, const char* name, Core core) {
  Bench bench(gpus, std::move(core));
  bench.Fill(pending);
  std::printf("%s: %zu GPUs, %.1f %% full, %zu claims wait\n", name, gpus, bench.FullPart() * 100,
              bench.core().pending());
  std::vector<double> ends, comes, urgent, turns;
  for (size_t i = 0; i < decisions; ++i) {
    ends.push_back(bench.End());
    comes.push_back(bench.Request());
  }
  Row("a claim ends, others take its place", ends, "p99 < 1 ms, >= 10,000/s");
  Row("a claim comes", comes, "p99 < 1 ms, >= 10,000/s");
  for (size_t i = 0; i < 5; ++i) turns.push_back(bench.Turn());
  Row("a turn of the clock", turns, "");
  bench.Later(61'000);
  for (size_t i = 0; i < 60; ++i) urgent.push_back(bench.Urgent());
  Row("a claim comes that preempts another", urgent, "< 5 ms");
}

}  // namespace
}  // namespace farcall::pool

int main(int argc, char** argv) {
  using namespace farcall::pool;
  const size_t gpus = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 10'000;
  const size_t pending = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 100'000;
  const size_t decisions = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 5'000;
  if (gpus < kGpusOfHost || decisions == 0) {
    std::fprintf(stderr, "usage: pool-core [GPUS] [PENDING] [DECISIONS]\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::printf("%-44s %12s %12s\n", "of the core alone", "p50", "p99");
  for (const char* sequencer : {"fifo", "drf", "fair"})
    Measure(gpus, pending, decisions, sequencer,
            Core({}, Limits{.claims = 1'000'000}, {.name = sequencer}));
  return 0;
}
