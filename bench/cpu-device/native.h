// SPDX-License-Identifier: Apache-2.0
// The loops of kernels.cu in C++, on every core.
#pragma once

#include <cstdint>

namespace farcall::bench::native {

unsigned Cores();
void Elementwise(const float* a, const float* b, float* c, float factor, uint32_t n,
                 uint32_t times = 1);
// Row by row of the left matrix, columns of the right one innermost: what a compiler vectorises.
void Matmul(const float* a, const float* b, float* c, uint32_t n);
float Reduce(const float* a, uint32_t n);
void Histogram(const uint8_t* values, uint32_t* bins, uint32_t n);

}  // namespace farcall::bench::native
