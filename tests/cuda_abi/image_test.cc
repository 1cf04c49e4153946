// SPDX-License-Identifier: Apache-2.0
#include "cuda-abi/image.h"

#include <gtest/gtest.h>

#include <cstring>

namespace farcall::cuda_abi {
namespace {

template <typename T>
void Put(std::vector<uint8_t>* to, size_t at, T value) {
  if (to->size() < at + sizeof(T)) to->resize(at + sizeof(T));
  memcpy(to->data() + at, &value, sizeof(T));
}

std::vector<uint8_t> Entry(uint16_t kind, uint32_t arch, const std::string& payload,
                           uint64_t flags = 0x11) {
  std::vector<uint8_t> entry(64);
  const uint64_t padded = (payload.size() + 7) / 8 * 8;
  Put<uint16_t>(&entry, 0, kind);
  Put<uint16_t>(&entry, 2, 0x101);
  Put<uint32_t>(&entry, 4, 64);
  Put<uint64_t>(&entry, 8, padded);
  Put<uint32_t>(&entry, 0x1c, arch);
  Put<uint64_t>(&entry, 0x28, flags);
  entry.insert(entry.end(), payload.begin(), payload.end());
  entry.resize(64 + padded);
  return entry;
}

std::vector<uint8_t> Container(const std::vector<std::vector<uint8_t>>& entries) {
  std::vector<uint8_t> container(16);
  for (const auto& entry : entries) container.insert(container.end(), entry.begin(), entry.end());
  Put<uint32_t>(&container, 0, 0xBA55ED50);
  Put<uint16_t>(&container, 4, 1);
  Put<uint16_t>(&container, 6, 16);
  Put<uint64_t>(&container, 8, container.size() - 16);
  return container;
}

std::vector<ImageEntry> Parse(const std::vector<uint8_t>& container) {
  std::vector<ImageEntry> entries;
  std::string error;
  EXPECT_TRUE(ParseContainer(container, &entries, &error)) << error;
  return entries;
}

TEST(Image, FollowsAWrapperToItsContainer) {
  const auto container = Container({Entry(1, 75, ".version 9.0")});
  struct {
    uint32_t magic = 0x466243B1, version = 1;
    const void* data;
    const void* more = nullptr;
  } wrapper;
  wrapper.data = container.data();
  const ImageView view = ViewTrustedImage(&wrapper);
  EXPECT_EQ(view.form, ImageForm::kContainer);
  EXPECT_EQ(view.bytes.data(), container.data());
  EXPECT_EQ(view.bytes.size(), container.size());
}

TEST(Image, KnowsPtxText) {
  const char text[] = "//\n.version 8.0\n";
  EXPECT_EQ(ViewTrustedImage(text).form, ImageForm::kPtx);
  EXPECT_EQ(ViewTrustedImage(text).bytes.size(), sizeof(text) - 1);
  EXPECT_EQ(ViewTrustedImage(nullptr).form, ImageForm::kUnknown);
}

// A section on a multiple of 8, one whose length takes two bytes, the end.
std::vector<uint8_t> TileIr() {
  std::vector<uint8_t> code = {0x7f, 'T',  'i', 'l', 'e',  'I', 'R', 0, 13,   1,   0,
                               0,    0x82, 2,   8,   0xcb, 'a', 'b', 1, 0x83, 0x01};
  code.resize(code.size() + 131, 'x');
  code.push_back(0);
  return code;
}

TEST(Image, FindsTheEndOfTileIr) {
  const std::vector<uint8_t> code = TileIr();
  std::vector<uint8_t> followed = code;
  followed.resize(code.size() + 100, 0xff);
  EXPECT_EQ(ViewTrustedImage(followed.data()).form, ImageForm::kTileIr);
  EXPECT_EQ(ViewTrustedImage(followed.data()).bytes.size(), code.size());
  std::string error;
  const ImageView view = ViewImage(followed, &error);
  EXPECT_EQ(view.form, ImageForm::kTileIr);
  EXPECT_EQ(view.bytes.size(), code.size());
}

TEST(Image, ReadsNoTileIrPastItsEnd) {
  const std::vector<uint8_t> code = TileIr();
  std::string error;
  for (size_t bytes = 0; bytes < code.size(); ++bytes) {
    const std::vector<uint8_t> cut(code.begin(), code.begin() + static_cast<ptrdiff_t>(bytes));
    EXPECT_TRUE(ViewImage(cut, &error).bytes.empty()) << bytes;
  }
  for (const size_t at : {size_t{13}, size_t{14}, size_t{19}}) {  // lengths and the alignment
    std::vector<uint8_t> wrong = code;
    std::fill_n(wrong.begin() + static_cast<ptrdiff_t>(at), 10, 0xff);
    EXPECT_TRUE(ViewImage(wrong, &error).bytes.empty()) << at;
  }
}

TEST(Image, ChoosesAsTheDriverDoes) {
  const auto container = Container({Entry(2, 80, "a"), Entry(2, 86, "b"), Entry(2, 90, "c"),
                                    Entry(1, 75, "p"), Entry(1, 120, "q")});
  const auto entries = Parse(container);
  ASSERT_EQ(entries.size(), 5u);
  EXPECT_EQ(ChooseEntry(entries, 89, CodeTaste::kMachineCodeFirst),
            &entries[1]);  // the nearest cubin of its major version
  EXPECT_EQ(ChooseEntry(entries, 80, CodeTaste::kMachineCodeFirst), &entries[0]);
  EXPECT_EQ(ChooseEntry(entries, 100, CodeTaste::kMachineCodeFirst),
            &entries[3]);  // no cubin: the highest PTX not above
  EXPECT_EQ(ChooseEntry(entries, 130, CodeTaste::kMachineCodeFirst), &entries[4]);
  EXPECT_EQ(ChooseEntry(entries, 90, CodeTaste::kPtxOnly), &entries[3]);
  EXPECT_EQ(ChooseEntry(entries, 70, CodeTaste::kMachineCodeFirst), nullptr);
}

TEST(ImageTest, SpecificCodeRunsWhereItSaysOnly) {
  constexpr uint64_t kArch = 0x100000, kFamily = 0x200000;
  std::vector<ImageEntry> entries(4);
  for (ImageEntry& entry : entries) entry.kind = EntryKind::kCubin;
  entries[0].arch = 90;
  entries[1].arch = 90;
  entries[1].flags = kArch;
  entries[2].arch = 120;
  entries[2].flags = kArch;
  entries[3].arch = 120;
  entries[3].flags = kFamily;
  EXPECT_EQ(ChooseEntry(entries, 90, CodeTaste::kMachineCodeFirst), &entries[1]);
  EXPECT_EQ(ChooseEntry(entries, 121, CodeTaste::kMachineCodeFirst), &entries[3]);
  entries.pop_back();
  EXPECT_EQ(ChooseEntry(entries, 121, CodeTaste::kMachineCodeFirst), nullptr);
}

TEST(Image, ReadsPayloadAndCompression) {
  const auto container = Container(
      {Entry(1, 75, "0123456789", 0x8011), Entry(1, 80, "01234567", 0x2011), Entry(1, 86, "text")});
  auto entries = Parse(container);
  EXPECT_EQ(entries[0].compression, Compression::kZstd);
  EXPECT_EQ(entries[1].compression, Compression::kLz4);
  EXPECT_EQ(entries[2].compression, Compression::kNone);
  EXPECT_EQ(std::string(entries[2].payload.begin(), entries[2].payload.begin() + 4), "text");
}

TEST(Image, EveryTruncationOfAContainerIsRefused) {
  const auto container = Container({Entry(2, 80, "payload one"), Entry(1, 75, "payload two")});
  for (size_t length = 0; length < container.size(); ++length) {
    std::string error;
    EXPECT_EQ(ViewImage(Bytes(container).first(length), &error).form, ImageForm::kUnknown)
        << length;
    std::vector<ImageEntry> entries;
    EXPECT_FALSE(ParseContainer(Bytes(container).first(length), &entries, &error)) << length;
  }
}

TEST(Image, LengthsThatPointOutsideAreRefused) {
  const std::vector<uint8_t> good = Container({Entry(1, 75, "payload")});
  for (size_t at : {16u + 4, 16u + 8, 16u + 0x10, 8u}) {
    std::vector<uint8_t> bad = good;
    Put<uint32_t>(&bad, at, 0xfffffff0);
    std::vector<ImageEntry> entries;
    std::string error;
    EXPECT_FALSE(ParseContainer(bad, &entries, &error)) << at;
    EXPECT_FALSE(error.empty());
  }
}

TEST(Image, ElfLengthComesFromItsHeaders) {
  std::vector<uint8_t> elf(64 + 64 + 32);
  memcpy(elf.data(),
         "\x7f"
         "ELF\x02\x01\x01",
         7);
  Put<uint64_t>(&elf, 40, 64);  // section headers at 64
  Put<uint16_t>(&elf, 58, 64);
  Put<uint16_t>(&elf, 60, 1);
  Put<uint32_t>(&elf, 64 + 4, 1);
  Put<uint64_t>(&elf, 64 + 24, 128);  // one section of 32 bytes at 128
  Put<uint64_t>(&elf, 64 + 32, 32);
  EXPECT_EQ(ElfBytes(elf.data(), elf.size()), 160u);
  EXPECT_EQ(ElfBytes(elf.data(), elf.size() - 1), 0u);
  EXPECT_EQ(ViewTrustedImage(elf.data()).bytes.size(), 160u);
}

}  // namespace
}  // namespace farcall::cuda_abi
