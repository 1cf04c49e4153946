// SPDX-License-Identifier: Apache-2.0
// The bounded image classifier on arbitrary bytes: every entry it returns lies inside them.
#include <cstdint>
#include <cstdlib>

#include "cuda-abi/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using farcall::cuda_abi::ImageEntry;
  farcall::cuda_abi::Bytes bytes(data, size);
  std::string error;
  farcall::cuda_abi::ClassifyImage(bytes);
  farcall::cuda_abi::ImageView view = farcall::cuda_abi::ViewImage(bytes, &error);
  if (view.form != farcall::cuda_abi::ImageForm::kContainer) return 0;
  std::vector<ImageEntry> entries;
  if (!farcall::cuda_abi::ParseContainer(view.bytes, &entries, &error)) return 0;
  for (const ImageEntry& entry : entries)
    if (entry.payload.data() < data || entry.payload.data() + entry.payload.size() > data + size)
      std::abort();
  farcall::cuda_abi::ChooseEntry(entries, 130, farcall::cuda_abi::CodeTaste::kMachineCodeFirst);
  farcall::cuda_abi::ChooseEntry(entries, 80, farcall::cuda_abi::CodeTaste::kPtxOnly);
  return 0;
}
