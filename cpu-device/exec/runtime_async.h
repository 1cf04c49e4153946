// SPDX-License-Identifier: Apache-2.0
// mbarrier, bulk copies and clusters, as compiled code calls them. Spaces and flags are an ABI:
// kCodegenVersion changes with them.
#pragma once

#include <cstdint>

#include "cpu-device/exec/runtime.h"

namespace farcall::cpu_device {

enum BulkSpace : uint32_t { kBulkGlobal, kBulkShared, kBulkCluster };

const RuntimeSymbol* AsyncSymbols(unsigned* count);

}  // namespace farcall::cpu_device
