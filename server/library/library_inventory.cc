// SPDX-License-Identifier: Apache-2.0
#include "server/library/library_inventory.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "proto/library/library_inventory.h"
#include "server/library/library_loader.h"
#include "toolkit/library_folders.h"

namespace farcall::server {

namespace fs = std::filesystem;

namespace {

// "13.1.0" of libcublas.so.13.1.0, where the link leads; 0: its name does not say.
int64_t VersionInName(const fs::path& file) {
  std::error_code error;
  const std::string name = fs::canonical(file, error).filename().string();
  const size_t mark = name.rfind(".so.");
  int64_t parts[3] = {};
  int count = 0;
  const char* at = mark == std::string::npos ? "" : name.c_str() + mark + 4;
  while (count < 3 && *at >= '0' && *at <= '9') {
    char* end = nullptr;
    parts[count++] = std::clamp(strtol(at, &end, 10), 0l, 1023l);
    at = *end == '.' ? end + 1 : "";
  }
  return count < 2 ? 0 : parts[0] << 20 | parts[1] << 10 | parts[2];
}

// NVIDIA's packages lie side by side, and what is loaded of one finds others: nvidia/<package>/lib.
bool IsBesidePackage(const fs::path& folder, const std::string& file) {
  const fs::path packages = folder.parent_path().parent_path();
  std::error_code error;
  if (folder.filename() != "lib" || packages.filename() != "nvidia") return false;
  for (const auto& package : fs::directory_iterator(packages, error))
    if (fs::exists(package.path() / "lib" / file, error)) return true;
  return false;
}

// The first that Load would try; empty: none is to be seen.
fs::path FirstFile(const std::string& file) {
  std::error_code error;
  std::vector<std::string> candidates = LibraryCandidates(file, Order::kAsFound);
  if (candidates.size() > 1) return candidates.front();
  for (const fs::path folder : LoaderFolders())
    if (fs::exists(folder / file, error)) return folder / file;
  return LoaderCachePath(file).empty() ? fs::path() : fs::path(file);
}

}  // namespace

std::vector<uint64_t> LookForLibrary(const LibraryTable& table) {
  std::vector<uint64_t> words;
  bool may_be_there = false;
  for (int major : table.majors) {
    const std::string file = std::string("lib") + table.name + ".so." + std::to_string(major);
    const fs::path found = FirstFile(file);
    if (!found.empty()) {
      words.push_back(InventoryWord(table.id, major, VersionInName(found)));
      continue;
    }
    for (const fs::path folder : LibraryFolders())
      may_be_there = may_be_there || IsBesidePackage(folder.lexically_normal(), file);
  }
  if (words.empty() && !may_be_there) words.push_back(InventoryWord(table.id, 0, 0));
  return words;
}

std::vector<uint64_t> LibraryInventory::ForClients() {
  std::lock_guard lock(mutex_);
  if (is_whole_) return words_;
  words_.clear();
  is_whole_ = true;
  for (auto id = LibraryId::kCublas; id <= LibraryId::kLast;
       id = static_cast<LibraryId>(static_cast<int>(id) + 1)) {
    const LibraryTable* table = FindLibraryTable(id);
    if (table == nullptr) continue;  // this build runs none: the question is told so
    for (uint64_t word : LookForLibrary(*table)) {
      words_.push_back(word);
      is_whole_ = is_whole_ && InventoryMajor(word) != 0;
    }
  }
  return words_;
}

}  // namespace farcall::server
