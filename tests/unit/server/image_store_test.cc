// SPDX-License-Identifier: Apache-2.0
// The image store: hashes are checked both ways, files outlive the store.
#include "server/session/image_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace farcall::server {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> Bytes(const std::string& text) {
  auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class ImageStoreTest : public ::testing::Test {
 protected:
  ImageStoreTest() {
    std::string pattern = (fs::temp_directory_path() / "farcall-images-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
  }
  ~ImageStoreTest() override { fs::remove_all(directory_); }
  std::string directory_;
};

TEST_F(ImageStoreTest, KeepsAnImageAcrossStores) {
  std::vector<std::byte> image = Bytes("an image");
  Hash256 hash = Sha256(image);
  {
    ImageStore store(directory_);
    EXPECT_EQ(store.Get(hash), nullptr);
    ASSERT_TRUE(store.Put(hash, image).ok());
    store.Forget(hash);
  }
  ImageStore store(directory_);
  Image found = store.Get(hash);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->size(), image.size() + 1);
  EXPECT_EQ(found->back(), std::byte{0}) << "PTX is text and ends with a NUL";
  uint64_t prefix = 0;
  std::memcpy(&prefix, hash.data(), sizeof(prefix));
  EXPECT_EQ(store.Known(10), std::vector<uint64_t>{prefix});
  EXPECT_TRUE(store.Known(0).empty());
}

TEST_F(ImageStoreTest, RefusesBytesUnderAnothersHash) {
  ImageStore store(directory_);
  Status put = store.Put(Sha256(Bytes("one")), Bytes("two"));
  EXPECT_EQ(put.code(), Code::kMalformed);
  EXPECT_TRUE(fs::is_empty(directory_));
}

TEST_F(ImageStoreTest, DropsAFileThatWasChanged) {
  std::vector<std::byte> image = Bytes("an image");
  Hash256 hash = Sha256(image);
  { ASSERT_TRUE(ImageStore(directory_).Put(hash, image).ok()); }
  fs::path file = fs::directory_iterator(directory_)->path();
  std::ofstream(file, std::ios::trunc) << "an omage";
  EXPECT_EQ(ImageStore(directory_).Get(hash), nullptr);
  EXPECT_FALSE(fs::exists(file));
}

TEST_F(ImageStoreTest, WorksWithoutADirectory) {
  ImageStore store("");
  std::vector<std::byte> image = Bytes("an image");
  ASSERT_TRUE(store.Put(Sha256(image), image).ok());
  store.Forget(Sha256(image));
  EXPECT_NE(store.Get(Sha256(image)), nullptr) << "memory is all it has";
  EXPECT_TRUE(store.Known(10).empty());
}

TEST_F(ImageStoreTest, MemoryIsBoundedAndWhatWasUsedLongestAgoGoes) {
  ImageStore store("", {.memory_bytes = 3000, .disk_bytes = 0});
  std::vector<Hash256> hashes;
  for (int i = 0; i < 100; ++i) {
    std::vector<std::byte> image(1000, std::byte(i));
    hashes.push_back(Sha256(image));
    ASSERT_TRUE(store.Put(hashes.back(), image).ok());
    EXPECT_LE(store.memory_bytes(), 3000u);
    EXPECT_NE(store.Get(hashes.front()), nullptr) << "it is in use";
  }
  EXPECT_EQ(store.Get(hashes[50]), nullptr);
  EXPECT_NE(store.Get(hashes.back()), nullptr);
}

TEST_F(ImageStoreTest, OneLargerThanTheBoundIsKeptUntilTheNext) {
  ImageStore store("", {.memory_bytes = 10, .disk_bytes = 0});
  std::vector<std::byte> large(1000), small(5, std::byte(1));
  ASSERT_TRUE(store.Put(Sha256(large), large).ok());
  EXPECT_NE(store.Get(Sha256(large)), nullptr);
  ASSERT_TRUE(store.Put(Sha256(small), small).ok());
  EXPECT_EQ(store.Get(Sha256(large)), nullptr);
}

TEST_F(ImageStoreTest, TheDiskIsBoundedWhateverManySessionsSend) {
  uint64_t most = 0;
  for (int session = 0; session < 10; ++session) {
    ImageStore store(directory_, {.memory_bytes = 1 << 20, .disk_bytes = 5000});
    for (int i = 0; i < 10; ++i) {
      std::vector<std::byte> image(900, std::byte(session * 10 + i));
      ASSERT_TRUE(store.Put(Sha256(image), image).ok());
    }
    uint64_t bytes = 0;
    for (const auto& file : fs::directory_iterator(directory_)) bytes += file.file_size();
    most = std::max(most, bytes);
  }
  EXPECT_LE(most, 5000u);
  EXPECT_GE(most, 4000u);
  ImageStore store(directory_, {.memory_bytes = 1 << 20, .disk_bytes = 5000});
  std::vector<std::byte> large(6000, std::byte(7));
  ASSERT_TRUE(store.Put(Sha256(large), large).ok());
  EXPECT_EQ(store.Known(100).size(), 5u) << "what can never fit pushes nothing out";
}

}  // namespace
}  // namespace farcall::server
