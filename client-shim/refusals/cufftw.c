// SPDX-License-Identifier: Apache-2.0
// Memory is the host's and needs no plan; there being no plan, none costs anything.
#include <stdlib.h>

#include "client-shim/refusals/refuse.h"

EXPORTED void* fftw_malloc(size_t bytes) {
  return aligned_alloc(64, (bytes + 63) / 64 * 64);
}
EXPORTED void* fftwf_malloc(size_t bytes) {
  return fftw_malloc(bytes);
}
EXPORTED void fftw_free(void* memory) {
  free(memory);
}
EXPORTED void fftwf_free(void* memory) {
  free(memory);
}

EXPORTED double fftw_cost(const void* plan) {
  (void)plan;
  return 0;
}
EXPORTED double fftwf_cost(const void* plan) {
  (void)plan;
  return 0;
}
EXPORTED void fftw_flops(const void* plan, double* add, double* multiply, double* fused) {
  (void)plan;
  *add = *multiply = *fused = 0;
}
EXPORTED void fftwf_flops(const void* plan, double* add, double* multiply, double* fused) {
  fftw_flops(plan, add, multiply, fused);
}
