// SPDX-License-Identifier: Apache-2.0
// The names by which other GPU-sharing schemes ask for a part of a GPU, and what each of them means
// for a claim.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "proto/status.h"

namespace farcall::k8s {

// A scheme: its names are used together, and never with those of another in one container.
enum class Scheme { kGpushare, kQgpu, kHami, kVcuda, kElasticGpu };
inline constexpr size_t kSchemes = 5;

// HAMi's number of GPUs, which is also what NVIDIA's own device plugin counts.
inline constexpr char kNativeGpu[] = "nvidia.com/gpu";
inline constexpr uint64_t kGib = uint64_t{1} << 30, kMib = uint64_t{1} << 20;

// What a container wants of the pool.
struct VgpuAsk {
  uint64_t count = 1;
  uint64_t memory_bytes = 0;  // of each GPU; 0 with memory_milli 0: whole GPUs
  uint32_t memory_milli = 0;  // a part of each GPU's memory instead
  uint32_t share_milli = 0, limit_milli = 0;
  std::string priority;  // of device time: "high", "low"; "": normal
  bool operator==(const VgpuAsk&) const = default;
};

// Whether a resource's name is one of the table.
std::optional<Scheme> SchemeOf(std::string_view resource);
// As people know it.
const char* NameOf(Scheme scheme);

// What a pod says about all of its containers, in the schemes that have such.
struct PodWords {
  std::string gpu_count;   // label aliyun.com/gpu-count; "": none
  std::string core_limit;  // annotation tencent.com/vcuda-core-limit; "": none
};

// Reads one container's resources of one scheme (name -> quantity, as the API server writes it).
// nullopt: all of them are zero, which asks for nothing.
//   gpushare_unit  what aliyun.com/gpu-mem counts, in bytes
//   Errors  kInvalid: the resource, its quantity, and what would be right
Result<std::optional<VgpuAsk>> ReadAliases(Scheme scheme,
                                           const std::map<std::string, std::string>& resources,
                                           const PodWords& pod, uint64_t gpushare_unit);

// A quantity of Kubernetes as a number of units: "3", "3k" (3000), "1e3".
struct Units {
  enum class Kind { kNumber, kBytes, kFraction, kNegative, kNone } kind = Kind::kNone;
  uint64_t value = 0;  // of kNumber; of kBytes ("4Gi"), bytes. UINT64_MAX: that or more
};
Units ReadUnits(std::string_view text);

}  // namespace farcall::k8s
