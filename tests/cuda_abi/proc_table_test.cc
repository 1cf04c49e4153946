// SPDX-License-Identifier: Apache-2.0
#include "cuda-abi/proc_table.h"

#include <gtest/gtest.h>

namespace farcall::cuda_abi {
namespace {

char g_v1, g_v2, g_ptsz, g_only;

class ProcTableTest : public testing::Test {
 protected:
  const ProcTable table_{{{"cuThing", 12000, 0, "cuThing_v2", &g_v2},
                          {"cuThing", 3020, 0, "cuThing", &g_v1},
                          {"cuThing", 7000, 2, "cuThing_ptsz", &g_ptsz},
                          {"cuOnly", 4000, 0, "cuOnly", &g_only},
                          {"cuMissing", 4000, 0, "cuMissing", nullptr}}};
};

TEST_F(ProcTableTest, GivesTheNewestEntryNotNewerThanAsked) {
  EXPECT_EQ(table_.Lookup("cuThing", 3020, 0).entry, &g_v1);
  EXPECT_EQ(table_.Lookup("cuThing", 11080, 0).entry, &g_v1);
  EXPECT_EQ(table_.Lookup("cuThing", 13000, 1).entry, &g_v2);
}

TEST_F(ProcTableTest, PerThreadFlagPrefersThePerThreadEntry) {
  EXPECT_EQ(table_.Lookup("cuThing", 13000, 2).entry, &g_ptsz);
  EXPECT_EQ(table_.Lookup("cuOnly", 13000, 2).entry, &g_only);
}

TEST_F(ProcTableTest, AnEntryThatIsTooNewIsNotTheSameAsNone) {
  EXPECT_EQ(table_.Lookup("cuThing", 2000, 0).status, ProcStatus::kVersionNotSufficient);
  EXPECT_EQ(table_.Lookup("cuThing", 2000, 0).entry, nullptr);
  EXPECT_EQ(table_.Lookup("cuNothing", 13000, 0).status, ProcStatus::kNotFound);
  EXPECT_EQ(table_.Lookup("", 0, 0).status, ProcStatus::kNotFound);
  EXPECT_EQ(table_.Lookup("cuMissing", 13000, 0).status, ProcStatus::kNotFound);
}

TEST_F(ProcTableTest, RefusesFlagsCudaDoesNotHave) {
  EXPECT_FALSE(table_.Lookup("cuThing", 13000, 4).valid_flags);
  EXPECT_FALSE(table_.Lookup("cuThing", 13000, 3).valid_flags);
}

}  // namespace
}  // namespace farcall::cuda_abi
