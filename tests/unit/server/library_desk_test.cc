// SPDX-License-Identifier: Apache-2.0
#include "server/library/library_desk.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <span>
#include <string>

namespace farcall::server {
namespace {

TEST(LibraryDesk, AMissingLibraryNamesItsFilesAndTheVariable) {
  static constexpr int kMajors[] = {3, 2};
  LibraryTable table;
  table.id = LibraryId::kCublas;
  table.name = "farcall_absent";
  table.majors = kMajors;
  DriverApi api{};
  LibraryDesk desk(api);
  std::string why;
  EXPECT_EQ(desk.Load(table, 2, &why), nullptr);
  EXPECT_NE(why.find("no libfarcall_absent.so.2, libfarcall_absent.so.3 "), std::string::npos)
      << why;
  EXPECT_NE(why.find("FARCALL_LIBRARIES"), std::string::npos) << why;
  EXPECT_EQ(why.find("--"), std::string::npos) << why;  // no flag names it

  std::string again;
  EXPECT_EQ(desk.Load(table, 3, &again), nullptr);
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

// As cuBLAS's handles, made over the cuBLASLt that cuDNN had brought, met the toolkit's copy.
TEST(LibraryDesk, ALibraryIsLoadedOnceWhoeverBroughtIt) {
  const std::string folder = FARCALL_TEST_LIBRARIES;
  setenv("FARCALL_LIBRARIES", (folder + "/2:" + folder + "/1").c_str(), 1);
  const LibraryRow of_user[] = {{}, {.name = "fcuser_which"}};
  const LibraryRow of_need[] = {{}, {.name = "fcneed_which"}};
  LibraryDesk desk{DriverApi()};
  std::string why;
  LoadedLibrary* user =
      desk.Load(Table(LibraryId::kCudnn, "fcuser", of_user), 1, &why);  // which needs that of 1
  ASSERT_NE(user, nullptr) << why;
  LoadedLibrary* need = desk.Load(Table(LibraryId::kCublasLt, "fcneed", of_need), 1, &why);
  ASSERT_NE(need, nullptr) << why;
  unsetenv("FARCALL_LIBRARIES");
  const auto used = reinterpret_cast<int (*)()>(user->functions[1])();
  EXPECT_EQ(used, 1);
  EXPECT_EQ(reinterpret_cast<int (*)()>(need->functions[1])(), used);
  EXPECT_EQ(need->path, folder + "/1/libfcneed.so.1");
}

}  // namespace
}  // namespace farcall::server
