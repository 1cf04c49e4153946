// SPDX-License-Identifier: Apache-2.0
#include "server/nvml/nvml_service.h"

#include <gtest/gtest.h>
#include <nvml.h>

#include <cstring>
#include <string>

#include "generated/proto/nvml_call.h"
#include "proto/codec.h"

namespace farcall::server {
namespace {

class FixedBroker final : public MemoryBroker {
 public:
  Status Charge(int, uint64_t) override { return {}; }
  void Refund(int, uint64_t) override {}
  quota::Usage Query(int device) override { return {1000u + static_cast<unsigned>(device), 400}; }
  std::vector<ProcessUse> Processes(int device) override {
    return device == 0 ? std::vector<ProcessUse>{{42, 300}, {43, 100}} : std::vector<ProcessUse>{};
  }
};

// One question and its answer, on a service whose device has no libnvidia-ml.so.1.
class NvmlServiceTest : public testing::Test {
 protected:
  template <typename... Arguments>
  nvmlReturn_t Ask(NvmlCall call, Arguments... arguments) {
    Builder question;
    question.Put<uint16_t>(static_cast<uint16_t>(call));
    (question.PutBytes(&arguments, sizeof(arguments)), ...);
    return AskBytes(question.bytes());
  }
  nvmlReturn_t AskBytes(std::span<const std::byte> question) {
    NvmlQuestions questions{question};
    reply_ = service_.Reply(questions, service_.AskLibrary(questions));
    Reader in(reply_);
    EXPECT_EQ(in.Get<uint64_t>(), 1u);
    auto status = static_cast<nvmlReturn_t>(in.Get<int64_t>());
    outputs_ = in.GetBytes();
    EXPECT_TRUE(in.Done());
    return status;
  }
  Reader outputs() const { return Reader(outputs_); }

  FixedBroker broker_;
  NvmlService service_{"/nonexistent/libcuda.so.1", std::vector<DeviceSnapshot>(2), broker_};
  std::vector<std::byte> reply_;
  std::span<const std::byte> outputs_;
};

TEST_F(NvmlServiceTest, MemoryIsTheLedgers) {
  ASSERT_EQ(Ask(NvmlCall::nvmlDeviceGetMemoryInfo, uint32_t{1}), NVML_SUCCESS);
  Reader in = outputs();
  uint64_t quota = 0, free = 0;
  std::memcpy(&quota, in.GetBytes().data(), sizeof(quota));
  std::memcpy(&free, in.GetBytes().data(), sizeof(free));
  EXPECT_TRUE(in.Done());
  EXPECT_EQ(quota, 1001u);
  EXPECT_EQ(free, 601u);
}

TEST_F(NvmlServiceTest, ProcessesAreTheTenants) {
  ASSERT_EQ(Ask(NvmlCall::nvmlDeviceGetComputeRunningProcesses_v3, uint32_t{0}), NVML_SUCCESS);
  std::span<const std::byte> run = outputs().GetBytes();
  ASSERT_EQ(run.size(), 2 * sizeof(nvmlProcessInfo_t));
  nvmlProcessInfo_t second;
  std::memcpy(&second, run.data() + sizeof(second), sizeof(second));
  EXPECT_EQ(second.pid, 43u);
  EXPECT_EQ(second.usedGpuMemory, 100u);
  ASSERT_EQ(Ask(NvmlCall::nvmlDeviceGetComputeRunningProcesses_v3, uint32_t{1}), NVML_SUCCESS);
  EXPECT_TRUE(outputs().GetBytes().empty());
}

TEST_F(NvmlServiceTest, WithoutALibraryNothingElseIsKnown) {
  EXPECT_EQ(Ask(NvmlCall::nvmlDeviceGetPowerUsage, uint32_t{0}), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(Ask(NvmlCall::nvmlSystemGetDriverVersion), NVML_ERROR_NOT_SUPPORTED);
}

TEST_F(NvmlServiceTest, QuestionsThatLieAreRefusedBeforeTheLibraryIsAsked) {
  EXPECT_EQ(Ask(NvmlCall::nvmlDeviceGetMemoryInfo, uint32_t{2}), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(Ask(NvmlCall::nvmlDeviceGetMemoryInfo), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(Ask(NvmlCall::nvmlDeviceGetPowerUsage, uint32_t{2}), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(Ask(NvmlCall::nvmlDeviceGetPowerUsage, uint64_t{0}), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(Ask(NvmlCall::nvmlDeviceGetMaxClockInfo, uint32_t{0}), NVML_ERROR_INVALID_ARGUMENT);
  uint32_t count = 2;
  nvmlFieldValue_t one{};
  EXPECT_EQ(Ask(NvmlCall::nvmlDeviceGetFieldValues, uint32_t{0}, count, one),
            NVML_ERROR_INVALID_ARGUMENT);
}

TEST_F(NvmlServiceTest, ARecordIsAsLongAsItSays) {
  struct Said {
    uint32_t version;
    uint32_t rest[3];
  };
  auto ask = [this](uint32_t bytes) {
    return Ask(NvmlCall::nvmlDeviceGetTemperatureV, uint32_t{0}, Said{bytes | 1u << 24, {}});
  };
  EXPECT_EQ(ask(sizeof(Said)), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(ask(sizeof(Said) + 4), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(ask(sizeof(Said) - 4), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(ask(0xffffff), NVML_ERROR_INVALID_ARGUMENT);
}

TEST_F(NvmlServiceTest, CallsThatNobodyAnswersAreNoFunctions) {
  EXPECT_EQ(Ask(NvmlCall::nvmlDeviceSetPersistenceMode, uint32_t{0}),
            NVML_ERROR_FUNCTION_NOT_FOUND);
  EXPECT_EQ(Ask(NvmlCall::kNone), NVML_ERROR_FUNCTION_NOT_FOUND);
  EXPECT_EQ(Ask(static_cast<NvmlCall>(kNvmlCallCount)), NVML_ERROR_FUNCTION_NOT_FOUND);
  EXPECT_EQ(Ask(static_cast<NvmlCall>(0xffff)), NVML_ERROR_FUNCTION_NOT_FOUND);
  EXPECT_EQ(AskBytes({}), NVML_ERROR_FUNCTION_NOT_FOUND);
}

TEST(NvmlQuestionsTest, BodiesThatLieAreNone) {
  NvmlQuestions questions;
  Builder none, many, cut;
  none.Put<uint64_t>(0);
  EXPECT_FALSE(SplitNvmlQuestions(none.bytes(), &questions));
  many.Put<uint64_t>(kMaxNvmlQuestions + 1);
  for (uint32_t i = 0; i <= kMaxNvmlQuestions; ++i) many.PutBytes("", 0);
  EXPECT_FALSE(SplitNvmlQuestions(many.bytes(), &questions));
  cut.Put<uint64_t>(2);
  cut.PutBytes("12345678", 8);
  EXPECT_FALSE(SplitNvmlQuestions(cut.bytes(), &questions));
  cut.PutBytes("12", 2);
  questions.clear();
  ASSERT_TRUE(SplitNvmlQuestions(cut.bytes(), &questions));
  EXPECT_EQ(questions[1].size(), 2u);
}

}  // namespace
}  // namespace farcall::server
