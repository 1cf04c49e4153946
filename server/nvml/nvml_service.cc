// SPDX-License-Identifier: Apache-2.0
#include "server/nvml/nvml_service.h"

#include <dlfcn.h>

#include <filesystem>

#include "generated/proto/nvml_call.h"
#include "proto/wire.h"
#include "server/device/uuid_text.h"
#include "server/nvml/nvml_answer.h"

namespace farcall::server {

namespace {

constexpr size_t kMaxReplyBytes = kMaxFrameBytes - 4096;

bool IsOfTenant(std::span<const std::byte> question) {
  auto call = Reader(question).Get<uint16_t>();
  return call < kNvmlCallCount && kNvmlTable[call].of_tenant;
}

}  // namespace

std::string NvmlPath(const std::string& device_path) {
  constexpr const char* kName = "libnvidia-ml.so.1";
  if (device_path.find('/') == std::string::npos) return kName;
  return (std::filesystem::path(device_path).parent_path() / kName).string();
}

bool SplitNvmlQuestions(std::span<const std::byte> body, NvmlQuestions* questions) {
  Reader in(body);
  size_t count = in.GetCount(sizeof(uint64_t));
  if (count == 0 || count > kMaxNvmlQuestions) return false;
  for (size_t i = 0; i < count; ++i) questions->push_back(in.GetBytes());
  return in.Done();
}

NvmlService::NvmlService(std::string device_path, std::vector<DeviceSnapshot> devices,
                         MemoryBroker& broker)
    : device_path_(std::move(device_path)),
      devices_(std::move(devices)),
      broker_(broker),
      api_(std::make_unique<NvmlApi>()),
      handles_(devices_.size()) {}

NvmlService::~NvmlService() = default;

void NvmlService::Load() {
  loaded_ = true;
  unavailable_ = NVML_ERROR_NOT_SUPPORTED;  // a device without a library says nothing of itself
  void* library = dlopen(NvmlPath(device_path_).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  LoadNvmlApi(library, api_.get());
  if (api_->nvmlInit_v2 == nullptr) return;
  nvmlReturn_t status = api_->nvmlInit_v2();
  if (status != NVML_SUCCESS) {
    unavailable_ = status;
    return;
  }
  unavailable_ = NVML_SUCCESS;
  for (size_t i = 0; i < devices_.size() && api_->nvmlDeviceGetHandleByUUID != nullptr; ++i) {
    nvmlDevice_t handle = nullptr;
    for (const char* kind : {"GPU-", "MIG-"}) {  // CUDA's UUID does not say which
      std::string uuid = kind + UuidText(devices_[i].uuid).substr(4);
      if (api_->nvmlDeviceGetHandleByUUID(uuid.c_str(), &handle) == NVML_SUCCESS) {
        handles_[i] = handle;
        break;
      }
    }
  }
}

NvmlService::Known NvmlService::Answer(std::span<const std::byte> question) {
  NvmlAnswer answer(*this, question);
  Known known;
  if (answer.call() >= kNvmlCallCount || kNvmlTable[answer.call()].answer == nullptr) {
    known.status = NVML_ERROR_FUNCTION_NOT_FOUND;
    return known;
  }
  known.status = kNvmlTable[answer.call()].answer(answer);
  if (known.status == NVML_SUCCESS)
    known.outputs.assign(answer.outputs().begin(), answer.outputs().end());
  return known;
}

std::vector<NvmlService::Known> NvmlService::AskLibrary(const NvmlQuestions& questions) {
  if (!loaded_) Load();
  std::vector<Known> known(questions.size());
  for (size_t i = 0; i < questions.size(); ++i)
    if (!IsOfTenant(questions[i])) known[i] = Answer(questions[i]);
  return known;
}

std::vector<std::byte> NvmlService::Reply(const NvmlQuestions& questions,
                                          std::vector<Known> known) {
  Builder out;
  out.Put<uint64_t>(questions.size());
  for (size_t i = 0; i < questions.size(); ++i) {
    if (IsOfTenant(questions[i])) known[i] = Answer(questions[i]);
    size_t for_the_rest = 16 * (questions.size() - i);
    if (out.bytes().size() + known[i].outputs.size() + for_the_rest > kMaxReplyBytes)
      known[i] = {NVML_ERROR_MEMORY, {}};
    out.Put<int64_t>(known[i].status);
    out.PutBytes(known[i].outputs.data(), known[i].outputs.size());
    out.mutable_bytes().resize(AlignUp(out.bytes().size(), 8));
  }
  return std::move(out.mutable_bytes());
}

const NvmlApi& NvmlAnswer::api() const {
  return service_.api();
}

int NvmlAnswer::DeviceIndex() {
  auto index = In<uint32_t>();
  bool has = in_.ok() && index < static_cast<uint32_t>(service_.devices());
  if (!has) refusal_ = NVML_ERROR_INVALID_ARGUMENT;
  return has ? static_cast<int>(index) : 0;
}

nvmlDevice_t NvmlAnswer::Device() {
  int index = DeviceIndex();
  if (refusal_ != NVML_SUCCESS) return nullptr;
  if (service_.Handle(index) == nullptr) refusal_ = NVML_ERROR_NOT_SUPPORTED;
  return static_cast<nvmlDevice_t>(service_.Handle(index));
}

std::span<const std::byte> NvmlAnswer::VersionedRun() {
  std::span<const std::byte> run = in_.GetBytes();
  uint32_t version = 0;
  if (run.size() < sizeof(version) || run.size() > kMaxNvmlRecord) {
    in_.Fail();
    return {};
  }
  std::memcpy(&version, run.data(), sizeof(version));
  if ((version & 0xffffff) != run.size()) {
    in_.Fail();
    return {};
  }
  return run;
}

bool NvmlAnswer::ReadyWith(bool has_function) {
  if (!in_.Done())
    refusal_ = NVML_ERROR_INVALID_ARGUMENT;
  else if (refusal_ == NVML_SUCCESS && service_.unavailable() != NVML_SUCCESS)
    refusal_ = static_cast<nvmlReturn_t>(service_.unavailable());
  else if (refusal_ == NVML_SUCCESS && !has_function)
    refusal_ = NVML_ERROR_NOT_SUPPORTED;
  return refusal_ == NVML_SUCCESS;
}

}  // namespace farcall::server
