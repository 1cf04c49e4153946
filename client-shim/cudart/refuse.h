// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace farcall::cudart {

// Says once, at FARCALL_LOG's level `warn`, that `name` is missing and why.
void Refuse(const char* name, const char* why, int* said);

// Says once what keeps the driver from being used.
void SayOnce(const char* what, const char* detail, int* said);

}  // namespace farcall::cudart
