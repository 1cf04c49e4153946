// SPDX-License-Identifier: Apache-2.0
// A mark that only rises, whoever else raises it.
#pragma once

#include <atomic>

namespace farcall {

template <typename T>
void RaiseTo(std::atomic<T>* mark, T value) {
  T before = mark->load();
  while (before < value && !mark->compare_exchange_weak(before, value)) {
  }
}

}  // namespace farcall
