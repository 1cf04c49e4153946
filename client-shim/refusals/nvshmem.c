// SPDX-License-Identifier: Apache-2.0
// What NVSHMEM answers before it is initialised, which here it never is: its version.
#include <stddef.h>

#include "client-shim/refusals/refuse.h"

// OpenSHMEM's, whose interface it follows.
EXPORTED void nvshmem_info_get_version(int* major, int* minor) {
  if (major != NULL) *major = 1;
  if (minor != NULL) *minor = 3;
}

EXPORTED void nvshmemx_vendor_get_version_info(int* major, int* minor, int* patch) {
  if (major != NULL) *major = 3;
  if (minor != NULL) *minor = 7;
  if (patch != NULL) *patch = 2;
}
