// SPDX-License-Identifier: Apache-2.0
// Memory files between supervisor, workers and helpers: nobody changes one that was handed over.
#include "server/control/memory_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace farcall::server {
namespace {

const std::vector<std::byte> kBytes(100, std::byte{7});

TEST(MemoryFile, StaysAsItWasMade) {
  int file = MakeMemoryFile("farcall-test", kBytes);
  ASSERT_GE(file, 0);
  char byte = 1;
  EXPECT_LT(pwrite(file, &byte, 1, 0), 0);
  EXPECT_NE(ftruncate(file, 0), 0);
  EXPECT_NE(ftruncate(file, 1000), 0);
  EXPECT_EQ(mmap(nullptr, 100, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), MAP_FAILED);
  EXPECT_NE(fcntl(file, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
  Result<std::vector<std::byte>> read = ReadMemoryFile(file, 100);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, kBytes);
  EXPECT_FALSE(ReadMemoryFile(file, 99).ok());
  close(file);
}

TEST(MemoryFile, IsNotReadIfItsMakerCouldStillChangeIt) {
  int open_file = memfd_create("farcall-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(write(open_file, "abc", 3), 3);
  EXPECT_EQ(ReadMemoryFile(open_file, 100).status().code(), Code::kMalformed);
  ASSERT_EQ(fcntl(open_file, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK), 0);
  EXPECT_FALSE(ReadMemoryFile(open_file, 100).ok());
  close(open_file);
}

// The supervisor would wait for whoever holds the other end.
TEST(MemoryFile, IsNoPipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(ReadMemoryFile(ends[0], 100).status().code(), Code::kMalformed);
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace farcall::server
