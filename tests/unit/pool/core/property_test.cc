// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/unit/pool/core/random_world.h"
#include "tests/unit/quota/properties.h"

namespace farcall::pool {
namespace {

RC_GTEST_PROP(PoolProperty, holds_its_promises_whatever_is_lost_or_dies, ()) {
  World world(*rc::gen::arbitrary<uint64_t>());
  int steps = *rc::gen::inRange(20, 250);
  for (int i = 0; i < steps; ++i) world.Step();
  world.Heal();
}

// In this one a gang with alternatives is changed while a member waits and another holds its GPUs.
TEST(PoolWorld, AChangedGangsHeldMemberStaysCounted) {
  World world(33571022966);
  for (int i = 0; i < 42; ++i) world.Step();
  world.Heal();
}

TEST(PoolWorld, AWaitingClaimHasNotChosen) {
  World world(198588419106);
  for (int i = 0; i < 120; ++i) world.Step();
  world.Heal();
}

}  // namespace
}  // namespace farcall::pool
