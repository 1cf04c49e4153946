// SPDX-License-Identifier: Apache-2.0
// The pool's GPUs as devices of ResourceSlices (resource.k8s.io/v1): which device is in which
// slice, and what the slices say. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "generated/proto/pool.pb.h"

namespace farcall::k8s {

inline constexpr char kDraDriver[] = "farcall.io";
inline constexpr char kSlicesPath[] = "/apis/resource.k8s.io/v1/resourceslices";

// What a slice with tainted devices may have: any may be tainted.
inline constexpr size_t kDevicesOfSlice = 64;
// Requests for memory are rounded up to it.
inline constexpr uint64_t kMemoryStep = uint64_t{256} << 20;

// A GPU's name as a device: a DNS label, and no other GPU's.
std::string DeviceName(const std::string& host, uint32_t index);

// A device that any number of claims share: memory in steps of 256Mi, cores (per cent of its time)
// in steps of 1. A claim that asks for no memory has as much as the GPU has, one that asks for no
// cores none. Together claims have what the GPU's group lends, which may be more.
nlohmann::json DeviceOf(const pool::v1::Host& host, const pool::v1::Gpu& gpu);

// Each slice is a pool of Kubernetes' of its own: so a change of a GPU is one write, where slices
// of one pool would all have to be written, with their new generation.
//   Thread  one
class DeviceSlices final {
 public:
  struct Change {
    std::string name;
    nlohmann::json object;  // null: it is to be deleted
    size_t number = 0;
    uint64_t generation = 0;
    nlohmann::json devices;
  };

  // A slice that the API server has. Its devices keep their place, so that those of claims do.
  void Adopt(const nlohmann::json& object);
  // What there should be. A device stays where it is; a new one takes the first place.
  void Update(const pool::v1::HostList& hosts);
  // A slice that is not yet as it should be; nullopt: there is none.
  std::optional<Change> Next();
  // The API server has taken it.
  void Done(const Change& change);
  size_t count() const { return slices_.size(); }

 private:
  struct Slice {
    std::map<std::string, nlohmann::json> devices;  // by name
    nlohmann::json written;                         // null: the API server has none
    uint64_t generation = 0;
  };
  std::map<size_t, Slice> slices_;       // by number
  std::map<std::string, size_t> place_;  // of a device
  std::set<size_t> changed_;             // slices that may not be as they should be
};

}  // namespace farcall::k8s
