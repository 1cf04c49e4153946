// SPDX-License-Identifier: Apache-2.0
// Objects that a library names by small numbers and not by pointers: cuFFT's plans.
#pragma once

namespace farcall::thin {

// The smallest number from 1 that is free; 0: there is no more.   Thread  any
int TakeNumber(void* object);
// Null: no object has that number.
const void* ObjectOfNumber(int number);
void FreeNumber(int number);

}  // namespace farcall::thin
