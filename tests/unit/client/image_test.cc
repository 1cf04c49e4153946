// SPDX-License-Identifier: Apache-2.0
// What of a fatbin is sent: one entry, with the header that it came with.
#include "client-shim/cuda/objects/image.h"

#include <gtest/gtest.h>

#include <cstring>

namespace farcall::client {
namespace {

template <typename T>
void Put(std::vector<std::byte>* out, size_t at, T value) {
  std::memcpy(out->data() + at, &value, sizeof(value));
}

// As nvcc 13 writes PTX: behind the usual 64 bytes of the header the options for ptxas, whose
// offset the driver follows.
std::vector<std::byte> Entry(uint16_t kind, size_t header_bytes, uint32_t options_at) {
  constexpr size_t kPayloadBytes = 24;
  std::vector<std::byte> entry(header_bytes + kPayloadBytes, std::byte{'x'});
  std::memset(entry.data(), 0, header_bytes);
  Put<uint16_t>(&entry, 0x00, kind);
  Put<uint16_t>(&entry, 0x02, 0x0101);
  Put<uint32_t>(&entry, 0x04, static_cast<uint32_t>(header_bytes));
  Put<uint64_t>(&entry, 0x08, kPayloadBytes);
  Put<uint32_t>(&entry, 0x14, options_at);
  Put<uint32_t>(&entry, 0x1c, 75);
  if (options_at != 0) Put<uint64_t>(&entry, options_at, 0x48);
  return entry;
}

std::vector<std::byte> Container(std::initializer_list<std::vector<std::byte>> entries) {
  std::vector<std::byte> container(16);
  for (const auto& entry : entries) container.insert(container.end(), entry.begin(), entry.end());
  Put<uint32_t>(&container, 0, 0xBA55ED50);
  Put<uint16_t>(&container, 4, 1);
  Put<uint16_t>(&container, 6, 16);
  Put<uint64_t>(&container, 8, container.size() - 16);
  return container;
}

TEST(ImageTest, SendsAnEntryWithTheHeaderThatItCameWith) {
  const auto machine_code = Entry(2, 0x40, 0), ptx = Entry(1, 0x50, 0x40);
  CUresult status = CUDA_ERROR_UNKNOWN;
  std::string error;
  const ImageTarget target{90, cuda_abi::CodeTaste::kMachineCodeFirst, false};
  const auto image = Image::FromBytes(Container({machine_code, ptx}), target, &status, &error);
  ASSERT_NE(image, nullptr) << error;
  EXPECT_EQ(status, CUDA_SUCCESS);
  EXPECT_EQ(image->hash(), Image::Whole(Container({ptx}))->hash());
}

}  // namespace
}  // namespace farcall::client
