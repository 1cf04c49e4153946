// SPDX-License-Identifier: Apache-2.0
#include "server/device/numa_node.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "proto/text_file.h"

namespace farcall::server {

std::optional<uint32_t> NumaNodeOf(const std::string& sysfs, const std::string& pci_bus_id) {
  std::string name = pci_bus_id;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.empty() || name.find('/') != std::string::npos) return std::nullopt;
  const Result<std::string> told = ReadTextFile(sysfs + "/bus/pci/devices/" + name + "/numa_node");
  uint32_t node = 0;  // "-1": none
  if (!told.ok() ||
      std::from_chars(told->data(), told->data() + told->size(), node).ec != std::errc())
    return std::nullopt;
  return node;
}

}  // namespace farcall::server
