// SPDX-License-Identifier: Apache-2.0
// A configured folder, the loader's own places, a toolkit, NVIDIA's packages from PyPI.
#include "toolkit/library_folders.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>

namespace farcall {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> Split(const char* list) {
  std::vector<std::string> parts;
  std::string text = list == nullptr ? "" : list;
  for (size_t start = 0; start < text.size();) {
    size_t end = std::min(text.find(':', start), text.size());
    if (end != start) parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

void AddIfThere(const fs::path& file, std::vector<std::string>* out) {
  std::error_code error;
  if (fs::is_regular_file(file, error) && !IsOursByFolder(file)) out->push_back(file.string());
}

// The numbers at the end of "libcudnn.so.9.19.0", or in "nvidia_cudnn_cu13-9.19.0.56".
std::vector<int> NumbersAfter(const std::string& text, const std::string& mark) {
  std::vector<int> numbers;
  size_t at = text.rfind(mark);
  at = at == std::string::npos ? text.size() : at + mark.size();
  while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at]))) {
    char* end = nullptr;
    numbers.push_back(static_cast<int>(std::strtol(text.c_str() + at, &end, 10)));
    at = static_cast<size_t>(end - text.c_str());
    at += at < text.size() && text[at] == '.' ? 1 : 0;
  }
  return numbers;
}

// Of nvidia/<package>/lib/<file>: what pip's record beside nvidia/ says. Empty: it is no package's.
std::vector<int> PackageVersion(const fs::path& file) {
  const fs::path site = file.parent_path().parent_path().parent_path().parent_path();
  const std::string listed = file.lexically_relative(site).string() + ",";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(site, error)) {
    if (entry.path().extension() != ".dist-info") continue;
    std::ifstream record(entry.path() / "RECORD");
    for (std::string line; std::getline(record, line);)
      if (line.compare(0, listed.size(), listed) == 0)
        return NumbersAfter(entry.path().stem().string(), "-");
  }
  return {};
}

std::vector<int> VersionOf(const fs::path& file) {
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  std::vector<int> version = NumbersAfter(real.filename().string(), ".so.");
  return version.size() > 1 ? version : PackageVersion(file);
}

// A framework takes no older minor version than it was built with; a newer one serves it as well.
void SortNewestFirst(std::vector<std::string>* files) {
  std::vector<std::pair<std::vector<int>, std::string>> by_version;
  for (std::string& file : *files) {
    std::vector<int> version = VersionOf(file);
    by_version.emplace_back(std::move(version), std::move(file));
  }
  std::stable_sort(by_version.begin(), by_version.end(),
                   [](const auto& one, const auto& other) { return one.first > other.first; });
  for (size_t i = 0; i < files->size(); ++i) (*files)[i] = std::move(by_version[i].second);
}

}  // namespace

bool IsOursByFolder(const std::string& file) {
  std::error_code error;
  const fs::path folder = fs::canonical(file, error).parent_path(), above = folder.parent_path();
  const auto is = [](const fs::path& path, const char* name, const char* below) {
    return path.filename() == name && path.parent_path().filename() == below;
  };
  return is(folder, "thin", "farcall") || is(folder, "device", "farcall") ||
         is(above, "device", "farcall");
}

std::vector<std::string> LibraryFolders() {
  std::vector<std::string> folders = Split(std::getenv("FARCALL_LIBRARIES"));
  for (std::string& folder : Split(std::getenv("LD_LIBRARY_PATH")))
    folders.push_back(std::move(folder));
  return folders;
}

std::vector<std::string> ToolkitFolders() {
  std::vector<std::string> toolkits;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* home = std::getenv(name)) toolkits.emplace_back(home);
  std::error_code error;
  for (const std::string& folder : Split(std::getenv("PATH"))) {
    fs::path nvcc = fs::path(folder) / "nvcc";
    if (fs::is_regular_file(nvcc, error))
      toolkits.push_back(fs::canonical(nvcc, error).parent_path().parent_path().string());
  }
  return toolkits;
}

std::vector<std::string> LoaderFolders() {
  std::vector<std::string> folders;
  void* self = dlopen(nullptr, RTLD_NOW | RTLD_NOLOAD);
  Dl_serinfo size{};
  if (self == nullptr || dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0) return folders;
  std::unique_ptr<Dl_serinfo, decltype(&free)> info(
      static_cast<Dl_serinfo*>(calloc(1, size.dls_size)), &free);
  if (info == nullptr || dlinfo(self, RTLD_DI_SERINFOSIZE, info.get()) != 0 ||
      dlinfo(self, RTLD_DI_SERINFO, info.get()) != 0)
    return folders;
  for (unsigned i = 0; i < info->dls_cnt; ++i) folders.emplace_back(info->dls_serpath[i].dls_name);
  return folders;
}

// A string among others, each with its end: the name, and then the path.
std::string LoaderCachePath(const std::string& file) {
  static const std::string* cache = [] {
    std::ifstream in("/etc/ld.so.cache", std::ios::binary);
    return new std::string(std::istreambuf_iterator<char>(in), {});
  }();
  const std::string tail = "/" + file + '\0';
  const size_t at = cache->find(tail);
  if (at == std::string::npos) return {};
  const size_t start = cache->rfind('\0', at) + 1;
  return cache->substr(start, at + tail.size() - 1 - start);
}

std::vector<std::string> LoadedPackageFolders() {
  std::set<std::string> sites;
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* found) {
        const std::string path = object->dlpi_name;
        for (const char* site : {"/site-packages/", "/dist-packages/"}) {
          const size_t at = path.find(site);
          if (at != std::string::npos)
            static_cast<std::set<std::string>*>(found)->insert(
                path.substr(0, at + std::strlen(site)));
        }
        return 0;
      },
      &sites);
  std::vector<std::string> packages;
  std::error_code error;
  for (const fs::path site : sites)
    for (const auto& package : fs::directory_iterator(site / "nvidia", error))
      packages.push_back(package.path().string());
  return packages;
}

// In site-packages of the interpreters on PATH and of the active environment.
std::vector<std::string> PackageFolders() {
  std::vector<std::string> packages;
  std::vector<fs::path> prefixes;
  if (const char* venv = std::getenv("VIRTUAL_ENV")) prefixes.emplace_back(venv);
  prefixes.emplace_back("/usr/local");
  prefixes.emplace_back("/usr");
  std::error_code error;
  for (const fs::path& prefix : prefixes) {
    for (const auto& python : fs::directory_iterator(prefix / "lib", error)) {
      if (python.path().filename().string().compare(0, 6, "python") != 0) continue;
      for (const char* site : {"site-packages", "dist-packages"})
        for (const auto& package : fs::directory_iterator(python.path() / site / "nvidia", error))
          packages.push_back(package.path().string());
    }
  }
  return packages;
}

std::vector<std::string> LibraryCandidates(const std::string& file, Order order) {
  std::vector<std::string> found;
  for (const fs::path folder : LibraryFolders()) AddIfThere(folder / file, &found);
  std::vector<std::string> searched;
  for (const fs::path toolkit : ToolkitFolders()) {
    AddIfThere(toolkit / "lib64" / file, &searched);
    AddIfThere(toolkit / "targets/x86_64-linux/lib" / file, &searched);
  }
  for (const fs::path package : PackageFolders()) AddIfThere(package / "lib" / file, &searched);
  if (order == Order::kBestFirst) SortNewestFirst(&searched);
  found.insert(found.end(), searched.begin(), searched.end());
  found.push_back(file);  // as the loader finds it
  return found;
}

}  // namespace farcall
