// SPDX-License-Identifier: Apache-2.0
// Library calls that a client does not wait for, on objects that slow calls have: no object is in
// two threads' hands, none is used that ends. The library of the test (slow_library.c) ends the
// worker otherwise.
#include <gtest/gtest.h>

#include "generated/proto/cublas_call.h"
#include "generated/proto/cufft_call.h"
#include "proto/library/library_call.h"
#include "tests/end_to_end/server/raw_client.h"
#include "tests/end_to_end/server/server_process.h"

namespace farcall::testing {
namespace {

constexpr int32_t kNotInitialized = 1;  // CUBLAS_STATUS_NOT_INITIALIZED
constexpr uint64_t kHandle = MakeLibraryObject(LibraryId::kCublas, 1, 1);
constexpr uint64_t kPlan = MakeLibraryObject(LibraryId::kCufft, 1, 2);

class SlowLibraries : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("FARCALL_LIBRARIES", FARCALL_SLOW_LIBRARIES, 1);
    server_ = std::make_unique<ServerProcess>(std::vector<std::string>{"--trust-tenants"});
    unsetenv("FARCALL_LIBRARIES");
    ASSERT_TRUE(client_.Connect(server_->url()).ok()) << server_->log();
    client_.RetainPrimary();
  }

  template <typename Function>
  static Builder Call(LibraryId library, Function function, uint64_t stream = 0) {
    Builder body;
    body.Put<uint64_t>(stream);
    body.Put<uint8_t>(static_cast<uint8_t>(library));
    body.Put<uint8_t>(13);
    body.Put<uint16_t>(static_cast<uint16_t>(function));
    body.Put<uint32_t>(0);
    return body;
  }
  template <typename Function>
  static Builder Cublas(Function function, uint64_t stream = 0) {
    Builder body = Call(LibraryId::kCublas, function, stream);
    body.Put<uint64_t>(kHandle);
    return body;
  }
  template <typename Function>
  static Builder Cufft(Function function) {
    Builder body = Call(LibraryId::kCufft, function);
    body.Put<uint64_t>(kPlan);
    return body;
  }
  static Builder Swap(uint64_t stream = 0) {
    Builder body = Cublas(cublas::Function::cublasSswap_v2, stream);
    for (int i = 0; i < 3; ++i) body.Put<int32_t>(1);
    body.Put<uint64_t>(0);
    body.Put<uint64_t>(0);
    return body;
  }
  uint32_t Send(const Builder& body) {
    return client_.Send(static_cast<uint16_t>(SessionCall::kLibrary), body, kWantReply);
  }
  // The library's status.
  static int32_t StatusOf(const RawReply& reply) {
    EXPECT_TRUE(reply.arrived) << "the worker is gone";
    EXPECT_EQ(reply.status, 0);
    return Reader(reply.out).Get<int32_t>();
  }
  int32_t Wait(uint32_t serial) { return StatusOf(client_.WaitReply(serial)); }

  std::unique_ptr<ServerProcess> server_;
  RawClient client_;
};

TEST_F(SlowLibraries, AHandleIsGoneFromItsDestructionOn) {
  ASSERT_EQ(Wait(Send(Cublas(cublas::Function::cublasCreate_v2))), 0);
  EXPECT_EQ(Wait(Send(Swap())), 0);
  const uint32_t destroyed = Send(Cublas(cublas::Function::cublasDestroy_v2));
  const uint32_t used = Send(Swap());
  const uint32_t again = Send(Cublas(cublas::Function::cublasDestroy_v2));
  EXPECT_EQ(Wait(used), kNotInitialized);
  EXPECT_EQ(Wait(destroyed), 0);
  EXPECT_EQ(Wait(again), kNotInitialized);
}

TEST_F(SlowLibraries, APlanInTheMakingIsWaitedFor) {
  using cufft::Function;
  ASSERT_EQ(Wait(Send(Cufft(Function::cufftCreate))), 0);
  Builder make = Cufft(Function::cufftMakePlan1d);
  for (int value : {8, 0x29, 1}) make.Put<int32_t>(value);
  make.Put<uint8_t>(1);  // the size is wanted
  const uint32_t planned = Send(make);
  Builder execute = Cufft(Function::cufftExecC2C);
  execute.Put<int32_t>(-1);
  execute.Put<uint64_t>(0);
  execute.Put<uint64_t>(0);
  const uint32_t executed = Send(execute);
  const uint32_t destroyed = Send(Cufft(Function::cufftDestroy));
  EXPECT_EQ(Wait(planned), 0);
  EXPECT_EQ(Wait(executed), 0);
  EXPECT_EQ(Wait(destroyed), 0);
}

// What a library's handle was told of must not end before the handle.
TEST_F(SlowLibraries, StreamsAndContextsEndBehindTheHandlesThatUseThem) {
  const uint64_t stream = MakeHandle(HandleKind::kStream, 1, 1);
  const uint64_t context = MakeHandle(HandleKind::kContext, 2, 1);
  Builder create;
  create.Put<uint64_t>(context);
  create.Put<uint32_t>(0);
  create.Put<int32_t>(0);
  ASSERT_EQ(client_.Ask(CallId::cuCtxCreate_v4, create, 0).status, 0);
  Builder of_stream;
  of_stream.Put<uint64_t>(stream);
  of_stream.Put<uint32_t>(0);
  of_stream.Put<int32_t>(0);
  ASSERT_EQ(client_.Ask(CallId::cuStreamCreateWithPriority, of_stream, 2).status, 0);
  const auto send = [&](const Builder& body) {
    return client_.Send(static_cast<uint16_t>(SessionCall::kLibrary), body, kWantReply, 2);
  };
  ASSERT_EQ(Wait(send(Cublas(cublas::Function::cublasCreate_v2))), 0);
  ASSERT_EQ(Wait(send(Swap(stream))), 0);
  std::vector<uint32_t> order;
  order.push_back(send(Cublas(cublas::Function::cublasDestroy_v2)));
  Builder body;
  body.Put<uint64_t>(stream);
  order.push_back(
      client_.Send(static_cast<uint16_t>(CallId::cuStreamDestroy_v2), body, kWantReply, 2));
  Builder of_context;
  of_context.Put<uint64_t>(context);
  order.push_back(
      client_.Send(static_cast<uint16_t>(CallId::cuCtxDestroy_v2), of_context, kWantReply, 2));
  for (uint32_t serial : order) EXPECT_EQ(client_.WaitReply(serial).status, 0);
  EXPECT_EQ(client_.LastAnswered(order.size()), order);
}

}  // namespace
}  // namespace farcall::testing
