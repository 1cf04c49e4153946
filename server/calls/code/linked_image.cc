// SPDX-License-Identifier: Apache-2.0
#include "server/calls/code/linked_image.h"

#include <span>

#include "proto/cuda/image_units.h"

namespace farcall::server {

bool ContainersOf(const std::vector<std::byte>& image, std::vector<cuda_abi::Bytes>* containers,
                  std::string* error) {
  containers->clear();
  // The store ends each image with a NUL, for PTX.
  const std::span<const std::byte> bytes = std::span(image).first(image.size() - 1);
  const auto as_image = [](std::span<const std::byte> part) {
    return cuda_abi::Bytes(reinterpret_cast<const uint8_t*>(part.data()), part.size());
  };
  if (!HoldsImageUnits(bytes)) {
    containers->push_back(as_image(bytes));
    return true;
  }
  std::vector<std::span<const std::byte>> units;
  if (!SplitImageUnits(bytes, &units)) {
    *error = "kernel image: its units do not fit its " + std::to_string(bytes.size()) + " bytes";
    return false;
  }
  for (const std::span<const std::byte> unit : units) {
    const cuda_abi::ImageView view = cuda_abi::ViewImage(as_image(unit), error);
    if (view.form != cuda_abi::ImageForm::kContainer || view.bytes.size() != unit.size()) {
      *error = "kernel image: a unit of " + std::to_string(unit.size()) +
               " bytes is no fatbin container of that length";
      return false;
    }
    containers->push_back(view.bytes);
  }
  return true;
}

LinkedImage::LinkedImage(const std::vector<cuda_abi::Bytes>& containers) {
  if (containers.size() == 1) {
    plain_ = containers.front().data();
    return;
  }
  for (const cuda_abi::Bytes container : containers) units_.push_back(container.data());
  units_.push_back(nullptr);
  wrapper_.linked = nothing_linked_;
  wrapper_.units = units_.data();
}

}  // namespace farcall::server
