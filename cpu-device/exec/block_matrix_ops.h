// SPDX-License-Identifier: Apache-2.0
// What compiled code calls where all threads of a block are at an mma or ldmatrix, or at several
// that follow one another.
#pragma once

#include "cpu-device/exec/context.h"

namespace farcall::cpu_device {

// Of thread i a word lies at frame + offset + i * step. kSame: all have `offset`; kScalar: all have
// scalars[offset].
struct MatrixWord {
  static constexpr uint32_t kSame = 0, kScalar = ~0u;

  uint32_t offset = 0, step = kSame;
};

// ldmatrix. Elements of 16 bits are 8 x 8 a matrix; smaller ones 8 x 16, or transposed 16 x 16, and
// become bytes.
struct MatrixLoad {
  uint32_t element_bits = 16;  // 16, 8, 6, 4; side by side from the begin of a row's 16 bytes on
  bool transposes = false;

  uint32_t Code() const { return element_bits << 1 | (transposes ? 1 : 0); }
  static MatrixLoad Of(uint32_t code) { return {code >> 1, (code & 1) != 0}; }
};

// Words alone: the compiler writes them as they lie here.
struct MatrixStep {
  uint32_t loads = 0;  // so many words for each lane, 1 to 4; 0: a product
  // Of a product its MatrixForm: types and flags, sizes; of a load its line and MatrixLoad.
  uint32_t how[2] = {0, 0};
  uint32_t result = 0;   // its words: thread i's lie side by side, frame + result + i * their bytes
  MatrixWord words[32];  // a's, b's, c's; the offset in shared memory of the row a thread names
};

// Each warp takes all steps.
//   left  by thread: 1, it has ended; null: none has
// Errors  leaves by RaiseFault: a row outside of shared memory, or misaligned
void RunMatrixSteps(const BlockContext* block, uint8_t* frame, const uint8_t* left,
                    const uint32_t* scalars, const MatrixStep* steps, uint32_t count);

}  // namespace farcall::cpu_device
