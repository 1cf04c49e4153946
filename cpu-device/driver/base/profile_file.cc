// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/base/profile_file.h"

#include <dirent.h>
#include <dlfcn.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <map>
#include <vector>

#include "cpu-device/driver/base/processors.h"

namespace farcall::cpu_device {
namespace {

constexpr const char* kSuffix = ".profile";

// Those that CUDA 13 and its predecessors know, and 13.0: none that is for sale, so no library has
// machine code for it and each hands over its PTX.
constexpr int kCapabilities[] = {50, 52, 53, 60, 61,  62,  70,  72,  75,  80, 86,
                                 87, 88, 89, 90, 100, 103, 110, 120, 121, 130};

std::string Trim(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  return begin == std::string::npos
             ? ""
             : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

bool Number(const std::string& text, int least, int most, int* value) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos) return false;
  const unsigned long number = strtoul(text.c_str(), nullptr, 10);
  if (number < static_cast<unsigned long>(least) || number > static_cast<unsigned long>(most))
    return false;
  *value = static_cast<int>(number);
  return true;
}

bool Bytes(const std::string& text, int most, int* value) {
  uint64_t bytes = 0;
  if (!ParseBytes(text, &bytes) || bytes == 0 || bytes > static_cast<uint64_t>(most)) return false;
  *value = static_cast<int>(bytes);
  return true;
}

bool Capability(const std::string& text, Profile* profile) {
  const size_t dot = text.find('.');
  int major = 0, minor = 0;
  if (dot == std::string::npos || !Number(text.substr(0, dot), 1, 99, &major) ||
      !Number(text.substr(dot + 1), 0, 9, &minor) ||
      std::count(std::begin(kCapabilities), std::end(kCapabilities), major * 10 + minor) == 0)
    return false;
  profile->cc_major = major;
  profile->cc_minor = minor;
  return true;
}

std::string KnownCapabilities() {
  std::string text;
  for (int cc : kCapabilities)
    text += (text.empty() ? "" : ", ") + std::to_string(cc / 10) + "." + std::to_string(cc % 10);
  return text;
}

bool Clock(const std::string& text, int* khz) {
  if (!Number(text, 1, 100000, khz)) return false;
  *khz *= 1000;
  return true;
}

bool Memory(const std::string& text, Profile* profile) {
  uint64_t bytes = 0;
  if (!ParseBytes(text, &bytes) || bytes < kMinMemoryBytes || bytes > (4ull << 40)) return false;
  profile->memory_bytes = bytes & ~(kVmmGranularity - 1);
  return true;
}

bool OneOf(const std::string& text, const char* yes, const char* no, bool* value) {
  *value = text == yes;
  return *value || text == no;
}

struct Setting {
  bool (*set)(const std::string& value, Profile* profile);
  std::string want;
};

const std::map<std::string, Setting>& Settings() {
  using Text = const std::string&;
  static const auto* settings = new std::map<std::string, Setting>{
      {"card",
       {[](Text t, Profile* p) {
          p->card = t;
          return !t.empty() && t.size() < 128;
        },
        "a name of 1 to 127 characters"}},
      {"compute_capability",
       {[](Text t, Profile* p) { return Capability(t, p); }, KnownCapabilities()}},
      {"devices",
       {[](Text t, Profile* p) { return Number(t, 1, kMaxDevices, &p->devices); }, "1 to 16"}},
      {"memory", {[](Text t, Profile* p) { return Memory(t, p); }, "16MiB to 4TiB"}},
      {"multiprocessors",
       {[](Text t, Profile* p) { return Number(t, 1, 4096, &p->multiprocessors); }, "1 to 4096"}},
      {"threads_per_multiprocessor",
       {[](Text t, Profile* p) { return Number(t, 1024, 4096, &p->threads_per_multiprocessor); },
        "1024 to 4096"}},
      {"blocks_per_multiprocessor",
       {[](Text t, Profile* p) { return Number(t, 1, 256, &p->blocks_per_multiprocessor); },
        "1 to 256"}},
      {"shared_per_block_optin",
       {[](Text t, Profile* p) { return Bytes(t, kMaxSharedPerBlock, &p->shared_per_block_optin); },
        "a size of at most 227KiB"}},
      {"shared_per_multiprocessor",
       {[](Text t, Profile* p) { return Bytes(t, INT_MAX, &p->shared_per_multiprocessor); },
        "a size like 100KiB"}},
      {"l2",
       {[](Text t, Profile* p) { return Bytes(t, INT_MAX, &p->l2_bytes); }, "a size like 32MiB"}},
      {"clock_mhz", {[](Text t, Profile* p) { return Clock(t, &p->clock_khz); }, "1 to 100000"}},
      {"memory_clock_mhz",
       {[](Text t, Profile* p) { return Clock(t, &p->memory_clock_khz); }, "1 to 100000"}},
      {"memory_bus_bits",
       {[](Text t, Profile* p) { return Number(t, 32, 65536, &p->memory_bus_bits); },
        "32 to 65536"}},
      {"copy_engines",
       {[](Text t, Profile* p) { return Number(t, 1, 32, &p->copy_engines); }, "1 to 32"}},
      {"single_to_double",
       {[](Text t, Profile* p) { return Number(t, 1, 1024, &p->single_to_double); }, "1 to 1024"}},
      {"clusters",
       {[](Text t, Profile* p) { return OneOf(t, "yes", "no", &p->clusters); }, "yes or no"}},
      {"multicast",
       {[](Text t, Profile* p) { return OneOf(t, "yes", "no", &p->multicast); }, "yes or no"}},
      {"processors",
       {[](Text t, Profile* p) { return ParseProcessors(t, &p->processors); },
        "those of this machine that it may use, each once, like 2,4-7"}},
      {"sass",
       {[](Text t, Profile* p) { return OneOf(t, "skip", "refuse", &p->skips_machine_code); },
        "refuse or skip"}},
      {"warps",
       {[](Text t, Profile* p) { return OneOf(t, "lockstep", "auto", &p->lockstep); },
        "auto or lockstep"}},
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

bool ReadLine(const std::string& line, Profile* profile, std::string* error) {
  const size_t equals = line.find('=');
  const std::string key = Trim(line.substr(0, equals));
  const auto setting = Settings().find(key);
  if (equals == std::string::npos || setting == Settings().end()) {
    std::string known;
    for (const auto& [name, unused] : Settings()) known += (known.empty() ? "" : ", ") + name;
    *error = "no setting '" + key + "'; want NAME = VALUE with one of " + known;
    return false;
  }
  const std::string value = Trim(line.substr(equals + 1));
  if (setting->second.set(value, profile)) return true;
  *error = key + " cannot be '" + value + "'; want " + setting->second.want;
  return false;
}

// What no device of its compute capability has.
bool IsPossible(const Profile& profile, std::string* error) {
  if (profile.cc_major < 9 && (profile.clusters || profile.multicast)) {
    *error = "clusters and multicast came with compute capability 9.0, not " +
             std::to_string(profile.cc_major) + "." + std::to_string(profile.cc_minor) +
             "; want clusters = no and multicast = no";
    return false;
  }
  if (profile.shared_per_block_optin > profile.shared_per_multiprocessor) {
    *error = "shared_per_block_optin is " + std::to_string(profile.shared_per_block_optin) +
             " bytes; want at most shared_per_multiprocessor, " +
             std::to_string(profile.shared_per_multiprocessor);
    return false;
  }
  return true;
}

}  // namespace

std::string ProfileFolder() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(&ProfileFolder), &info) == 0 || info.dli_fname == nullptr)
    return "profiles";
  const std::string own = info.dli_fname;
  const size_t slash = own.rfind('/');
  return (slash == std::string::npos ? "" : own.substr(0, slash + 1)) + "profiles";
}

bool ReadProfileFile(const std::string& folder, const std::string& name, Profile* profile,
                     std::string* error) {
  const bool is_path = name.find('/') != std::string::npos;
  std::ifstream file(is_path ? name : folder + "/" + name + kSuffix);
  if (!file || file.peek() == std::ifstream::traits_type::eof()) {
    *error = is_path ? "cannot be read; want a file of NAME = VALUE lines"
                     : "no such profile; there are " + Known(folder);
    return false;
  }
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    line = Trim(line.substr(0, line.find('#')));
    if (line.empty() || ReadLine(line, profile, error)) continue;
    *error = "line " + std::to_string(number) + ": " + *error;
    return false;
  }
  return IsPossible(*profile, error);
}

bool ReadSetting(const char* variable, const char* setting, Profile* profile, std::string* error) {
  const char* text = getenv(variable);
  const Setting& known = Settings().at(setting);
  if (text == nullptr || *text == '\0' || known.set(text, profile)) return true;
  *error = std::string(variable) + "=" + text + ": want " + known.want;
  return false;
}

bool ReadDeviceCount(const char* variable, int* devices, std::string* error) {
  const char* text = getenv(variable);
  if (text == nullptr || Number(text, 1, kMaxDevices, devices)) return true;
  *error = std::string(variable) + "=" + text + ": want 1 to " + std::to_string(kMaxDevices);
  return false;
}

}  // namespace farcall::cpu_device
