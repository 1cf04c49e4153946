// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/compilers/real_library.h"

#include <dlfcn.h>

#include <filesystem>
#include <vector>

#include "cpu-device/driver/base/kind.h"
#include "cpu-device/driver/base/log.h"
#include "toolkit/library_folders.h"
#include "toolkit/nvrtc.h"

extern "C" {
extern const char farcall_soname[];
// What a function of a library that is not there answers: the error of its API.
extern const int farcall_lacking;
void* farcall_real_function(const char* name);
}

namespace farcall::cpu_device {

// Of the device the log alone is here.
const DeviceKind kDeviceKind = {.log_name = "cpu-device",
                                .executes = true,
                                .read_profile = nullptr,
                                .load_machine_code = nullptr,
                                .device_time = nullptr,
                                .skipped_kernels = nullptr};

namespace {

namespace fs = std::filesystem;

// Never by its bare name: that is this library's own.
std::vector<fs::path> Places(const std::string& soname) {
  std::vector<fs::path> places;
  const auto add = [&](const std::vector<std::string>& folders, const char* below) {
    for (const fs::path folder : folders) places.push_back(folder / below / soname);
  };
  add(LibraryFolders(), "");
  add(LoaderFolders(), "");
  add(LoadedPackageFolders(), "lib");
  for (std::string& candidate : LibraryCandidates(soname))
    if (candidate != soname) places.emplace_back(std::move(candidate));
  if (std::string cached = LoaderCachePath(soname); !cached.empty())
    places.emplace_back(std::move(cached));
  return places;
}

bool IsThisOne(const fs::path& file) {
  Dl_info self;
  std::error_code error;
  return dladdr(farcall_soname, &self) != 0 && fs::equivalent(file, self.dli_fname, error);
}

struct RealLibrary {
  void* handle = nullptr;
  std::string why;

  RealLibrary() {
    const std::string soname = farcall_soname;
    std::string failed;
    for (const fs::path& place : Places(soname)) {
      std::error_code error;
      if (!fs::is_regular_file(place, error) || IsOursByFolder(place.string()) || IsThisOne(place))
        continue;
      handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle != nullptr) {
        LoadBuiltins(fs::canonical(place, error).parent_path().string());
        Log(LogLevel::kInfo, "%s: %s", farcall_soname, place.c_str());
        return;
      }
      failed = std::string("; ") + dlerror();
    }
    why = "no " + soname +
          " of NVIDIA's in LD_LIBRARY_PATH, a toolkit or NVIDIA's packages; name its folder in "
          "FARCALL_LIBRARIES" +
          failed;
    Log(LogLevel::kError, "%s", why.c_str());
  }
};

const RealLibrary& TheRealLibrary() {
  static const auto* library = new RealLibrary;
  return *library;
}

}  // namespace

void* RealFunction(const char* name) {
  void* handle = TheRealLibrary().handle;
  return handle == nullptr ? nullptr : dlsym(handle, name);
}

const std::string& WhyNoRealLibrary() {
  return TheRealLibrary().why;
}

}  // namespace farcall::cpu_device

namespace {
int Lacking() {
  return farcall_lacking;
}
}  // namespace

void* farcall_real_function(const char* name) {
  void* function = farcall::cpu_device::RealFunction(name);
  return function != nullptr ? function : reinterpret_cast<void*>(Lacking);
}
