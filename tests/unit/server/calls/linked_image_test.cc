// SPDX-License-Identifier: Apache-2.0
// What the driver is given of a client's image, be it true or not.
#include "server/calls/code/linked_image.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "proto/cuda/image_units.h"

namespace farcall::server {
namespace {

using Image = std::vector<std::byte>;

// A container's header that says `body` bytes follow, and `there` of them.
Image Container(uint64_t body, size_t there) {
  Image bytes(16 + there);
  const uint64_t header = 0x0010'0001'ba55'ed50;
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + 8, &body, sizeof(body));
  return bytes;
}

// As the store keeps it.
Image Stored(Image bytes) {
  bytes.push_back(std::byte{0});
  return bytes;
}

TEST(LinkedImage, OneImageIsHandedOverAsItIs) {
  const Image image = Stored(Container(0, 0));
  std::vector<cuda_abi::Bytes> containers;
  std::string error;
  ASSERT_TRUE(ContainersOf(image, &containers, &error));
  EXPECT_EQ(LinkedImage(containers).data(), image.data());
}

TEST(LinkedImage, UnitsStandBehindAWrapperThatADriverFollows) {
  const std::vector<Image> units = {Container(64, 64), Container(128, 128)};
  const Image image = Stored(JoinImageUnits(units));
  std::vector<cuda_abi::Bytes> containers;
  std::string error;
  ASSERT_TRUE(ContainersOf(image, &containers, &error)) << error;
  const LinkedImage linked(containers);
  const std::vector<cuda_abi::ImageView> views = cuda_abi::ViewTrustedWrapper(linked.data());
  ASSERT_EQ(views.size(), 3u);  // what was linked, which is nothing, and the units
  EXPECT_EQ(views[0].bytes.size(), 16u);
  for (size_t i = 0; i < units.size(); ++i)
    EXPECT_EQ(std::memcmp(views[i + 1].bytes.data(), units[i].data(), units[i].size()), 0);
}

TEST(LinkedImage, AUnitThatIsNoContainerOfItsLengthIsRefused) {
  const Image text(16, std::byte{'.'});
  for (const Image& unit : {Container(65, 64), Container(0, 64), Container(~0ull, 64), text}) {
    const Image image = Stored(JoinImageUnits(std::vector<Image>{Container(0, 0), unit}));
    std::vector<cuda_abi::Bytes> containers;
    std::string error;
    EXPECT_FALSE(ContainersOf(image, &containers, &error));
    EXPECT_FALSE(error.empty());
  }
  Image cut = JoinImageUnits(std::vector<Image>{Container(0, 0), Container(64, 64)});
  cut.resize(cut.size() - 8);
  std::vector<cuda_abi::Bytes> containers;
  std::string error;
  EXPECT_FALSE(ContainersOf(Stored(cut), &containers, &error));
}

}  // namespace
}  // namespace farcall::server
