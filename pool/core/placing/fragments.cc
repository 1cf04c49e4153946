// SPDX-License-Identifier: Apache-2.0
#include "pool/core/placing/fragments.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace farcall::pool {

namespace {

constexpr size_t kMaxTypical = 32;
constexpr double kSame = 1e-9;  // sums in another order differ by less

// What is free on a GPU.
struct Free {
  double part = 0;
  uint64_t bytes = 0;
  uint32_t milli = 0;
  bool is_empty = false;
  bool operator==(const Free&) const = default;
};

Free FreeOf(const Gpu& gpu, const GpuUse& use) {
  Free free;
  if (use.exclusive != 0) return free;  // nobody else comes there
  free.bytes = gpu.FreeBytes(use);
  free.milli = kWholeMilli - std::min(kWholeMilli, use.used_milli);
  free.is_empty = use.claims == 0;
  const double memory = gpu.lendable_bytes() == 0 ? 0
                                                  : static_cast<double>(free.bytes) /
                                                        static_cast<double>(gpu.lendable_bytes());
  free.part = (memory + static_cast<double>(free.milli) / kWholeMilli) / 2;
  return free;
}

GpuUse With(GpuUse use, const Gpu& gpu, const Ask& ask) {
  const bool is_whole = ask.memory_bytes == 0;
  use.used_bytes += is_whole ? gpu.memory_bytes : ask.memory_bytes;
  use.used_milli += ShareOn(gpu, ask);
  use.claims += 1;
  use.exclusive += is_whole ? 1 : 0;
  return use;
}

bool IsUseful(const Free& free, const Gpu& gpu, const Size& size) {
  if (!size.model.empty() && gpu.name.find(size.model) == std::string::npos) return false;
  const uint32_t share_milli = ShareOn(gpu, size.gflops, size.share_milli);
  if (share_milli > kWholeMilli) return false;
  if (size.memory_bytes == 0) return free.is_empty;
  return free.bytes >= size.memory_bytes && free.milli >= share_milli && free.part > 0;
}

// One host: what is free on each GPU, and sums of it for each typical size, so that another state
// of one GPU costs one look at it.
class OneHost {
 public:
  OneHost(const Host& host, const Demand& demand)
      : host_(host), typical_(demand.typical()), sums_(typical_.size()) {
    for (const Gpu& gpu : host.gpus) {
      uses_.push_back(gpu);
      Count(free_.emplace_back(FreeOf(gpu, gpu)), gpu, 1);
    }
  }

  double Fragments() const { return Sum({}, {}, nullptr); }
  // By how much they would be more.
  double Raise(uint32_t device, const Ask& ask) const {
    const Gpu& gpu = host_.gpus[device];
    return Sum(free_[device], FreeOf(gpu, With(uses_[device], gpu, ask)), &gpu) - Fragments();
  }
  void Put(uint32_t device, const Ask& ask) {
    const Gpu& gpu = host_.gpus[device];
    Count(free_[device], gpu, -1);
    uses_[device] = With(uses_[device], gpu, ask);
    free_[device] = FreeOf(gpu, uses_[device]);
    Count(free_[device], gpu, 1);
  }
  // Whether two GPUs are alike for all that is asked here.
  bool AreAlike(uint32_t a, uint32_t b) const {
    return free_[a] == free_[b] && host_.gpus[a].memory_bytes == host_.gpus[b].memory_bytes &&
           host_.gpus[a].extra_bytes == host_.gpus[b].extra_bytes &&
           host_.gpus[a].name == host_.gpus[b].name;  // and so of as many TFLOPS
  }

 private:
  struct OfSize {
    int useful = 0;      // GPUs
    double useless = 0;  // free parts of the others
  };

  void Count(const Free& free, const Gpu& gpu, int sign) {
    all_ += sign * free.part;
    for (size_t i = 0; i < typical_.size(); ++i)
      if (IsUseful(free, gpu, typical_[i].size))
        sums_[i].useful += sign;
      else
        sums_[i].useless += sign * free.part;
  }

  // Were one GPU `after` instead of `before`; without one: as it is.
  double Sum(const Free& before, const Free& after, const Gpu* gpu) const {
    double sum = 0;
    for (size_t i = 0; i < typical_.size(); ++i) {
      const Size& size = typical_[i].size;
      OfSize of = sums_[i];
      double all = all_;
      if (gpu != nullptr) {
        all += after.part - before.part;
        if (IsUseful(before, *gpu, size))
          --of.useful;
        else
          of.useless -= before.part;
        if (IsUseful(after, *gpu, size))
          ++of.useful;
        else
          of.useless += after.part;
      }
      // Where it does not fit at all, all that is free is of no use to it.
      sum += typical_[i].part * (of.useful < static_cast<int>(size.count) ? all : of.useless);
    }
    return sum;
  }

  const Host& host_;
  const std::vector<Demand::Typical>& typical_;
  std::vector<GpuUse> uses_;
  std::vector<Free> free_;
  std::vector<OfSize> sums_;
  double all_ = 0;
};

}  // namespace

Demand::Key Demand::KeyOf(const Ask& ask) {
  if (!ask.sizes.empty()) {
    const Size& first = ask.sizes.front();
    return {first.count, first.memory_bytes, first.share_milli, first.model, first.gflops};
  }
  return {ask.count, ask.memory_bytes, ask.share_milli, ask.model, ask.gflops};
}

void Demand::Add(const Ask& ask) {
  ++counts_[KeyOf(ask)];
  is_old_ = true;
}

void Demand::Remove(const Ask& ask) {
  auto found = counts_.find(KeyOf(ask));
  if (found == counts_.end()) return;
  if (--found->second == 0) counts_.erase(found);
  is_old_ = true;
}

const std::vector<Demand::Typical>& Demand::typical() const {
  if (!is_old_) return typical_;
  is_old_ = false;
  typical_.clear();
  double all = 0;
  for (const auto& [key, count] : counts_) {
    const auto& [gpus, bytes, milli, model, gflops] = key;
    typical_.push_back({{gpus, bytes, milli, model, gflops}, static_cast<double>(count)});
    all += static_cast<double>(count);
  }
  std::stable_sort(typical_.begin(), typical_.end(),
                   [](const Typical& a, const Typical& b) { return a.part > b.part; });
  if (typical_.size() > kMaxTypical) typical_.resize(kMaxTypical);
  for (Typical& one : typical_) one.part /= all;
  return typical_;
}

double FragmentsOf(const Host& host, const Demand& demand) {
  return OneHost(host, demand).Fragments();
}

double ChooseByFragments(const Host& host, const Ask& ask, const Demand& demand,
                         std::vector<Candidate>* candidates) {
  OneHost state(host, demand);
  double raised = 0;
  for (uint32_t n = 0; n < ask.count; ++n) {
    size_t best = n;
    double least = 0;
    std::vector<std::pair<uint32_t, double>> looked_at;
    for (size_t i = n; i < candidates->size(); ++i) {
      const uint32_t device = (*candidates)[i].device;
      if (std::any_of(looked_at.begin(), looked_at.end(),
                      [&](const auto& one) { return state.AreAlike(one.first, device); }))
        continue;
      const double raise = state.Raise(device, ask);
      looked_at.emplace_back(device, raise);
      if (i != n && raise > least - kSame) continue;
      least = raise;
      best = i;
    }
    // The others keep their order.
    std::rotate(candidates->begin() + n, candidates->begin() + static_cast<ptrdiff_t>(best),
                candidates->begin() + static_cast<ptrdiff_t>(best) + 1);
    state.Put((*candidates)[n].device, ask);
    raised += least;
  }
  return std::round(raised / kSame) * kSame;
}

}  // namespace farcall::pool
