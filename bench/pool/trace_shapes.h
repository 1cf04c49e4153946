// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace farcall::pool {

// Thousandths of a GPU, GPUs, and how often: the marginal sizes of a public trace of a cluster.
struct Shape {
  uint32_t milli = 0, count = 1, weight = 0;
};
inline constexpr Shape kShapes[] = {
    {1000, 1, 3911}, {810, 1, 1078}, {470, 1, 750}, {320, 1, 328}, {650, 1, 253}, {230, 1, 140},
    {460, 1, 128},   {590, 1, 75},   {160, 1, 74},  {550, 1, 72},  {220, 1, 62},  {370, 1, 47},
    {110, 1, 24},    {480, 1, 19},   {1000, 8, 44}, {1000, 2, 16}, {1000, 4, 15}};

}  // namespace farcall::pool
