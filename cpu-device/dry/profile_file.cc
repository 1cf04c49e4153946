// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/dry/profile_file.h"

#include <dirent.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <vector>

namespace farcall::cpu_device::dry {
namespace {

constexpr const char* kSuffix = ".profile";

std::string Trim(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  return begin == std::string::npos
             ? ""
             : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

bool Number(const std::string& text, int least, int most, int* value) {
  char* end = nullptr;
  const long number = strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || number < least || number > most) return false;
  *value = static_cast<int>(number);
  return true;
}

bool Bytes(const std::string& text, int* value) {
  uint64_t bytes = 0;
  if (!ParseBytes(text, &bytes) || bytes == 0 || bytes > INT_MAX) return false;
  *value = static_cast<int>(bytes);
  return true;
}

bool Capability(const std::string& text, Profile* profile) {
  const size_t dot = text.find('.');
  return dot != std::string::npos && Number(text.substr(0, dot), 1, 99, &profile->cc_major) &&
         Number(text.substr(dot + 1), 0, 9, &profile->cc_minor);
}

bool Clock(const std::string& text, int* khz) {
  if (!Number(text, 1, 100000, khz)) return false;
  *khz *= 1000;
  return true;
}

using Setter = std::function<bool(const std::string&, Profile*)>;

const std::map<std::string, Setter>& Settings() {
  using Text = const std::string&;
  static const auto* settings = new std::map<std::string, Setter>{
      {"card",
       [](Text t, Profile* p) {
         p->name = "Farcall dry device (" + t + " profile), computes nothing";
         return !t.empty() && t.size() < 128;
       }},
      {"compute_capability", [](Text t, Profile* p) { return Capability(t, p); }},
      {"memory",
       [](Text t, Profile* p) {
         const bool ok = ParseBytes(t, &p->memory_bytes) && p->memory_bytes >= (16 << 20) &&
                         p->memory_bytes <= (4ull << 40);
         p->memory_bytes &= ~(kVmmGranularity - 1);
         return ok;
       }},
      {"multiprocessors",
       [](Text t, Profile* p) { return Number(t, 1, 4096, &p->multiprocessors); }},
      {"threads_per_multiprocessor",
       [](Text t, Profile* p) { return Number(t, 1024, 4096, &p->threads_per_multiprocessor); }},
      {"blocks_per_multiprocessor",
       [](Text t, Profile* p) { return Number(t, 1, 256, &p->blocks_per_multiprocessor); }},
      {"shared_per_block_optin",
       [](Text t, Profile* p) { return Bytes(t, &p->shared_per_block_optin); }},
      {"shared_per_multiprocessor",
       [](Text t, Profile* p) { return Bytes(t, &p->shared_per_multiprocessor); }},
      {"l2", [](Text t, Profile* p) { return Bytes(t, &p->l2_bytes); }},
      {"clock_mhz", [](Text t, Profile* p) { return Clock(t, &p->clock_khz); }},
      {"memory_clock_mhz", [](Text t, Profile* p) { return Clock(t, &p->memory_clock_khz); }},
      {"memory_bus_bits",
       [](Text t, Profile* p) { return Number(t, 32, 65536, &p->memory_bus_bits); }},
      {"copy_engines", [](Text t, Profile* p) { return Number(t, 1, 32, &p->copy_engines); }},
      {"single_to_double",
       [](Text t, Profile* p) { return Number(t, 1, 1024, &p->single_to_double); }},
      {"clusters",
       [](Text t, Profile* p) {
         p->clusters = t == "yes";
         return t == "yes" || t == "no";
       }},
      {"multicast",
       [](Text t, Profile* p) {
         p->multicast = t == "yes";
         return t == "yes" || t == "no";
       }},
  };
  return *settings;
}

std::string Known(const std::string& folder) {
  std::vector<std::string> names;
  if (DIR* directory = opendir(folder.c_str())) {
    while (const dirent* entry = readdir(directory)) {
      const std::string name = entry->d_name;
      const size_t at = name.find(kSuffix);
      if (at != std::string::npos && at != 0) names.push_back(name.substr(0, at));
    }
    closedir(directory);
  }
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none in " + folder : text;
}

}  // namespace

bool ReadProfile(const std::string& folder, const std::string& name, Profile* profile,
                 std::string* error) {
  const bool is_path = name.find('/') != std::string::npos;
  std::ifstream file(is_path ? name : folder + "/" + name + kSuffix);
  if (!file) {
    *error = is_path ? "cannot be read" : "no such profile; there are " + Known(folder);
    return false;
  }
  *profile = {};
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    line = Trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const size_t equals = line.find('=');
    const std::string key = Trim(line.substr(0, equals));
    const auto setting = Settings().find(key);
    if (equals == std::string::npos || setting == Settings().end()) {
      *error = "line " + std::to_string(number) + ": no setting '" + key + "'";
      return false;
    }
    const std::string value = Trim(line.substr(equals + 1));
    if (!setting->second(value, profile)) {
      *error = "line " + std::to_string(number) + ": " + key + " cannot be '" + value + "'";
      return false;
    }
  }
  if (profile->name.find("dry device") == std::string::npos || profile->memory_bytes == 0) {
    *error = "has no card or no memory";
    return false;
  }
  return true;
}

}  // namespace farcall::cpu_device::dry
