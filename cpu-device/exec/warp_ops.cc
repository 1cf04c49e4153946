// SPDX-License-Identifier: Apache-2.0
// Warp-wide operations, carried out when all lanes of a group are suspended in them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "cpu-device/exec/block.h"
#include "cpu-device/exec/matrix_ops.h"

namespace farcall::cpu_device {
namespace {

template <typename F>
void ForEachLane(uint32_t lanes, F f) {
  for (; lanes; lanes &= lanes - 1) f(static_cast<uint32_t>(std::countr_zero(lanes)));
}

// PTX ISA, shfl: c holds the clamp in bits 0-4 and the segment mask in bits 8-12.
template <Wait mode>
void ShuffleAs(ThreadContext* warp, uint32_t lanes) {
  uint64_t operand[kWarpSize];
  ForEachLane(lanes, [&](uint32_t lane) { operand[lane] = warp[lane].value; });
  ForEachLane(lanes, [&](uint32_t lane) {
    ThreadContext& t = warp[lane];
    const uint32_t b = t.b & 31, clamp = t.c & 31, segment = t.c >> 8 & 31;
    const auto max_lane = static_cast<int32_t>((lane & segment) | (clamp & ~segment));
    int32_t j = 0;
    if constexpr (mode == Wait::kShflUp) {
      j = static_cast<int32_t>(lane) - static_cast<int32_t>(b);
    } else if constexpr (mode == Wait::kShflDown) {
      j = static_cast<int32_t>(lane + b);
    } else if constexpr (mode == Wait::kShflBfly) {
      j = static_cast<int32_t>(lane ^ b);
    } else {
      j = static_cast<int32_t>((lane & segment) | (b & ~segment));
    }
    const bool in_range = mode == Wait::kShflUp ? j >= max_lane : j <= max_lane;
    if (!in_range) j = static_cast<int32_t>(lane);
    t.predicate = in_range;
    // A source outside the group is undefined by PTX. 0 is what programs that sum over a partial
    // warp (cuda-samples' reduction) rely on.
    t.value = (lanes >> j & 1) ? operand[j] : 0;
  });
}

void Shuffle(ThreadContext* warp, uint32_t lanes, Wait mode) {
  switch (mode) {
    case Wait::kShflUp:
      return ShuffleAs<Wait::kShflUp>(warp, lanes);
    case Wait::kShflDown:
      return ShuffleAs<Wait::kShflDown>(warp, lanes);
    case Wait::kShflBfly:
      return ShuffleAs<Wait::kShflBfly>(warp, lanes);
    default:
      return ShuffleAs<Wait::kShflIdx>(warp, lanes);
  }
}

void Vote(ThreadContext* warp, uint32_t lanes, Wait mode) {
  uint32_t ballot = 0;
  ForEachLane(lanes, [&](uint32_t lane) { ballot |= (warp[lane].predicate ? 1u : 0u) << lane; });
  uint64_t result = 0;
  switch (mode) {
    case Wait::kVoteAll:
      result = ballot == lanes;
      break;
    case Wait::kVoteAny:
      result = ballot != 0;
      break;
    case Wait::kVoteUni:
      result = ballot == 0 || ballot == lanes;
      break;
    default:
      result = ballot;
  }
  ForEachLane(lanes, [&](uint32_t lane) { warp[lane].value = result; });
}

void Match(ThreadContext* warp, uint32_t lanes, bool all) {
  uint64_t operand[kWarpSize];
  ForEachLane(lanes, [&](uint32_t lane) { operand[lane] = warp[lane].value; });
  ForEachLane(lanes, [&](uint32_t lane) {
    uint32_t equal = 0;
    ForEachLane(lanes, [&](uint32_t other) {
      equal |= (operand[other] == operand[lane] ? 1u : 0u) << other;
    });
    if (all) equal = equal == lanes ? lanes : 0;
    warp[lane].predicate = equal != 0;
    warp[lane].value = equal;
  });
}

float ReduceFloat(float x, float y, bool max, bool nan) {
  if (std::isnan(x) || std::isnan(y)) {
    if (nan || (std::isnan(x) && std::isnan(y))) return std::bit_cast<float>(0x7fffffffu);
    return std::isnan(x) ? y : x;
  }
  if (x == y) return std::signbit(x) == max ? y : x;  // -0 < +0
  return (x < y) == max ? y : x;
}

uint32_t ReducePair(Wait op, uint32_t x, uint32_t y, uint32_t flags) {
  int32_t sx = static_cast<int32_t>(x), sy = static_cast<int32_t>(y);
  switch (op) {
    case Wait::kReduxAdd:
      return x + y;
    case Wait::kReduxMinS:
      return sx < sy ? x : y;
    case Wait::kReduxMaxS:
      return sx > sy ? x : y;
    case Wait::kReduxMinU:
      return x < y ? x : y;
    case Wait::kReduxMaxU:
      return x > y ? x : y;
    case Wait::kReduxAnd:
      return x & y;
    case Wait::kReduxOr:
      return x | y;
    case Wait::kReduxXor:
      return x ^ y;
    default:
      return std::bit_cast<uint32_t>(ReduceFloat(std::bit_cast<float>(x), std::bit_cast<float>(y),
                                                 op == Wait::kReduxMaxF, flags & 2));
  }
}

void Reduce(ThreadContext* warp, uint32_t lanes, Wait op) {
  uint32_t flags = warp[std::countr_zero(lanes)].c;
  uint32_t keep = (flags & 1) ? 0x7fffffffu : ~0u;
  bool first = true;
  uint32_t result = 0;
  ForEachLane(lanes, [&](uint32_t lane) {
    uint32_t value = static_cast<uint32_t>(warp[lane].value) & keep;
    result = first ? value : ReducePair(op, result, value, flags);
    first = false;
  });
  ForEachLane(lanes, [&](uint32_t lane) { warp[lane].value = result; });
}

// A lane that is not there counts as zeros.
void Multiply(ThreadContext* warp, uint32_t lanes) {
  const ThreadContext& first = warp[std::countr_zero(lanes)];
  const MatrixForm form = MatrixForm::Of(first.b, first.c);
  const uint32_t in_a = form.WordsOfA(), in_b = form.WordsOfB(), in_c = form.WordsOfC(),
                 in_d = form.WordsOfD();
  uint32_t a[kWarpSize * std::size(MatrixWords{}.a)] = {},
                         b[kWarpSize * std::size(MatrixWords{}.b)] = {},
                         c[kWarpSize * std::size(MatrixWords{}.c)] = {};
  auto words = [&](uint32_t lane) {
    return reinterpret_cast<MatrixWords*>(static_cast<uintptr_t>(warp[lane].value));
  };
  ForEachLane(lanes, [&](uint32_t lane) {
    std::copy_n(words(lane)->a, in_a, &a[lane * in_a]);
    std::copy_n(words(lane)->b, in_b, &b[lane * in_b]);
    std::copy_n(words(lane)->c, in_c, &c[lane * in_c]);
  });
  MultiplyMatrices(form, a, b, c, c);
  ForEachLane(lanes, [&](uint32_t lane) { std::copy_n(&c[lane * in_d], in_d, words(lane)->c); });
}

}  // namespace

void RunWarpOperation(ThreadContext* warp, uint32_t lanes) {
  Wait op = warp[std::countr_zero(lanes)].wait;
  if (op == Wait::kWarpSync) return;
  if (op == Wait::kMma) return Multiply(warp, lanes);
  if (op >= Wait::kShflUp && op <= Wait::kShflIdx) return Shuffle(warp, lanes, op);
  if (op >= Wait::kVoteAll && op <= Wait::kVoteBallot) return Vote(warp, lanes, op);
  if (op == Wait::kMatchAny || op == Wait::kMatchAll)
    return Match(warp, lanes, op == Wait::kMatchAll);
  if (op == Wait::kActivemask) {
    ForEachLane(lanes, [&](uint32_t lane) { warp[lane].value = lanes; });
    return;
  }
  if (op == Wait::kElect) {
    uint32_t leader = std::countr_zero(lanes);
    ForEachLane(lanes, [&](uint32_t lane) {
      warp[lane].value = leader;
      warp[lane].predicate = lane == leader;
    });
    return;
  }
  Reduce(warp, lanes, op);
}

}  // namespace farcall::cpu_device
