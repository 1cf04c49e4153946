// SPDX-License-Identifier: Apache-2.0
#include "server/library/library_loader.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "proto/library/library_inventory.h"
#include "server/library/library_inventory.h"

namespace farcall::server {
namespace {

TEST(LibraryLoader, AMissingLibraryNamesItsFilesAndTheVariable) {
  static constexpr int kMajors[] = {3, 2};
  LibraryTable table;
  table.id = LibraryId::kCublas;
  table.name = "farcall_absent";
  table.majors = kMajors;
  DriverApi api{};
  LibraryLoader loader(api);
  std::string why;
  EXPECT_EQ(loader.Load(table, 2, &why), nullptr);
  EXPECT_NE(why.find("no libfarcall_absent.so.2, libfarcall_absent.so.3 "), std::string::npos)
      << why;
  EXPECT_NE(why.find("FARCALL_LIBRARIES"), std::string::npos) << why;
  EXPECT_EQ(why.find("--"), std::string::npos) << why;  // no flag names it

  std::string again;
  EXPECT_EQ(loader.Load(table, 3, &again), nullptr);
  EXPECT_EQ(again, why);
}

LibraryTable Table(LibraryId id, const char* name, std::span<const LibraryRow> rows) {
  static constexpr int kMajors[] = {1};
  LibraryTable table;
  table.id = id;
  table.name = name;
  table.rows = rows.data();
  table.count = static_cast<uint16_t>(rows.size());
  table.majors = kMajors;
  return table;
}

TEST(LibraryInventory, TellsOfFilesWithoutLoadingThem) {
  namespace fs = std::filesystem;
  const fs::path site = fs::path(testing::TempDir()) / "inventory" / "nvidia";
  const fs::path named = site / "one" / "lib", beside = site / "other" / "lib";
  fs::create_directories(named);
  fs::create_directories(beside);
  std::ofstream(named / "libfcfile.so.1.4.2") << "no library";
  fs::remove(named / "libfcfile.so.1");
  fs::create_symlink("libfcfile.so.1.4.2", named / "libfcfile.so.1");
  std::ofstream(beside / "libfcbeside.so.1") << "no library";
  setenv("FARCALL_LIBRARIES", named.c_str(), 1);
  const auto found = LookForLibrary(Table(LibraryId::kCufft, "fcfile", {}));
  const auto sibling = LookForLibrary(Table(LibraryId::kCurand, "fcbeside", {}));
  const auto absent = LookForLibrary(Table(LibraryId::kCudnn, "fcabsent", {}));
  unsetenv("FARCALL_LIBRARIES");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(InventoryLibrary(found[0]), LibraryId::kCufft);
  EXPECT_EQ(InventoryMajor(found[0]), 1);
  EXPECT_EQ(LibraryVersionText(InventoryVersion(found[0])), "1.4.2");
  EXPECT_TRUE(sibling.empty()) << "another package may lead there: to be asked";
  EXPECT_TRUE(IsLacking(absent, LibraryId::kCudnn));
  EXPECT_FALSE(IsLacking(found, LibraryId::kCufft));
}

TEST(LibraryInventory, SeesWhatTheLoaderWouldFind) {
  const auto found = LookForLibrary([] {
    static constexpr int kMajors[] = {6};  // of the C library itself
    LibraryTable table = Table(LibraryId::kCufft, "c", {});
    table.majors = kMajors;
    return table;
  }());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(InventoryMajor(found[0]), 6);
}

// As cuBLAS's handles, made over the cuBLASLt that cuDNN had brought, met the toolkit's copy.
TEST(LibraryLoader, ALibraryIsLoadedOnceWhoeverBroughtIt) {
  const std::string folder = FARCALL_TEST_LIBRARIES;
  setenv("FARCALL_LIBRARIES", (folder + "/2:" + folder + "/1").c_str(), 1);
  const LibraryRow of_user[] = {{}, {.name = "fcuser_which"}};
  const LibraryRow of_need[] = {{}, {.name = "fcneed_which"}};
  LibraryLoader loader{DriverApi()};
  std::string why;
  LoadedLibrary* user =
      loader.Load(Table(LibraryId::kCudnn, "fcuser", of_user), 1, &why);  // which needs that of 1
  ASSERT_NE(user, nullptr) << why;
  LoadedLibrary* need = loader.Load(Table(LibraryId::kCublasLt, "fcneed", of_need), 1, &why);
  ASSERT_NE(need, nullptr) << why;
  unsetenv("FARCALL_LIBRARIES");
  const auto used = reinterpret_cast<int (*)()>(user->functions[1])();
  EXPECT_EQ(used, 1);
  EXPECT_EQ(reinterpret_cast<int (*)()>(need->functions[1])(), used);
  EXPECT_EQ(need->path, folder + "/1/libfcneed.so.1");
}

}  // namespace
}  // namespace farcall::server
