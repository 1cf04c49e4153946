// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/cpu/skipped.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cpu-device/driver/base/kind.h"
#include "cpu-device/driver/base/log.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/dry/cubin_program.h"
#include "cuda-abi/skipped_kernels.h"

namespace farcall::cpu_device {
namespace {

constexpr size_t kMaxNamed = 12;

struct Skipped {
  std::mutex mutex;
  std::map<std::string, uint64_t> launches;
  pid_t owner = 0;  // a forked child has the parent's counts, not its launches
};

Skipped& All() {
  static auto* skipped = new Skipped;
  return *skipped;
}

void Launched(const KernelInfo& kernel) {
  Skipped& all = All();
  std::lock_guard lock(all.mutex);
  if (++all.launches[kernel.name] == 1)
    Log(LogLevel::kWarn, "kernel %s: machine code alone, skipped", kernel.name.c_str());
}

std::vector<std::pair<std::string, uint64_t>> Counts() {
  Skipped& all = All();
  std::lock_guard lock(all.mutex);
  std::vector<std::pair<std::string, uint64_t>> counts(all.launches.begin(), all.launches.end());
  std::stable_sort(counts.begin(), counts.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return counts;
}

void Summarise() {
  if (getpid() != All().owner) return;
  const auto counts = Counts();
  if (counts.empty()) {
    fprintf(stderr, "farcall: KERNELS SKIPPED: none was launched\n");
    return;
  }
  uint64_t launches = 0;
  for (const auto& [name, count] : counts) launches += count;
  fprintf(stderr,
          "farcall: KERNELS SKIPPED: %llu launches of %zu kernels were not executed; what depends "
          "on them is no result\n",
          static_cast<unsigned long long>(launches), counts.size());
  for (size_t i = 0; i < counts.size() && i < kMaxNamed; ++i) {
    fprintf(stderr, "farcall:   %10llu  %.400s\n",
            static_cast<unsigned long long>(counts[i].second), counts[i].first.c_str());
  }
  if (counts.size() > kMaxNamed)
    fprintf(stderr, "farcall:   and %zu more\n", counts.size() - kMaxNamed);
}

void Each(void (*tell)(const char* kernel, uint64_t launches, void* user), void* user) {
  for (const auto& [name, count] : Counts()) tell(name.c_str(), count, user);
}

constexpr cuda_abi::SkippedKernelsTable kTable = {sizeof(cuda_abi::SkippedKernelsTable), &Each};

}  // namespace

void AnnounceSkipping() {
  Skipped& all = All();
  if (all.owner != 0) return;  // cuInit again, after it found no device
  all.owner = getpid();
  fprintf(
      stderr,
      "farcall: SKIPPING MACHINE CODE: a kernel without PTX is not executed, what depends on it "
      "is no result\n");
  atexit(&Summarise);
}

ExecResult LoadSkipped(std::string_view cubin, GlobalMemory& memory,
                       std::unique_ptr<Program>* out) {
  const Profile& profile = TheDriver().profile;
  if (!profile.skips_machine_code)
    return {ExecStatus::kNoBinary, "a cubin: this device executes PTX only"};
  return dry::LoadCubin(cubin, static_cast<uint32_t>(profile.cc()), &Launched, memory, out);
}

const void* SkippedKernels(const Profile& profile) {
  return profile.skips_machine_code ? &kTable : nullptr;
}

}  // namespace farcall::cpu_device
