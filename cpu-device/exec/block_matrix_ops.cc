// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/exec/block_matrix_ops.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cpu-device/exec/block_warp_ops.h"
#include "cpu-device/exec/matrix_ops.h"
#include "cpu-device/exec/runtime.h"

namespace farcall::cpu_device {
namespace {

struct Warp {
  const BlockContext* block;
  uint8_t* frame;
  const uint32_t* scalars;
  uint32_t first, live;  // its first thread, and the lanes that have not ended

  // Lane after lane, each one's `count` words.
  void Read(const MatrixWord* words, uint32_t count, uint32_t* out) const {
    const uint32_t bytes = 4 * count;
    bool side_by_side = words[0].step == bytes;
    for (uint32_t w = 1; w < count; ++w)
      side_by_side &= words[w].step == bytes && words[w].offset == words[0].offset + 4 * w;
    // What a product gave, for one.
    if (side_by_side) {
      memcpy(out, frame + words[0].offset + uint64_t{first} * bytes, kWarpSize * bytes);
      return;
    }
    for (uint32_t w = 0; w < count; ++w) {
      const MatrixWord word = words[w];
      if (word.step == MatrixWord::kSame || word.step == MatrixWord::kScalar) {
        const uint32_t value = word.step == MatrixWord::kSame ? word.offset : scalars[word.offset];
        for (uint32_t lane = 0; lane < kWarpSize; ++lane) out[lane * count + w] = value;
        continue;
      }
      const uint8_t* from = frame + word.offset + uint64_t{first} * word.step;
      for (uint32_t lane = 0; lane < kWarpSize; ++lane)
        memcpy(&out[lane * count + w], from + lane * word.step, 4);
    }
  }
  // A lane that is not there counts as zeros.
  void ReadMatrix(const MatrixWord* words, uint32_t count, uint32_t* out) const {
    Read(words, count, out);
    for (uint32_t rest = ~live; rest; rest &= rest - 1)
      memset(&out[std::countr_zero(rest) * count], 0, 4 * count);
  }
  // Of lanes that are gone too: nobody reads theirs.
  uint32_t* ResultOf(const MatrixStep& step, uint32_t count) const {
    return reinterpret_cast<uint32_t*>(frame + step.result + uint64_t{first} * 4 * count);
  }
};

void Multiply(const Warp& warp, const MatrixStep& step) {
  const MatrixForm form = MatrixForm::Of(step.how[0], step.how[1]);
  const uint32_t in_a = form.WordsOfA(), in_b = form.WordsOfB(), in_c = form.WordsOfC();
  uint32_t a[kWarpSize * std::size(MatrixWords{}.a)], b[kWarpSize * std::size(MatrixWords{}.b)],
      c[kWarpSize * std::size(MatrixWords{}.c)];
  warp.ReadMatrix(step.words, in_a, a);
  warp.ReadMatrix(step.words + in_a, in_b, b);
  warp.ReadMatrix(step.words + in_a + in_b, in_c, c);
  MultiplyMatrices(form, a, b, c, warp.ResultOf(step, form.WordsOfD()));
}

constexpr uint32_t kRowBytes = 16;

// The row that each lane names, zeros of one that is not there. Only those of `count` lanes are
// looked at.
void LoadRows(const Warp& warp, const MatrixStep& step, uint32_t count, uint32_t aligned,
              uint8_t (*rows)[kRowBytes]) {
  const BlockContext* block = warp.block;
  uint32_t offsets[kWarpSize];
  warp.Read(step.words, 1, offsets);
  for (uint32_t lane = 0; lane < count; ++lane) {
    const uint64_t row = offsets[lane];
    memset(rows[lane], 0, kRowBytes);
    if (!(warp.live >> lane & 1)) continue;
    if (row % aligned != 0 || row + kRowBytes > block->shared_bytes)
      WindowFault("shared", row, block->shared_bytes, aligned, step.how[0]);
    memcpy(rows[lane], block->shared + row, kRowBytes);
  }
}

// ldmatrix of bytes, or of less: a lane gets columns 4 * (lane % 4) on of row lane / 4; transposed,
// rows 4 * (lane % 4) on of column lane / 4, then of the column 8 further on.
void LoadBytes(const Warp& warp, const MatrixStep& step, const MatrixLoad& load) {
  uint8_t rows[kWarpSize][kRowBytes];
  const uint32_t bits = load.element_bits;
  LoadRows(warp, step, 8 * step.loads, 1, rows);
  auto element = [&](uint32_t row, uint32_t column) {
    const uint32_t at = column * bits, byte = at / 8;
    const uint32_t pair = rows[row][byte] | rows[row][std::min(byte + 1, kRowBytes - 1)] << 8;
    return pair >> at % 8 & ((1u << bits) - 1);
  };
  uint32_t* words = warp.ResultOf(step, step.loads);
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    const uint32_t group = lane / 4, four = lane % 4 * 4;
    for (uint32_t w = 0; w < step.loads; ++w) {
      uint32_t word = 0;
      for (uint32_t i = 0; i < 4; ++i) {
        word |= (load.transposes ? element(w / 2 * 16 + four + i, group + w % 2 * 8)
                                 : element(8 * w + group, four + i))
                << 8 * i;
      }
      words[lane * step.loads + w] = word;
    }
  }
}

// ldmatrix: a lane gets the pair of columns 2 * (lane % 4) of row lane / 4, transposed the other
// way round.
void Load(const Warp& warp, const MatrixStep& step) {
  constexpr uint32_t kRows = 8;
  const MatrixLoad load = MatrixLoad::Of(step.how[1]);
  if (load.element_bits != 16) return LoadBytes(warp, step, load);
  const bool transposed = load.transposes;
  uint8_t rows[kWarpSize][kRowBytes];
  LoadRows(warp, step, kRows * step.loads, transposed ? 2 : 4, rows);
  uint32_t* words = warp.ResultOf(step, step.loads);
  for (uint32_t q = 0; q < step.loads; ++q) {
    uint16_t elements[kRows][kRows];
    memcpy(elements, rows[kRows * q], sizeof(elements));
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      const uint32_t group = lane / 4, pair = lane % 4 * 2;
      const uint32_t low = transposed ? elements[pair][group] : elements[group][pair],
                     high = transposed ? elements[pair + 1][group] : elements[group][pair + 1];
      words[lane * step.loads + q] = low | high << 16;
    }
  }
}

}  // namespace

void RunMatrixSteps(const BlockContext* block, uint8_t* frame, const uint8_t* left,
                    const uint32_t* scalars, const MatrixStep* steps, uint32_t count) {
  const uint32_t threads = ThreadsOf(block);
  for (uint32_t first = 0; first < threads; first += kWarpSize) {
    const Warp warp = {block, frame, scalars, first, StayingLanes(left, threads, first)};
    for (uint32_t i = 0; i < count && warp.live != 0; ++i)
      steps[i].loads != 0 ? Load(warp, steps[i]) : Multiply(warp, steps[i]);
  }
}

}  // namespace farcall::cpu_device
