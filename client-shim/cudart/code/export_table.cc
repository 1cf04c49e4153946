// SPDX-License-Identifier: Apache-2.0
// Private tables: the driver's, which answers those it knows and refuses the rest; the runtime has
// none of its own.
#include "client-shim/cudart/enter.h"
#include "generated/cudart/hand.h"

namespace farcall::cudart {

cudaError_t Call_cudaGetExportTable(const void** table, const cudaUUID_t* id) {
  if (table == nullptr || id == nullptr) return cudaErrorInvalidValue;
  *table = nullptr;
  return FromDriver(g_driver.cuGetExportTable(table, reinterpret_cast<const CUuuid*>(id)));
}

}  // namespace farcall::cudart
