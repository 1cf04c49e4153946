// SPDX-License-Identifier: Apache-2.0
// Where NVIDIA's libraries lie on a server: a configured folder, the loader's own places, a
// toolkit, NVIDIA's packages from PyPI.
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "server/library_desk.h"
#include "server/toolkit_files.h"

namespace farcall::server {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> Split(const char* list) {
  std::vector<std::string> parts;
  std::string text = list == nullptr ? "" : list;
  for (size_t start = 0; start < text.size();) {
    size_t end = std::min(text.find(':', start), text.size());
    if (end != start) {
      parts.push_back(text.substr(start, end - start));
    }
    start = end + 1;
  }
  return parts;
}

// Ours are named as the real ones: the server must not load the client's.
bool IsOurs(const fs::path& file) {
  std::error_code error;
  fs::path folder = fs::canonical(file, error).parent_path();
  return folder.filename() == "thin" && folder.parent_path().filename() == "farcall";
}

void AddIfThere(const fs::path& file, std::vector<std::string>* out) {
  std::error_code error;
  if (fs::is_regular_file(file, error) && !IsOurs(file)) {
    out->push_back(file.string());
  }
}

}  // namespace

std::vector<std::string> LibraryFolders() {
  std::vector<std::string> folders = Split(std::getenv("FARCALL_LIBRARIES"));
  for (std::string& folder : Split(std::getenv("LD_LIBRARY_PATH"))) {
    folders.push_back(std::move(folder));
  }
  return folders;
}

std::vector<std::string> ToolkitFolders() {
  std::vector<std::string> toolkits;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* home = std::getenv(name)) {
      toolkits.emplace_back(home);
    }
  }
  std::error_code error;
  for (const std::string& folder : Split(std::getenv("PATH"))) {
    fs::path nvcc = fs::path(folder) / "nvcc";
    if (fs::is_regular_file(nvcc, error)) {
      toolkits.push_back(fs::canonical(nvcc, error).parent_path().parent_path().string());
    }
  }
  return toolkits;
}

// In site-packages of the interpreters on PATH and of the active environment.
std::vector<std::string> PackageFolders() {
  std::vector<std::string> packages;
  std::vector<fs::path> prefixes;
  if (const char* venv = std::getenv("VIRTUAL_ENV")) {
    prefixes.emplace_back(venv);
  }
  prefixes.emplace_back("/usr/local");
  prefixes.emplace_back("/usr");
  std::error_code error;
  for (const fs::path& prefix : prefixes) {
    for (const auto& python : fs::directory_iterator(prefix / "lib", error)) {
      if (python.path().filename().string().compare(0, 6, "python") != 0) {
        continue;
      }
      for (const char* site : {"site-packages", "dist-packages"}) {
        for (const auto& package : fs::directory_iterator(python.path() / site / "nvidia", error)) {
          packages.push_back(package.path().string());
        }
      }
    }
  }
  return packages;
}

std::vector<std::string> LibraryCandidates(const std::string& file) {
  std::vector<std::string> found;
  for (const fs::path folder : LibraryFolders()) {
    AddIfThere(folder / file, &found);
  }
  for (const fs::path toolkit : ToolkitFolders()) {
    AddIfThere(toolkit / "lib64" / file, &found);
    AddIfThere(toolkit / "targets/x86_64-linux/lib" / file, &found);
  }
  for (const fs::path package : PackageFolders()) {
    AddIfThere(package / "lib" / file, &found);
  }
  found.push_back(file);  // as the loader finds it
  return found;
}

}  // namespace farcall::server
