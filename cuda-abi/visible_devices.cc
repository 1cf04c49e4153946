// SPDX-License-Identifier: Apache-2.0
#include "cuda-abi/visible_devices.h"

#include <strings.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

namespace farcall::cuda_abi {

namespace {

bool IsUuid(const std::string& entry) {
  return strncasecmp(entry.c_str(), "GPU-", 4) == 0;
}

// The list's entry that begins at `at`, without blanks; `at` goes to the next one.
std::string NextEntry(const std::string& list, size_t* at) {
  size_t comma = std::min(list.find(',', *at), list.size());
  std::string entry = list.substr(*at, comma - *at);
  *at = comma + 1;
  entry.erase(0, std::min(entry.find_first_not_of(" \t"), entry.size()));
  entry.erase(entry.find_last_not_of(" \t") + 1);
  return entry;
}

// The position in `order` of the device with this number; -1: of none.
int Numbered(const std::string& entry, const std::vector<int>& order) {
  char* end = nullptr;
  long number = std::strtol(entry.c_str(), &end, 10);
  bool known = end != entry.c_str() && number >= 0 && number < static_cast<long>(order.size());
  return known ? static_cast<int>(number) : -1;
}

// The position in `order` of the device whose UUID begins so; -1: of none, or of two.
int Named(const std::string& entry, const std::vector<PhysicalDevice>& devices,
          const std::vector<int>& order) {
  if (!IsUuid(entry)) return -1;
  int found = -1;
  for (size_t i = 0; i < order.size(); ++i) {
    const std::string& uuid = devices[order[i]].uuid;
    if (strncasecmp(uuid.c_str(), entry.c_str(), entry.size()) != 0) continue;
    if (found >= 0) return -1;
    found = static_cast<int>(i);
  }
  return found;
}

}  // namespace

std::string UuidText(const std::array<uint8_t, 16>& uuid) {
  std::string text = "GPU-";
  char byte[3];
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    std::snprintf(byte, sizeof(byte), "%02x", uuid[i]);
    text += byte;
  }
  return text;
}

std::vector<int> VisibleDevices(const std::vector<PhysicalDevice>& devices, const char* order,
                                const char* list) {
  std::vector<int> ordered(devices.size());
  std::iota(ordered.begin(), ordered.end(), 0);
  if (order != nullptr && std::strcmp(order, "PCI_BUS_ID") == 0) {
    std::stable_sort(ordered.begin(), ordered.end(), [&](int left, int right) {
      return strcasecmp(devices[left].pci_bus_id.c_str(), devices[right].pci_bus_id.c_str()) < 0;
    });
  }
  if (list == nullptr) return ordered;
  std::string text = list;
  size_t first = 0;
  const bool by_uuid = IsUuid(NextEntry(text, &first));
  std::vector<int> selected;
  for (size_t at = 0; at <= text.size();) {
    std::string entry = NextEntry(text, &at);
    int position = by_uuid ? Named(entry, devices, ordered) : Numbered(entry, ordered);
    if (position < 0) break;
    int device = ordered[position];
    if (std::find(selected.begin(), selected.end(), device) != selected.end()) return {};
    selected.push_back(device);
  }
  return selected;
}

}  // namespace farcall::cuda_abi
