// SPDX-License-Identifier: Apache-2.0
// How far apart the addresses are that neighbouring threads access.
#pragma once

#include <optional>

#include "cpu-device/jit/regions/divergence.h"

namespace farcall::cpu_device::jit {

// By what `value` grows from a thread to the next of its row; nothing where that is not seen. A
// guess for the sake of speed: it does not know of what wraps around.
std::optional<int64_t> ThreadStride(const llvm::Value* value, const Divergence& divergence,
                                    const llvm::DataLayout& layout);

}  // namespace farcall::cpu_device::jit
