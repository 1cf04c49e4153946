// SPDX-License-Identifier: Apache-2.0
// The tables of the spec agree with what the spec's words mean.
#include "generated/proto/call_info.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "generated/server/driver_api.h"

namespace farcall {
namespace {

constexpr const CallInfo& Info(CallId call) {
  return kCallInfo[static_cast<uint16_t>(call)];
}

TEST(CallInfo, VariantsShareTheRecordOfTheirBase) {
  EXPECT_EQ(Info(CallId::cuStreamWaitEvent).record, CallId::cuStreamWaitEvent);
  EXPECT_EQ(Info(CallId::cuStreamWaitEvent_ptsz).record, CallId::cuStreamWaitEvent);
}

TEST(CallInfo, LoweredCallsShareTheRecordOfTheirTarget) {
  EXPECT_EQ(Info(CallId::cuMemcpyPeer_ptds).record, CallId::cuMemcpyPeerAsync);
  EXPECT_EQ(Info(CallId::cuMemcpyPeer_ptds).call_class, CallClass::kPost);
  EXPECT_EQ(Info(CallId::cuEventRecord).record, CallId::cuEventRecordWithFlags);
}

TEST(CallInfo, LocalCallsHaveNoRecord) {
  EXPECT_EQ(Info(CallId::cuDeviceGetCount).record, CallId::kNone);
  EXPECT_EQ(Info(CallId::cuDeviceGetCount).needs, CallNeeds::kInit);
}

TEST(CallInfo, ALoweredCallHasTheEffectOfItsRecord) {
  EXPECT_EQ(Info(CallId::cuMemcpyPeer_ptds).effect, CallEffect::kWork);
  EXPECT_TRUE(Info(CallId::cuMemcpyPeer).TakesDeviceTime());
  EXPECT_TRUE(Info(CallId::cuMemcpyPeer).LeavesResults());
}

TEST(CallInfo, SaysWhatARecordDoes) {
  // Device time, and no result that could be missing.
  EXPECT_TRUE(Info(CallId::cuGraphUpload).TakesDeviceTime());
  EXPECT_FALSE(Info(CallId::cuGraphUpload).LeavesResults());
  EXPECT_TRUE(Info(CallId::cuMemBatchDecompressAsync).TakesDeviceTime());
  EXPECT_TRUE(Info(CallId::cuMemBatchDecompressAsync).LeavesResults());
  // Results in stream order without device time.
  EXPECT_FALSE(Info(CallId::cuLaunchHostFunc).TakesDeviceTime());
  EXPECT_TRUE(Info(CallId::cuLaunchHostFunc).LeavesResults());
  EXPECT_TRUE(Info(CallId::cuStreamSynchronize).waits);
  EXPECT_EQ(Info(CallId::cuStreamEndCapture).capture, CallCapture::kEnds);
  EXPECT_EQ(Info(CallId::cuStreamQuery).capture, CallCapture::kUnsafe);
}

TEST(CallInfo, AnUnknownCallHasNoProperties) {
  EXPECT_EQ(InfoOf(uint16_t{0xffff}).effect, CallEffect::kNone);
  EXPECT_EQ(InfoOf(kCallIdCount).call_class, CallClass::kUnsupported);
}

TEST(CallInfo, UnsupportedCallsAreMarked) {
  EXPECT_FALSE(IsSupported(CallId::cuWaitExternalSemaphoresAsync));
  EXPECT_FALSE(IsSupported(CallId::cuGLInit));
  EXPECT_TRUE(IsSupported(CallId::cuMemAlloc_v2));
}

TEST(CallName, SaysTheExportedNameOrThatItIsUnknown) {
  EXPECT_STREQ(CallName(CallId::cuMemAlloc_v2), "cuMemAlloc_v2");
  EXPECT_STREQ(CallName(uint16_t{0}), "unknown call");
  EXPECT_STREQ(CallName(kCallIdCount), "unknown call");
}

TEST(DriverApi, RefusesALibraryThatIsNoDriver) {
  server::DriverApi api;
  void* self = dlopen(nullptr, RTLD_NOW);
  Status status = server::LoadDriverApi(self, &api);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("cuInit"), std::string::npos);
  dlclose(self);
}

TEST(DriverApi, FindsEachNameOfALibrary) {
  void* library = dlopen(FARCALL_DEFAULTS_LIBRARY, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  server::DriverApi api;
  EXPECT_TRUE(server::LoadDriverApi(library, &api).ok());
  EXPECT_EQ(reinterpret_cast<void*>(api.cuMemsetD2D16Async), dlsym(library, "cuMemsetD2D16Async"));
  EXPECT_EQ(api.cuMemAlloc_v2(nullptr, 0), CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace
}  // namespace farcall
