// SPDX-License-Identifier: Apache-2.0
// The linker: puts pieces of PTX together, as the image that cuModuleLoadData then takes.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/base/kind.h"
#include "cpu-device/driver/base/log.h"
#include "cpu-device/driver/base/registry.h"
#include "cpu-device/driver/code/image_source.h"
#include "cpu-device/driver/code/jit_options.h"
#include "cpu-device/driver/code/link_text.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"

namespace farcall::cpu_device {
namespace {

struct Link {
  std::mutex mutex;
  std::vector<std::string> inputs;
  bool machine_code = false;  // one of them is
  std::string ptx;            // of all, once complete
  JitOptions jit;
  std::chrono::steady_clock::duration spent{};
};

// What a call adds to the time of its link.
class LinkClock {
 public:
  explicit LinkClock(Link& link) : link_(link) {}
  ~LinkClock() {
    link_.spent += std::chrono::steady_clock::now() - start_;
    link_.jit.ReportTime(link_.spent);
  }
  LinkClock(const LinkClock&) = delete;
  LinkClock& operator=(const LinkClock&) = delete;

 private:
  Link& link_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

Registry<Link>& Links() {
  static auto* links = new Registry<Link>;
  return *links;
}

CUresult Refuse(const Link& link, const std::string& reason, CUresult code) {
  Log(LogLevel::kError, "cuLink: %s", reason.c_str());
  link.jit.ReportError(reason);
  return code;
}

CUresult Add(CUlinkState state, CUjitInputType type, const void* data, size_t size) {
  if (const CUresult result = CheckInitialized()) return result;
  const std::shared_ptr<Link> link = Links().Find(state);
  if (link == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (data == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(link->mutex);
  const LinkClock clock(*link);
  std::string ptx;
  const cuda_abi::Bytes input(static_cast<const uint8_t*>(data), size);
  // What NVRTC hands out for a cubin beside this device is PTX (cpu-device/compilers).
  const bool is_text =
      type == CU_JIT_INPUT_CUBIN && cuda_abi::ClassifyImage(input) == cuda_abi::ImageForm::kPtx;
  if (type == CU_JIT_INPUT_PTX || is_text) {
    ptx.assign(static_cast<const char*>(data), strnlen(static_cast<const char*>(data), size));
    if (const CUresult result = CheckText(ptx, link->jit)) return result;
  } else if (type == CU_JIT_INPUT_FATBINARY) {
    if (const CUresult result = CodeOf(data, &ptx, link->jit)) return result;
  } else if (type == CU_JIT_INPUT_OBJECT || type == CU_JIT_INPUT_LIBRARY) {
    std::string error;
    std::vector<std::string> units;
    const auto cc = static_cast<uint32_t>(TheDriver().profile.cc());
    if (!ExtractHostCode(input, cc, &units, &error))
      return Refuse(*link, error, CUDA_ERROR_NO_BINARY_FOR_GPU);
    if (units.size() > 1) units = {LinkText(units)};
    ptx = std::move(units.front());
  } else if (type == CU_JIT_INPUT_CUBIN &&
             kDeviceKind.Taste(TheDriver().profile) != cuda_abi::CodeTaste::kPtxOnly) {
    ptx.assign(static_cast<const char*>(data), size);
  } else {
    return Refuse(*link, "an input of machine code: this device executes PTX only",
                  CUDA_ERROR_NO_BINARY_FOR_GPU);
  }
  const bool machine_code = ptx.compare(0, 4,
                                        "\x7f"
                                        "ELF") == 0;
  link->machine_code |= machine_code;
  if (link->machine_code && !link->inputs.empty())
    return Refuse(*link, "machine code and another input: this device links PTX only",
                  CUDA_ERROR_NOT_SUPPORTED);
  link->inputs.push_back(std::move(ptx));
  link->ptx.clear();
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuLinkCreate_v2(unsigned int count, CUjit_option* options, void** values,
                         CUlinkState* out) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  auto link = std::make_shared<Link>();
  if (out == nullptr || !link->jit.Read(count, options, values)) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUlinkState>(link.get());
  Links().Add(std::move(link));
  return CUDA_SUCCESS;
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, size_t size,
                          const char*, unsigned int, CUjit_option*, void**) {
  return Add(state, type, data, size);
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path, unsigned int,
                          CUjit_option*, void**) {
  std::string bytes;
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!ReadFile(path, &bytes)) return CUDA_ERROR_FILE_NOT_FOUND;
  return Add(state, type, bytes.data(), bytes.size() + 1);
}

CUresult cuLinkComplete(CUlinkState state, void** image, size_t* bytes) {
  if (const CUresult result = CheckInitialized()) return result;
  const std::shared_ptr<Link> link = Links().Find(state);
  if (link == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(link->mutex);
  const LinkClock clock(*link);
  if (link->inputs.empty()) return CUDA_ERROR_INVALID_VALUE;
  if (link->ptx.empty()) link->ptx = LinkText(link->inputs);
  *image = link->ptx.data();
  if (bytes != nullptr) *bytes = link->ptx.size() + 1;
  return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state) {
  if (const CUresult result = CheckInitialized()) return result;
  return Links().Take(state) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

}  // extern "C"
