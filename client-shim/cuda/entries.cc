// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cuda/entries.h"

#include <cuda.h>
#include <cudaProfiler.h>

#include "generated/proto/call_info.h"

namespace farcall::client {

std::vector<cuda_abi::ProcRow> EntryRows() {
  std::vector<cuda_abi::ProcRow> rows = {
#define FARCALL_PROC(name, version, flags, symbol) \
  {name, version, flags, #symbol,                  \
   IsSupported(CallId::symbol) ? reinterpret_cast<void*>(&::symbol) : nullptr},
#include "generated/cuda-abi/proc_table.inc"
#undef FARCALL_PROC
  };
  return rows;
}

}  // namespace farcall::client
