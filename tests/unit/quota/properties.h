// SPDX-License-Identifier: Apache-2.0
// Each property of quota/ is tried on so many random cases; RC_PARAMS says otherwise (a seed).
#pragma once

#include <rapidcheck/gtest.h>

#include <cstdlib>

namespace farcall::quota {

inline const bool kManyCases = setenv("RC_PARAMS", "max_success=10000", 0) == 0;

}  // namespace farcall::quota
