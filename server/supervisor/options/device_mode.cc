// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/options/device_mode.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "proto/printable.h"

namespace farcall::server {

namespace {

constexpr DeviceMode kAll[] = {DeviceMode::kSlice, DeviceMode::kExclusive, DeviceMode::kMps,
                               DeviceMode::kMig};

std::optional<DeviceMode> ModeOf(std::string_view text) {
  for (DeviceMode mode : kAll)
    if (text == ToText(mode)) return mode;
  return std::nullopt;
}

Status Wrong(std::string_view text) {
  return {Code::kInvalid, Quoted(text) +
                              ": write slice, exclusive, mps or mig, or a mode for each device as "
                              "0=mps,1=slice"};
}

}  // namespace

std::string_view ToText(DeviceMode mode) {
  switch (mode) {
    case DeviceMode::kExclusive:
      return "exclusive";
    case DeviceMode::kMps:
      return "mps";
    case DeviceMode::kMig:
      return "mig";
    default:
      return "slice";
  }
}

DeviceMode DeviceModes::Of(int device) const {
  auto found = by_device.find(device);
  return found == by_device.end() ? all : found->second;
}

bool DeviceModes::Any(DeviceMode mode) const {
  return all == mode || std::any_of(by_device.begin(), by_device.end(),
                                    [mode](const auto& each) { return each.second == mode; });
}

Result<DeviceModes> ParseModes(std::string_view text) {
  DeviceModes modes;
  if (auto all = ModeOf(text)) {
    modes.all = *all;
    return modes;
  }
  for (std::string_view rest = text;;) {
    std::string_view part = rest.substr(0, rest.find(','));
    size_t equals = part.find('=');
    int device = 0;
    if (equals == std::string_view::npos) return Wrong(text);
    auto [end, error] = std::from_chars(part.data(), part.data() + equals, device);
    auto mode = ModeOf(part.substr(equals + 1));
    if (error != std::errc() || end != part.data() + equals || device < 0 || !mode ||
        !modes.by_device.emplace(device, *mode).second)
      return Wrong(text);
    if (part.size() == rest.size()) return modes;
    rest.remove_prefix(part.size() + 1);
  }
}

Status CheckModes(const DeviceModes& modes, int devices, std::string_view kind, bool in_pool) {
  if (!modes.by_device.empty() && modes.by_device.rbegin()->first >= devices &&
      modes.all != DeviceMode::kMig) {
    return {Code::kInvalid, "mode: there is no device " +
                                std::to_string(modes.by_device.rbegin()->first) + ", only " +
                                std::to_string(devices) + " from 0"};
  }
  for (DeviceMode mode : {DeviceMode::kMps, DeviceMode::kMig}) {
    if (!modes.Any(mode)) continue;
    std::string name(ToText(mode));
    if (kind != "cuda") {
      return {Code::kInvalid, "mode " + name + ": it is of NVIDIA's driver; a " +
                                  std::string(kind) + " device takes slice or exclusive"};
    }
    if (mode == DeviceMode::kMig && !modes.by_device.empty()) {
      return {Code::kInvalid,
              "mode mig: it is for all GPUs of a server; serve the others by one of their own "
              "(--gpus)"};
    }
    bool all = true;
    for (int device = 0; device < devices; ++device) all = all && modes.Of(device) == mode;
    if (mode == DeviceMode::kMps && !in_pool && !all) {
      return {Code::kInvalid,
              "mode mps: a session sees all devices of a server, and a process is an MPS client "
              "with all of its devices or with none; serve the others by a server of their own "
              "(--gpus)"};
    }
  }
  return {};
}

}  // namespace farcall::server
