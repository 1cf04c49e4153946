// SPDX-License-Identifier: Apache-2.0
#include "server/worker/numa.h"

#include <sched.h>

#include <charconv>
#include <optional>
#include <string_view>

#include "proto/text_file.h"
#include "server/device/numa_node.h"

namespace farcall::server {

namespace {

// A number at the beginning of `text`, which loses it. -1: there is none.
int TakeNumber(std::string_view* text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return error == std::errc() ? number : -1;
}

// The kernel's form of a list: "0-3,8,10-11".
std::vector<int> ParseProcessors(std::string_view text) {
  std::vector<int> processors;
  while (!text.empty() && text.front() != '\n') {
    const int first = TakeNumber(&text);
    int last = first;
    if (!text.empty() && text.front() == '-') {
      text.remove_prefix(1);
      last = TakeNumber(&text);
    }
    if (first < 0 || last < first || last >= CPU_SETSIZE) return {};
    for (int i = first; i <= last; ++i) processors.push_back(i);
    if (!text.empty() && text.front() == ',') text.remove_prefix(1);
  }
  return processors;
}

}  // namespace

std::vector<int> ProcessorsNear(const std::string& sysfs, const std::string& pci_bus_id) {
  const std::optional<uint32_t> node = NumaNodeOf(sysfs, pci_bus_id);
  if (!node) return {};
  const Result<std::string> list =
      ReadTextFile(sysfs + "/devices/system/node/node" + std::to_string(*node) + "/cpulist");
  return list.ok() ? ParseProcessors(*list) : std::vector<int>();
}

bool StayNear(const std::string& sysfs, const std::vector<std::string>& pci_bus_ids) {
  cpu_set_t allowed, wanted;
  CPU_ZERO(&wanted);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return false;
  for (const std::string& id : pci_bus_ids) {
    const std::vector<int> near = ProcessorsNear(sysfs, id);
    if (near.empty()) return false;
    for (int processor : near)
      if (CPU_ISSET(processor, &allowed)) CPU_SET(processor, &wanted);
  }
  if (CPU_COUNT(&wanted) == 0 || CPU_EQUAL(&wanted, &allowed)) return false;
  return sched_setaffinity(0, sizeof(wanted), &wanted) == 0;
}

}  // namespace farcall::server
