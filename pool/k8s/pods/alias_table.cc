// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/pods/alias_table.h"

#include <algorithm>
#include <charconv>

#include "proto/printable.h"
#include "settings/decimal.h"

namespace farcall::k8s {

namespace {

constexpr uint64_t kMaxGpus = 64;
constexpr uint64_t kMaxBytes = uint64_t{1} << 46;  // the pool's
constexpr uint64_t kWholeCard = 100;               // of names that count per cent

enum class Use { kCount, kMemory, kMemoryPart, kCore, kGreedyCore, kPriority };

struct Alias {
  const char* name;
  Scheme scheme;
  Use use;
  uint64_t unit;  // of memory: bytes; 0: the setting. Of cores: the steps
};

constexpr Alias kAliases[] = {
    {"aliyun.com/gpu-mem", Scheme::kGpushare, Use::kMemory, 0},
    {"aliyun.com/gpu-count", Scheme::kGpushare, Use::kCount, 1},
    {"aliyun.com/gpu-core.percentage", Scheme::kGpushare, Use::kCore, 1},
    {"tke.cloud.tencent.com/qgpu-memory", Scheme::kQgpu, Use::kMemory, kGib},
    {"tke.cloud.tencent.com/qgpu-core", Scheme::kQgpu, Use::kCore, 5},
    {"tke.cloud.tencent.com/qgpu-core-greedy", Scheme::kQgpu, Use::kGreedyCore, 5},
    {kNativeGpu, Scheme::kHami, Use::kCount, 1},
    {"nvidia.com/gpumem", Scheme::kHami, Use::kMemory, kMib},
    {"nvidia.com/gpumem-percentage", Scheme::kHami, Use::kMemoryPart, 1},
    {"nvidia.com/gpucores", Scheme::kHami, Use::kCore, 1},
    {"nvidia.com/priority", Scheme::kHami, Use::kPriority, 1},
    {"tencent.com/vcuda-memory", Scheme::kVcuda, Use::kMemory, 256 * kMib},
    {"tencent.com/vcuda-core", Scheme::kVcuda, Use::kCore, 1},
    {"elasticgpu.io/gpu-memory", Scheme::kElasticGpu, Use::kMemory, kMib},
    {"elasticgpu.io/gpu-core", Scheme::kElasticGpu, Use::kCore, 1},
    {"elasticgpu.com/gpu-memory", Scheme::kElasticGpu, Use::kMemory, kMib},
    {"elasticgpu.com/gpu-core", Scheme::kElasticGpu, Use::kCore, 1},
};

struct Names {
  const char *people, *memory, *core;
};
constexpr Names kNames[kSchemes] = {
    {"gpushare", "aliyun.com/gpu-mem", "aliyun.com/gpu-core.percentage"},
    {"qGPU", "tke.cloud.tencent.com/qgpu-memory", "tke.cloud.tencent.com/qgpu-core"},
    {"HAMi", "nvidia.com/gpumem", "nvidia.com/gpucores"},
    {"vCUDA", "tencent.com/vcuda-memory", "tencent.com/vcuda-core"},
    {"elastic GPU", "elasticgpu.io/gpu-memory", "elasticgpu.io/gpu-core"},
};

const Names& NamesOf(Scheme scheme) {
  return kNames[static_cast<size_t>(scheme)];
}

Status Wrong(std::string_view name, std::string_view value, const std::string& right) {
  return {Code::kInvalid, std::string(name) + " " + Quoted(value) + ": " + right};
}

std::string UnitText(uint64_t unit) {
  return unit == kGib ? "GiB" : unit == kMib ? "MiB" : "units of 256 MiB";
}

// What was given of one scheme, in its own units.
struct Given {
  std::optional<uint64_t> count, memory, memory_part, core, greedy, priority;
  uint64_t unit = 1;
  std::string count_text, memory_text, core_text;  // "NAME 'VALUE'"
};

uint64_t Times(uint64_t left, uint64_t right) {
  uint64_t product = 0;
  return __builtin_mul_overflow(left, right, &product) ? UINT64_MAX : product;
}

// A whole number of units.   Errors  kInvalid
Result<uint64_t> ReadNumber(const Alias& alias, const std::string& text, uint64_t unit) {
  const Units units = ReadUnits(text);
  const bool is_memory = alias.use == Use::kMemory;
  switch (units.kind) {
    case Units::Kind::kNumber:
      return units.value;
    case Units::Kind::kBytes: {
      if (!is_memory) return Wrong(alias.name, text, "write a whole number, without a unit");
      const uint64_t rounded = units.value / unit + (units.value % unit != 0 ? 1 : 0);
      if (alias.scheme == Scheme::kQgpu) return rounded;  // both are published
      return Wrong(alias.name, text,
                   "it counts " + UnitText(unit) + "; write " + std::to_string(rounded));
    }
    case Units::Kind::kFraction:
      return Wrong(
          alias.name, text,
          is_memory ? "write a whole number of " + UnitText(unit) : "write a whole number");
    case Units::Kind::kNegative:
      return Wrong(alias.name, text, "write a number above 0");
    case Units::Kind::kNone:
      break;
  }
  return Wrong(alias.name, text, "write a whole number");
}

Status CheckCore(const Alias& alias, const std::string& text, uint64_t core) {
  const bool has_cards = alias.scheme != Scheme::kHami && alias.scheme != Scheme::kGpushare;
  if (core > kWholeCard && (!has_cards || alias.use == Use::kGreedyCore))
    return Wrong(alias.name, text, "it is per cent of one GPU; write at most 100");
  if (core > kWholeCard && core % kWholeCard != 0) {
    const uint64_t below = std::min(core / kWholeCard, kMaxGpus) * kWholeCard;
    return Wrong(alias.name, text,
                 "more than 100 is whole GPUs; write " + std::to_string(below) +
                     (below < kMaxGpus * kWholeCard ? " or " + std::to_string(below + kWholeCard)
                                                    : std::string()));
  }
  if (core / kWholeCard > kMaxGpus)
    return Wrong(alias.name, text, "a claim has at most 64 GPUs; write at most 6400");
  if (core % alias.unit != 0) {
    const uint64_t below = core / alias.unit * alias.unit;
    const std::string above = std::to_string(below + alias.unit);
    return Wrong(alias.name, text,
                 "it goes in steps of 5; write " +
                     (below == 0 ? above : std::to_string(below) + " or " + above));
  }
  return {};
}

Status Take(const Alias& alias, const std::string& text, uint64_t unit, Given* given) {
  Result<uint64_t> number = ReadNumber(alias, text, unit);
  if (!number.ok()) return number.status();
  const std::string told = std::string(alias.name) + " " + Quoted(text);
  switch (alias.use) {
    case Use::kCount:
      if (*number > kMaxGpus) return Wrong(alias.name, text, "a claim has at most 64 GPUs");
      given->count = *number;
      given->count_text = told;
      break;
    case Use::kMemory:
      if (given->memory) return Wrong(alias.name, text, "memory is asked for twice");
      if (Times(*number, unit) > kMaxBytes)
        return Wrong(alias.name, text,
                     "it counts " + UnitText(unit) + ", and no GPU has that many; write " +
                         std::to_string(4 * kGib / unit) + " for 4 GiB");
      given->memory = *number;
      given->memory_text = told;
      given->unit = unit;
      break;
    case Use::kMemoryPart:
      if (*number > 100) return Wrong(alias.name, text, "write 1 to 100");
      given->memory_part = *number;
      break;
    case Use::kCore:
      if (given->core) return Wrong(alias.name, text, "cores are asked for twice");
      FARCALL_TRY(CheckCore(alias, text, *number));
      given->core = *number;
      given->core_text = told;
      break;
    case Use::kGreedyCore:
      FARCALL_TRY(CheckCore(alias, text, *number));
      given->greedy = *number;
      break;
    case Use::kPriority:
      if (*number > 1) return Wrong(alias.name, text, "write 0 (high) or 1 (low)");
      given->priority = *number;
      break;
  }
  return {};
}

// HAMi: the number of GPUs, and of each of them memory and cores.
Status FinishHami(const Given& given, VgpuAsk* ask) {
  if (given.count && *given.count == 0)
    return {Code::kInvalid, given.count_text + ": write the number of GPUs"};
  if (given.memory && given.memory_part)
    return {Code::kInvalid,
            "nvidia.com/gpumem and nvidia.com/gpumem-percentage: write one of them"};
  if (given.memory && *given.memory == 0)
    return {Code::kInvalid, given.memory_text + ": write MiB, or leave it out for whole GPUs"};
  if (given.memory_part && *given.memory_part == 0)
    return {Code::kInvalid, "nvidia.com/gpumem-percentage '0': write 1 to 100"};
  ask->count = given.count.value_or(1);
  ask->memory_bytes = given.memory.value_or(0) * given.unit;
  const uint64_t part = given.memory_part.value_or(0);
  ask->memory_milli = part == kWholeCard ? 0 : static_cast<uint32_t>(part * 10);
  ask->share_milli = ask->limit_milli = static_cast<uint32_t>(given.core.value_or(0) * 10);
  if (given.priority) ask->priority = *given.priority == 0 ? "high" : "low";
  return {};
}

// The others: memory of all GPUs together, and per cent of one GPU's cores or whole GPUs.
Status FinishCards(Scheme scheme, const Given& given, VgpuAsk* ask) {
  const Names& names = NamesOf(scheme);
  const uint64_t core = given.core.value_or(0);
  if (given.core && given.greedy)
    return {Code::kInvalid, given.core_text + " and " + names.core + "-greedy: write one of them"};
  if (core > kWholeCard || (core == kWholeCard && !given.memory)) {
    ask->count = core / kWholeCard;  // whole ones: all of their memory, too
    return {};
  }
  if (given.core && core == 0)
    return {Code::kInvalid, given.core_text + ": write 1 to 100, or leave it out"};
  if (!given.memory)
    return {Code::kInvalid, (given.core ? given.core_text : std::string(NameOf(scheme))) +
                                ": a part of a GPU needs " + names.memory + " as well"};
  if (*given.memory == 0)
    return {Code::kInvalid,
            given.memory_text + ": write how much memory, in " + UnitText(given.unit)};
  ask->count = given.count.value_or(1);
  if (ask->count == 0) return {Code::kInvalid, given.count_text + ": write the number of GPUs"};
  if (ask->count > 1 && given.core)
    return {Code::kInvalid, given.core_text + ": with several GPUs, leave it out"};
  if (*given.memory % ask->count != 0)
    return {Code::kInvalid, given.memory_text + ": cannot be divided among " +
                                std::to_string(ask->count) + " GPUs; write " +
                                std::to_string((*given.memory / ask->count + 1) * ask->count)};
  ask->memory_bytes = *given.memory / ask->count * given.unit;
  ask->share_milli = ask->limit_milli = static_cast<uint32_t>(core * 10);
  if (given.greedy) {
    ask->priority = "low";
    ask->limit_milli = static_cast<uint32_t>(*given.greedy * 10);
  }
  return {};
}

// Of vCUDA: how far above its share a pod may go.
Status TakeCoreLimit(const std::string& text, VgpuAsk* ask) {
  const Units units = ReadUnits(text);
  const uint64_t least = std::max<uint64_t>(ask->share_milli / 10, 1);
  if (units.kind != Units::Kind::kNumber || units.value < least || units.value > kWholeCard)
    return Wrong("annotation tencent.com/vcuda-core-limit", text,
                 "write " + std::to_string(least) + " to 100");
  ask->limit_milli = static_cast<uint32_t>(units.value * 10);
  return {};
}

}  // namespace

std::optional<Scheme> SchemeOf(std::string_view resource) {
  for (const Alias& alias : kAliases)
    if (resource == alias.name) return alias.scheme;
  return std::nullopt;
}

const char* NameOf(Scheme scheme) {
  return NamesOf(scheme).people;
}

Units ReadUnits(std::string_view text) {
  constexpr std::string_view kDecimal = "kMGTPE", kBinary = "KMGTPE";
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  if (!text.empty() && text.front() == '-') return {Units::Kind::kNegative, 0};
  Decimal number;
  if (!ReadDecimal(text, &number)) {
    // More digits than a number of ours has.
    const bool is_long = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
    return {is_long ? Units::Kind::kNumber : Units::Kind::kNone, is_long ? UINT64_MAX : 0};
  }
  std::string_view rest = number.rest;
  uint64_t unit = 1;
  bool is_binary = false;
  if (rest.size() == 2 && rest[1] == 'i' && kBinary.find(rest[0]) != kBinary.npos) {
    unit = uint64_t{1} << (10 * (kBinary.find(rest[0]) + 1));
    is_binary = true;
  } else if (rest.size() == 1 && kDecimal.find(rest[0]) != kDecimal.npos) {
    for (size_t i = 0; i <= kDecimal.find(rest[0]); ++i) unit *= 1000;
  } else if (rest.size() > 1 && (rest[0] == 'e' || rest[0] == 'E')) {
    int exponent = 0;
    auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), exponent);
    if (error != std::errc() || end != rest.data() + rest.size()) return {};
    if (exponent < 0) return {Units::Kind::kFraction, 0};
    for (int i = 0; i < std::min(exponent, 20); ++i) unit = Times(unit, 10);
  } else if (rest == "m" || rest == "u" || rest == "n") {
    const uint64_t parts = rest == "m" ? 1000 : rest == "u" ? 1'000'000 : kBillion;
    if (number.billionths != 0 || number.whole % parts != 0) return {Units::Kind::kFraction, 0};
    return {Units::Kind::kNumber, number.whole / parts};
  } else if (!rest.empty()) {
    return {};
  }
  __extension__ using Wide = unsigned __int128;
  const Wide parts = Wide{unit} * number.billionths;
  if (parts % kBillion != 0 && !is_binary) return {Units::Kind::kFraction, 0};
  const Wide all = Wide{unit} * number.whole + parts / kBillion;
  return {is_binary ? Units::Kind::kBytes : Units::Kind::kNumber,
          all > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(all)};
}

Result<std::optional<VgpuAsk>> ReadAliases(Scheme scheme,
                                           const std::map<std::string, std::string>& resources,
                                           const PodWords& pod, uint64_t gpushare_unit) {
  Given given;
  bool asks = false;
  for (const Alias& alias : kAliases) {
    auto found = resources.find(alias.name);
    if (alias.scheme != scheme || found == resources.end()) continue;
    const uint64_t unit = alias.unit != 0 ? alias.unit : gpushare_unit;
    if (Status taken = Take(alias, found->second, unit, &given); !taken.ok()) return taken;
    // A priority is no wish for a GPU, and its 0 is not "none".
    asks = asks || (alias.use != Use::kPriority && ReadUnits(found->second).value != 0);
  }
  if (!asks) return std::optional<VgpuAsk>();
  VgpuAsk ask;
  if (scheme == Scheme::kGpushare && !given.count && !pod.gpu_count.empty()) {
    const Alias label{"label aliyun.com/gpu-count", scheme, Use::kCount, 1};
    if (Status taken = Take(label, pod.gpu_count, 1, &given); !taken.ok()) return taken;
  }
  Status done =
      scheme == Scheme::kHami ? FinishHami(given, &ask) : FinishCards(scheme, given, &ask);
  if (done.ok() && scheme == Scheme::kVcuda && !pod.core_limit.empty() && ask.memory_bytes != 0)
    done = TakeCoreLimit(pod.core_limit, &ask);
  if (!done.ok()) return done;
  return std::optional<VgpuAsk>(ask);
}

}  // namespace farcall::k8s
