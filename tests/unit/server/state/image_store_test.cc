// SPDX-License-Identifier: Apache-2.0
// The image store: hashes are checked both ways, files are read and not written.
#include "server/state/objects/image_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "proto/hex.h"

namespace farcall::server {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> Bytes(const std::string& text) {
  auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// Writes into the folder at once, as the supervisor does a moment later.
class Keeper final : public ImageKeeper {
 public:
  explicit Keeper(std::string folder) : folder_(std::move(folder)) {}
  void Keep(const Hash256& hash, std::span<const std::byte> bytes) override {
    std::ofstream(folder_ + "/" + HexOf(hash), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    kept.push_back(hash);
  }
  void NoteRead(const Hash256& hash, bool intact) override { read.emplace_back(hash, intact); }

  std::vector<Hash256> kept;
  std::vector<std::pair<Hash256, bool>> read;

 private:
  std::string folder_;
};

class ImageStoreTest : public ::testing::Test {
 protected:
  ImageStoreTest() {
    std::string pattern = (fs::temp_directory_path() / "farcall-images-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
    folder_ = open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  }
  ~ImageStoreTest() override {
    close(folder_);
    fs::remove_all(directory_);
  }
  std::string directory_;
  int folder_ = -1;
};

TEST_F(ImageStoreTest, ReadsWhatWasKeptAndSaysSo) {
  std::vector<std::byte> image = Bytes("an image");
  Hash256 hash = Sha256(image);
  Keeper keeper(directory_);
  {
    ImageStore store(folder_, &keeper);
    EXPECT_EQ(store.Get(hash), nullptr);
    ASSERT_TRUE(store.Put(hash, image).ok());
    ASSERT_TRUE(store.Put(hash, image).ok());
    EXPECT_EQ(keeper.kept, std::vector{hash}) << "one that is there is not offered";
    EXPECT_NE(store.Get(hash), nullptr);
    EXPECT_TRUE(keeper.read.empty()) << "it is in memory";
    store.Forget(hash);
    EXPECT_EQ(store.memory_bytes(), 0u);
  }
  ImageStore store(folder_, &keeper);
  Image found = store.Get(hash);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->size(), image.size() + 1);
  EXPECT_EQ(found->back(), std::byte{0}) << "PTX is text and ends with a NUL";
  EXPECT_EQ(keeper.read, (std::vector{std::pair(hash, true)}));
  uint64_t prefix = 0;
  std::memcpy(&prefix, hash.data(), sizeof(prefix));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(store.Known(10), std::vector<uint64_t>{prefix});
  EXPECT_TRUE(store.Known(0).empty());
}

TEST_F(ImageStoreTest, KnowsTheNewestFirst) {
  Keeper keeper(directory_);
  ImageStore store(folder_, &keeper);
  std::vector<uint64_t> prefixes;
  for (int i = 0; i < 3; ++i) {
    std::vector<std::byte> image(100, std::byte(i));
    const Hash256 hash = Sha256(image);
    ASSERT_TRUE(store.Put(hash, image).ok());
    const timespec times[2] = {{1000 + i, 0}, {1000 + i, 0}};
    utimensat(folder_, HexOf(hash).c_str(), times, 0);
    std::memcpy(&prefixes.emplace_back(), hash.data(), sizeof(uint64_t));
  }
  std::ofstream(directory_ + "/" + std::string(64, 'z')) << "no image";
  std::reverse(prefixes.begin(), prefixes.end());
  EXPECT_EQ(store.Known(10), prefixes);
  prefixes.resize(2);
  EXPECT_EQ(store.Known(2), prefixes);
}

TEST_F(ImageStoreTest, RefusesBytesUnderAnothersHash) {
  Keeper keeper(directory_);
  ImageStore store(folder_, &keeper);
  Status put = store.Put(Sha256(Bytes("one")), Bytes("two"));
  EXPECT_EQ(put.code(), Code::kMalformed);
  EXPECT_TRUE(keeper.kept.empty());
}

TEST_F(ImageStoreTest, TakesNoFileThatWasChangedAndSaysSo) {
  std::vector<std::byte> image = Bytes("an image");
  Hash256 hash = Sha256(image);
  Keeper keeper(directory_);
  { ASSERT_TRUE(ImageStore(folder_, &keeper).Put(hash, image).ok()); }
  fs::path file = fs::directory_iterator(directory_)->path();
  std::ofstream(file, std::ios::trunc) << "an omage";
  EXPECT_EQ(ImageStore(folder_, &keeper).Get(hash), nullptr);
  EXPECT_EQ(keeper.read, (std::vector{std::pair(hash, false)}));
  EXPECT_TRUE(fs::exists(file)) << "the keeper removes it";
}

TEST_F(ImageStoreTest, WorksWithoutAFolder) {
  ImageStore store(-1, nullptr);
  std::vector<std::byte> image = Bytes("an image");
  ASSERT_TRUE(store.Put(Sha256(image), image).ok());
  store.Forget(Sha256(image));
  EXPECT_NE(store.Get(Sha256(image)), nullptr) << "memory is all it has";
  EXPECT_TRUE(store.Known(10).empty());
}

TEST_F(ImageStoreTest, MemoryIsBoundedAndWhatWasUsedLongestAgoGoes) {
  ImageStore store(-1, nullptr, 3000);
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
  ImageStore store(-1, nullptr, 10);
  std::vector<std::byte> large(1000), small(5, std::byte(1));
  ASSERT_TRUE(store.Put(Sha256(large), large).ok());
  EXPECT_NE(store.Get(Sha256(large)), nullptr);
  ASSERT_TRUE(store.Put(Sha256(small), small).ok());
  EXPECT_EQ(store.Get(Sha256(large)), nullptr);
}

}  // namespace
}  // namespace farcall::server
