// SPDX-License-Identifier: Apache-2.0
// The generated defaults: honest, logged once, and gone where somebody defines the call.
#include <gtest/gtest.h>

#include <string>
#include <vector>

extern "C" int cuMemAlloc_v2(void* address, size_t bytes);
extern "C" int cuGLInit();
extern "C" int cuInit(unsigned) {
  return 0;
}

namespace farcall {

bool IsUnsupported(const void* entry);

namespace {

std::vector<std::string> logged;

TEST(DefaultEntries, AnswerNotSupportedAndLogOnce) {
  logged.clear();
  EXPECT_EQ(cuMemAlloc_v2(nullptr, 16), 801);
  EXPECT_EQ(cuMemAlloc_v2(nullptr, 16), 801);
  EXPECT_EQ(cuGLInit(), 801);
  EXPECT_EQ(logged, (std::vector<std::string>{"cuMemAlloc_v2", "cuGLInit"}));
}

TEST(DefaultEntries, AreTold) {
  EXPECT_TRUE(IsUnsupported(reinterpret_cast<const void*>(&cuMemAlloc_v2)));
  EXPECT_FALSE(IsUnsupported(nullptr));
}

TEST(DefaultEntries, GiveWayToADefinition) {
  EXPECT_EQ(cuInit(0), 0);
  EXPECT_FALSE(IsUnsupported(reinterpret_cast<const void*>(&cuInit)));
}

}  // namespace
}  // namespace farcall

extern "C" void FarcallLogUnsupported(const char* name) {
  farcall::logged.push_back(name);
}
