// SPDX-License-Identifier: Apache-2.0
#include "server/library/library_loader.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "server/device/driver_output.h"
#include "toolkit/library_folders.h"

namespace farcall::server {

namespace fs = std::filesystem;

namespace {

std::string FileOf(const std::string& name, int major) {
  return "lib" + name + ".so." + std::to_string(major);
}

// Whichever was loaded first under this SONAME, by us or as another library's need: the loader
// gives every library that one. A second copy beside it would not know the first one's handles.
void* FirstOf(const std::string& soname) {
  return dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

// libcublasLt.so.13 of libcublasLt.so.13.0.2; empty if `file` is no version of `name`.
std::string SonameOf(const std::string& file, const std::string& name) {
  const std::string start = name + ".so.";
  if (file.compare(0, start.size(), start) != 0) return {};
  return file.substr(0, file.find('.', start.size()));
}

// What it needs, from its own folder first: the loader then finds it by its SONAME.
void LoadNeeds(const LibraryTable& table, const fs::path& folder) {
  std::error_code error;
  for (const char* name : table.needs) {
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const std::string soname = SonameOf(entry.path().filename().string(), name);
      if (!soname.empty() && FirstOf(soname) == nullptr)
        dlopen(entry.path().c_str(), RTLD_NOW | RTLD_LOCAL);
    }
  }
}

// Where what it needs lies, if that is loaded: a cuBLAS works with the cuBLASLt of its own release.
std::vector<std::string> BesideNeeds(const LibraryTable& table, const std::string& file) {
  std::vector<std::string> objects;
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* names) {
        static_cast<std::vector<std::string>*>(names)->emplace_back(object->dlpi_name);
        return 0;
      },
      &objects);
  std::vector<std::string> beside;
  for (const fs::path object : objects) {
    for (const char* name : table.needs) {
      std::error_code error;
      const fs::path path = object.parent_path() / file;
      if (!SonameOf(object.filename().string(), name).empty() && fs::exists(path, error))
        beside.push_back(path.string());
    }
  }
  return beside;
}

void* Open(const LibraryTable& table, int major, const std::string& path) {
  if (void* first = FirstOf(FileOf(table.name, major)); first != nullptr) return first;
  if (path.find('/') != std::string::npos) LoadNeeds(table, fs::path(path).parent_path());
  return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

std::string PathOf(void* handle, const std::string& asked_for) {
  link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] == '/' ? map->l_name
                                                                             : asked_for;
}

}  // namespace

// Objects end with the process: what they hold on the device goes with its contexts.
LibraryLoader::~LibraryLoader() = default;

LoadedLibrary* LibraryLoader::Load(const LibraryTable& table, int major, std::string* why) {
  std::lock_guard lock(mutex_);
  auto slot = static_cast<size_t>(table.id);
  if (loaded_[slot] != nullptr) return loaded_[slot].get();
  if (!missing_[slot].empty()) {
    *why = missing_[slot];
    return nullptr;
  }
  std::vector<int> majors = {major};
  std::copy_if(table.majors.begin(), table.majors.end(), std::back_inserter(majors),
               [major](int other) { return other != major; });
  std::string looked_for;
  for (int candidate : majors) {
    if (std::find(table.majors.begin(), table.majors.end(), candidate) == table.majors.end())
      continue;
    std::string file = FileOf(table.name, candidate);
    looked_for += (looked_for.empty() ? "" : ", ") + file;
    std::vector<std::string> paths = BesideNeeds(table, file);
    for (std::string& path : LibraryCandidates(file)) paths.push_back(std::move(path));
    for (const std::string& path : paths) {
      void* handle = Open(table, candidate, path);
      if (handle == nullptr) continue;
      auto loaded = std::make_unique<LoadedLibrary>();
      loaded->handle = handle;
      loaded->major = candidate;
      loaded->path = PathOf(handle, path);
      loaded->functions.resize(table.count);
      for (uint16_t id = 1; id < table.count; ++id)
        if (table.rows[id].name != nullptr)
          loaded->functions[id] = dlsym(handle, table.rows[id].name);
      loaded_[slot] = std::move(loaded);
      return loaded_[slot].get();
    }
  }
  const char* said = dlerror();
  missing_[slot] = std::string(table.name) + ": no " + looked_for +
                   " in the loader's path, a toolkit or NVIDIA's packages; name its folder in "
                   "the server's FARCALL_LIBRARIES" +
                   (said == nullptr ? "" : std::string(": ") + said);
  std::fprintf(OwnLog(), "%s\n", missing_[slot].c_str());
  *why = missing_[slot];
  return nullptr;
}

LoadedLibrary* LibraryLoader::Loaded(LibraryId id) {
  std::lock_guard lock(mutex_);
  return loaded_[static_cast<size_t>(id)].get();
}

void* LibraryLoader::Function(const LibraryTable& table, uint16_t id) {
  LoadedLibrary* loaded = Loaded(table.id);
  if (loaded == nullptr) {  // the client asked no question first
    std::string why;
    loaded = Load(table, table.majors.front(), &why);
  }
  return loaded == nullptr || id >= loaded->functions.size() ? nullptr : loaded->functions[id];
}

bool LibraryLoader::Add(const LibraryObject& object) {
  std::lock_guard lock(mutex_);
  return objects_.size() < kMaxObjects &&
         objects_.emplace(object.wire, std::make_unique<LibraryObject>(object)).second;
}

LibraryObject* LibraryLoader::Find(uint64_t wire) {
  std::lock_guard lock(mutex_);
  auto found = objects_.find(wire);
  return found == objects_.end() ? nullptr : found->second.get();
}

void LibraryLoader::Erase(uint64_t wire) {
  std::lock_guard lock(mutex_);
  objects_.erase(wire);
}

bool LibraryLoader::WasNamed(uint64_t wire) {
  std::lock_guard lock(mutex_);
  return LibraryObjectSerial(wire) <= highest_serial_;
}

void LibraryLoader::NoteNamed(uint64_t wire) {
  std::lock_guard lock(mutex_);
  highest_serial_ = std::max(highest_serial_, LibraryObjectSerial(wire));
}

std::shared_ptr<void> LibraryLoader::HoldNames(std::vector<LibraryName> names) {
  {
    std::lock_guard lock(mutex_);
    for (const LibraryName& name : names) {
      Held& held = held_[name.wire];
      ++held.uses;
      held.ends += name.ends ? 1 : 0;
    }
  }
  return {nullptr, [this, names = std::move(names)](void*) {
            std::lock_guard lock(mutex_);
            for (const LibraryName& name : names) {
              auto held = held_.find(name.wire);
              held->second.ends -= name.ends ? 1 : 0;
              if (--held->second.uses == 0) held_.erase(held);
            }
          }};
}

LibraryLoader::Hold LibraryLoader::HoldOf(uint64_t wire) {
  std::lock_guard lock(mutex_);
  auto held = held_.find(wire);
  return held == held_.end() ? Hold::kNone : held->second.ends != 0 ? Hold::kEnds : Hold::kUsed;
}

std::byte* LibraryLoader::TakeResult(CUcontext context) {
  constexpr size_t kSlots = 64;
  std::lock_guard lock(mutex_);
  std::vector<std::byte*>& free = results_[context];
  if (free.empty()) {
    void* slab = nullptr;
    if (api_.cuMemHostAlloc(&slab, kSlots * kResultBytes,
                            CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE) != CUDA_SUCCESS)
      return nullptr;
    for (size_t i = 0; i < kSlots; ++i)
      free.push_back(static_cast<std::byte*>(slab) + i * kResultBytes);
  }
  std::byte* result = free.back();
  free.pop_back();
  return result;
}

void LibraryLoader::PutResult(CUcontext context, std::byte* result) {
  std::lock_guard lock(mutex_);
  auto found = results_.find(context);
  if (found != results_.end()) found->second.push_back(result);
}

void* LibraryLoader::TakeSpare(CUcontext context, uint64_t key) {
  std::lock_guard lock(mutex_);
  auto spares = spares_.find(context);
  if (spares == spares_.end()) return nullptr;
  auto found = spares->second.extract(key);
  return found.empty() ? nullptr : found.mapped();
}

void LibraryLoader::PutSpare(CUcontext context, uint64_t key, void* memory) {
  std::lock_guard lock(mutex_);
  spares_[context].emplace(key, memory);
}

void LibraryLoader::ForgetContext(CUcontext context) {
  std::lock_guard lock(mutex_);
  spares_.erase(context);
  results_.erase(context);
}

}  // namespace farcall::server
