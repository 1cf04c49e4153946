// SPDX-License-Identifier: Apache-2.0
// Each property of quota/ and pool/core is tried on so many random cases; RC_PARAMS says otherwise
// (a seed).
#pragma once

#include <rapidcheck/gtest.h>

#include <cstdlib>

namespace farcall::quota {

// A sanitizer looks at the code, not for rare cases.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FARCALL_CASES "max_success=1000"
#else
#define FARCALL_CASES "max_success=10000"
#endif
inline const bool kManyCases = setenv("RC_PARAMS", FARCALL_CASES, 0) == 0;

}  // namespace farcall::quota
