// SPDX-License-Identifier: Apache-2.0
#include "cli/programs/elf_symbols.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace farcall::cli {
namespace {

std::string Own() {
  return std::filesystem::read_symlink("/proc/self/exe");
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ElfSymbolsTest, NamesWhatAProgramTakesFromLibraries) {
  auto symbols = UndefinedSymbols(Own());
  ASSERT_TRUE(symbols.ok()) << symbols.status().message();
  EXPECT_NE(std::find(symbols->begin(), symbols->end(), "abort"), symbols->end());
  EXPECT_EQ(std::find(symbols->begin(), symbols->end(), "main"), symbols->end());
}

TEST(ElfSymbolsTest, AFileThatIsNoneIsRefused) {
  EXPECT_EQ(UndefinedSymbols("/etc/hostname").status().code(), Code::kInvalid);
  EXPECT_EQ(UndefinedSymbols("/does/not/exist").status().code(), Code::kInvalid);
  EXPECT_EQ(UndefinedSymbols("/").status().code(), Code::kInvalid);
}

TEST(ElfSymbolsTest, CutAndSpoiltFilesEndInAnErrorOrNames) {
  std::string whole = ReadFile(Own());
  std::string path = testing::TempDir() + "/cut.elf";
  auto ask = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    return UndefinedSymbols(path).ok();
  };
  EXPECT_TRUE(ask(whole));
  EXPECT_FALSE(ask(whole.substr(0, 40)));
  EXPECT_FALSE(ask(whole.substr(0, whole.size() - 64)));  // the section table is last
  uint64_t table = 0;
  std::memcpy(&table, whole.data() + 40, sizeof(table));
  for (size_t at = table; at + 8 < whole.size(); at += 8) {
    std::string spoilt = whole;
    spoilt.replace(at, 8, "\xff\xff\xff\xff\xff\xff\xff\x7f");
    ask(spoilt);
  }
}

}  // namespace
}  // namespace farcall::cli
