// SPDX-License-Identifier: Apache-2.0
// The names of cusparseStatus_t, which cuSPARSELt's calls answer with.
#include <stddef.h>

#include "client-shim/refusals/refuse.h"

static const struct {
  const char *name, *text;
} kCodes[] = {
    {"CUSPARSE_STATUS_SUCCESS", "success"},
    {"CUSPARSE_STATUS_NOT_INITIALIZED", "not initialized"},
    {"CUSPARSE_STATUS_ALLOC_FAILED", "out of memory"},
    {"CUSPARSE_STATUS_INVALID_VALUE", "invalid value"},
    {"CUSPARSE_STATUS_ARCH_MISMATCH", "not for this device"},
    {"CUSPARSE_STATUS_MAPPING_ERROR", "memory cannot be mapped"},
    {"CUSPARSE_STATUS_EXECUTION_FAILED", "execution failed"},
    {"CUSPARSE_STATUS_INTERNAL_ERROR", "internal error"},
    {"CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED", "matrix type not supported"},
    {"CUSPARSE_STATUS_ZERO_PIVOT", "zero pivot"},
    {"CUSPARSE_STATUS_NOT_SUPPORTED", "operation not supported"},
    {"CUSPARSE_STATUS_INSUFFICIENT_RESOURCES", "insufficient resources"},
};
enum { kCount = sizeof(kCodes) / sizeof(kCodes[0]) };

EXPORTED const char* cusparseLtGetErrorName(int code) {
  return code >= 0 && code < kCount ? kCodes[code].name : "unrecognized error code";
}

EXPORTED const char* cusparseLtGetErrorString(int code) {
  return code >= 0 && code < kCount ? kCodes[code].text : "unrecognized error code";
}
