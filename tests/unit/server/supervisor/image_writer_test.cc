// SPDX-License-Identifier: Apache-2.0
// What workers say of images is checked before it changes anything on disk.
#include "server/supervisor/images/image_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/hex.h"
#include "server/control/memory_file.h"
#include "server/state/objects/image_store.h"
#include "server/supervisor/images/tenant_folders.h"

namespace farcall::server {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kSession = 1, kOther = 2;

std::vector<std::byte> Bytes(size_t count, int value) {
  return std::vector<std::byte>(count, std::byte(value));
}

class ImageWriterTest : public ::testing::Test {
 protected:
  ImageWriterTest() {
    std::string pattern = (fs::temp_directory_path() / "farcall-writer-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
    base_ = root_ + "/server";
  }
  ~ImageWriterTest() override { fs::remove_all(root_); }

  // True: it was taken.
  static bool Offer(ImageWriter& writer, const std::string& tenant, uint64_t session,
                    const Hash256& hash, int file) {
    const bool taken = writer.Take(ImageNote::kNew, tenant, session, hash, &file);
    EXPECT_EQ(taken, file < 0);
    if (file >= 0) close(file);
    return taken;
  }
  static bool Offer(ImageWriter& writer, const std::string& tenant, uint64_t session,
                    const std::vector<std::byte>& image) {
    return Offer(writer, tenant, session, Sha256(image), MakeMemoryFile("image", image));
  }
  std::string FolderOf(const std::string& tenant) const {
    const Hash256 hash = Sha256(BytesOf(tenant));
    return base_ + "/" + HexOf(std::span(hash).first(16));
  }
  std::string PathOf(const std::string& tenant, const Hash256& hash) const {
    return FolderOf(tenant) + "/" + HexOf(hash);
  }
  std::set<std::string> Names(const std::string& tenant) const {
    std::set<std::string> names;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(FolderOf(tenant), none))
      names.insert(entry.path().filename().string());
    return names;
  }
  uint64_t BytesOn(const std::string& tenant) const {
    uint64_t bytes = 0;
    for (const std::string& name : Names(tenant))
      bytes += fs::file_size(FolderOf(tenant) + "/" + name);
    return bytes;
  }
  std::string root_, base_;
};

TEST_F(ImageWriterTest, WritesAnImageUnderItsHashForItsTenantAlone) {
  ImageWriter writer(base_);
  const std::vector<std::byte> image = Bytes(3'000'000, 7);
  ASSERT_TRUE(Offer(writer, "one", kSession, image));
  ASSERT_TRUE(Offer(writer, "two", kOther, Bytes(10, 1)));
  writer.Drain();
  EXPECT_EQ(Names("one"), std::set{HexOf(Sha256(image))});
  EXPECT_EQ(Names("two"), std::set{HexOf(Sha256(Bytes(10, 1)))});
  OwnedDescriptor folder = OpenTenantImages(base_, "one");
  Image read = ImageStore(folder.fd(), nullptr).Get(Sha256(image));
  ASSERT_NE(read, nullptr);
  EXPECT_TRUE(std::equal(image.begin(), image.end(), read->begin()));
  struct stat status {};
  ASSERT_EQ(stat(base_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u) << "others reach nothing by a path";
  ASSERT_EQ(stat(PathOf("one", Sha256(image)).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0444u);
}

TEST_F(ImageWriterTest, BytesUnderAnothersHashAreNotKept) {
  ImageWriter writer(base_);
  const std::vector<std::byte> image = Bytes(1000, 1);
  ASSERT_TRUE(Offer(writer, "one", kSession, Sha256(Bytes(1000, 2)), MakeMemoryFile("a", image)));
  writer.Drain();
  EXPECT_TRUE(Names("one").empty());
  EXPECT_FALSE(Offer(writer, "one", kSession, image)) << "it is not heard again";
  EXPECT_TRUE(Offer(writer, "one", kOther, image));
  writer.Drain();
  EXPECT_EQ(Names("one").size(), 1u);
}

TEST_F(ImageWriterTest, WhatWaitsOfAnUnbelievedSessionIsDropped) {
  // The thread waits before its first note until the others are in the queue.
  std::mutex gate;
  gate.lock();
  ImageWriter writer(base_, {}, [&] { std::lock_guard pass(gate); });
  const Hash256 wrong = Sha256(Bytes(1000, 2));
  const std::vector<std::byte> image = Bytes(1000, 1), another = Bytes(1000, 3);
  ASSERT_TRUE(Offer(writer, "one", kSession, wrong, MakeMemoryFile("a", image)));
  ASSERT_TRUE(Offer(writer, "one", kSession, image));
  ASSERT_TRUE(Offer(writer, "one", kOther, another));
  writer.Forget(kSession);
  gate.unlock();
  writer.Drain();
  EXPECT_EQ(Names("one"), std::set{HexOf(Sha256(another))});
  EXPECT_TRUE(Offer(writer, "one", kSession, image)) << "nothing is kept of who has ended";
}

TEST_F(ImageWriterTest, FilesThatCanStillChangeOrAreNoMemoryAreRefused) {
  ImageWriter writer(base_);
  const std::vector<std::byte> image = Bytes(1000, 1);
  const int seals[] = {0, F_SEAL_WRITE | F_SEAL_GROW, F_SEAL_SHRINK | F_SEAL_GROW};
  uint64_t session = 10;
  for (int some : seals) {
    int file = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ASSERT_EQ(write(file, image.data(), image.size()), 1000);
    ASSERT_EQ(fcntl(file, F_ADD_SEALS, some), 0);
    EXPECT_FALSE(Offer(writer, "one", ++session, Sha256(image), file));
  }
  const std::string path = root_ + "/file";
  std::ofstream(path) << "a file";
  EXPECT_FALSE(Offer(writer, "one", ++session, Sha256(image), open(path.c_str(), O_RDONLY)));
  EXPECT_FALSE(Offer(writer, "one", ++session, Sha256(image), open("/dev/zero", O_RDONLY)));
  EXPECT_FALSE(writer.Take(ImageNote::kNew, "one", ++session, Sha256(image))) << "no file";
  writer.Drain();
  EXPECT_TRUE(Names("one").empty());
}

TEST_F(ImageWriterTest, OneThatIsTooLargeIsRefused) {
  ImageWriter writer(base_);
  int file = memfd_create("large", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(file, (off_t{2} << 30) + 1), 0);
  ASSERT_EQ(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK), 0);
  EXPECT_FALSE(Offer(writer, "one", kSession, Hash256{}, file));
}

TEST_F(ImageWriterTest, WhatWaitsIsBoundedForEachSessionEachTenantAndInAll) {
  ImageWriter::Bounds bounds;
  bounds.session_notes = 2;
  bounds.notes = 6;
  bounds.tenant_bytes = 2500;
  bounds.bytes = 4500;
  std::mutex disk;
  ImageWriter writer(base_, bounds, [&] { std::lock_guard waits(disk); });
  {
    std::lock_guard is_slow(disk);
    EXPECT_TRUE(Offer(writer, "one", 1, Bytes(1000, 1)));
    EXPECT_TRUE(Offer(writer, "one", 1, Bytes(1000, 2)));
    EXPECT_FALSE(Offer(writer, "one", 1, Bytes(100, 3))) << "the session's";
    EXPECT_FALSE(writer.Take(ImageNote::kRead, "one", 1, Hash256{}));
    EXPECT_FALSE(Offer(writer, "one", 2, Bytes(1000, 3))) << "the tenant's bytes";
    EXPECT_TRUE(Offer(writer, "two", 3, Bytes(2400, 4))) << "another tenant has its own";
    EXPECT_FALSE(Offer(writer, "three", 4, Bytes(200, 5))) << "all bytes";
    EXPECT_TRUE(writer.Take(ImageNote::kRead, "three", 4, Hash256{}));
    EXPECT_TRUE(writer.Take(ImageNote::kRead, "three", 5, Hash256{}));
    EXPECT_TRUE(writer.Take(ImageNote::kRead, "three", 6, Hash256{}));
    EXPECT_FALSE(writer.Take(ImageNote::kRead, "four", 7, Hash256{})) << "all notes";
  }
  writer.Drain();
  EXPECT_EQ(Names("one").size(), 2u);
  EXPECT_EQ(Names("two").size(), 1u);
  EXPECT_TRUE(Offer(writer, "one", 1, Bytes(4400, 3))) << "alone, one may be larger";
  writer.Drain();
  EXPECT_EQ(Names("one").size(), 3u);
}

TEST_F(ImageWriterTest, ATenantsDiskIsBoundedAndWhatWasUsedLongestAgoGoes) {
  for (int server = 0; server < 3; ++server) {
    ImageWriter writer(base_, {.disk_bytes = 5000});
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(Offer(writer, "one", kSession, Bytes(900, server * 10 + i)));
      writer.Drain();
      EXPECT_LE(BytesOn("one"), 5000u);
    }
    ASSERT_TRUE(Offer(writer, "two", kOther, Bytes(1000, server)));
    writer.Drain();
  }
  EXPECT_EQ(Names("one").size(), 5u);
  EXPECT_EQ(Names("two").size(), 3u) << "another tenant's are not touched";
  ImageWriter writer(base_, {.disk_bytes = 5000});
  ASSERT_TRUE(Offer(writer, "one", kSession, Bytes(6000, 1)));
  writer.Drain();
  EXPECT_EQ(Names("one").size(), 5u) << "what can never fit pushes nothing out";
}

TEST_F(ImageWriterTest, WhatWasReadStays) {
  ImageWriter writer(base_, {.disk_bytes = 3000});
  const Hash256 first = Sha256(Bytes(1000, 0));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Offer(writer, "one", kSession, Bytes(1000, i)));
    writer.Drain();
    const timespec times[2] = {{1000 + i, 0}, {1000 + i, 0}};
    utimensat(AT_FDCWD, PathOf("one", Sha256(Bytes(1000, i))).c_str(), times, 0);
  }
  ASSERT_TRUE(writer.Take(ImageNote::kRead, "one", kSession, first));
  ASSERT_TRUE(Offer(writer, "one", kSession, Bytes(1000, 3)));
  writer.Drain();
  EXPECT_TRUE(fs::exists(PathOf("one", first)));
  EXPECT_FALSE(fs::exists(PathOf("one", Sha256(Bytes(1000, 1)))));
}

TEST_F(ImageWriterTest, ACorruptFileIsRemovedOnlyIfItIs) {
  ImageWriter writer(base_);
  const std::vector<std::byte> image = Bytes(1000, 1), changed = Bytes(1000, 2);
  ASSERT_TRUE(Offer(writer, "one", kSession, image));
  ASSERT_TRUE(Offer(writer, "one", kSession, changed));
  writer.Drain();
  const std::string file = PathOf("one", Sha256(changed));
  fs::permissions(file, fs::perms::owner_all);
  std::ofstream(file, std::ios::trunc) << "other bytes";
  ASSERT_TRUE(writer.Take(ImageNote::kCorrupt, "one", kSession, Sha256(changed)));
  writer.Drain();
  EXPECT_FALSE(fs::exists(file));
  ASSERT_TRUE(writer.Take(ImageNote::kCorrupt, "one", kSession, Sha256(image)));
  writer.Drain();
  EXPECT_TRUE(fs::exists(PathOf("one", Sha256(image))));
  EXPECT_FALSE(writer.Take(ImageNote::kCorrupt, "one", kSession, Sha256(image)))
      << "who said what is not so is not heard again";
  EXPECT_FALSE(writer.Take(ImageNote::kRead, "one", kSession, Sha256(image)));
  writer.Forget(kSession);
  EXPECT_TRUE(writer.Take(ImageNote::kRead, "one", kSession, Sha256(image)));
}

TEST_F(ImageWriterTest, LinksLeadNowhere) {
  const fs::path outside = root_ + "/outside";
  fs::create_directories(outside);
  const std::vector<std::byte> image = Bytes(1000, 1);
  std::ofstream(outside / "precious") << "canary";
  {
    ImageWriter writer(base_);
    ASSERT_TRUE(Offer(writer, "one", kSession, Bytes(1, 1)));
  }
  fs::create_symlink(outside / "precious", PathOf("one", Sha256(image)));
  fs::create_directory_symlink(outside, FolderOf("two"));
  {
    ImageWriter writer(base_);
    ASSERT_TRUE(writer.Take(ImageNote::kCorrupt, "one", kSession, Sha256(image)));
    ASSERT_TRUE(Offer(writer, "one", kSession, image));
    ASSERT_TRUE(Offer(writer, "two", kOther, image));
  }
  std::string said;
  std::ifstream(outside / "precious") >> said;
  EXPECT_EQ(said, "canary");
  EXPECT_EQ(std::distance(fs::directory_iterator(outside), fs::directory_iterator()), 1);
  EXPECT_FALSE(fs::is_symlink(PathOf("one", Sha256(image)))) << "the image has taken its place";
}

TEST_F(ImageWriterTest, WithoutAPlaceNothingIsTaken) {
  ImageWriter writer("");
  EXPECT_FALSE(Offer(writer, "one", kSession, Bytes(10, 1)));
}

}  // namespace
}  // namespace farcall::server
