// SPDX-License-Identifier: Apache-2.0
#include "server/library/library_desk.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace farcall::server
