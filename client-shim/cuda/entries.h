// SPDX-License-Identifier: Apache-2.0
// The exported entries, as cuGetProcAddress finds them.
#pragma once

#include <vector>

#include "cuda-abi/proc_table.h"

namespace farcall::client {

std::vector<cuda_abi::ProcRow> EntryRows();

}  // namespace farcall::client
