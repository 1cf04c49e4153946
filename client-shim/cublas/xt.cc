// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cublas/xt.h"

#include <cuda.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "client-shim/thin/forked.h"
#include "client-shim/thin/handle.h"
#include "client-shim/thin/library.h"
#include "generated/proto/cublas_call.h"

#define XT_ENTRY extern "C" __attribute__((visibility("default"))) cublasStatus_t

namespace farcall::cublas {

namespace {

constexpr int kDefaultBlock = 1024;
constexpr size_t kMaxElements = size_t{1} << 48;

struct XtHandle {
  std::mutex mutex;  // a call at a time
  int block = kDefaultBlock;
  cublasXtPinnedMemMode_t pinning = CUBLASXT_PINNING_DISABLED;
  int device = -1;
  CUcontext context = nullptr;
  cublasHandle_t blas = nullptr;
};

// An address alone would let a destroyed handle be looked at.
struct Handles {
  std::mutex mutex;
  std::map<const void*, std::shared_ptr<XtHandle>> live;
};
Handles& TheHandles() {
  static auto* handles = new Handles;
  return *handles;
}

std::shared_ptr<XtHandle> Find(cublasXtHandle_t handle) {
  if (thin::IsForked()) return nullptr;
  std::lock_guard lock(TheHandles().mutex);
  auto found = TheHandles().live.find(handle);
  return found == TheHandles().live.end() ? nullptr : found->second;
}

cublasStatus_t StatusOf(CUresult result) {
  if (result == CUDA_SUCCESS) return CUBLAS_STATUS_SUCCESS;
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return CUBLAS_STATUS_ALLOC_FAILED;
  return result == CUDA_ERROR_INVALID_VALUE ? CUBLAS_STATUS_MAPPING_ERROR
                                            : CUBLAS_STATUS_EXECUTION_FAILED;
}

bool IsOnDevice(const void* pointer) {
  static const auto get = FARCALL_DRIVER(cuPointerGetAttribute);
  unsigned type = 0;
  return get(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(pointer)) ==
             CUDA_SUCCESS &&
         type == CU_MEMORYTYPE_DEVICE;
}

// The handle's context, for the time of a call.
class Entered {
 public:
  explicit Entered(CUcontext context) {
    static const auto push = FARCALL_DRIVER(cuCtxPushCurrent_v2);
    entered_ = push(context) == CUDA_SUCCESS;
  }
  Entered(const Entered&) = delete;
  ~Entered() {
    static const auto pop = FARCALL_DRIVER(cuCtxPopCurrent_v2);
    CUcontext context = nullptr;
    if (entered_) pop(&context);
  }
  bool ok() const { return entered_; }

 private:
  bool entered_;
};

// The computing was a post: what it came to is known when its stream has been waited for.
cublasStatus_t Wait(cublasHandle_t blas) {
  static const auto wait = FARCALL_DRIVER(cuStreamSynchronize);
  cublasStatus_t status = StatusOf(wait(nullptr));
  client::LibraryObject* object = thin::Find(blas, kKind_cublasHandle_t);
  uint16_t function = 0;
  int late = 0;
  if (object != nullptr && thin::Channel().take_late(object->id.load(), &function, &late))
    return static_cast<cublasStatus_t>(late);
  return status;
}

}  // namespace

XtMatrix::~XtMatrix() {
  static const auto release = FARCALL_DRIVER(cuMemFree_v2);
  if (copied_) release(reinterpret_cast<CUdeviceptr>(device_));
}

cublasStatus_t XtMatrix::Check() const {
  const bool fits = rows_ <= kMaxElements && columns_ <= kMaxElements && pitch_ <= kMaxElements &&
                    (columns_ == 0 || rows_ <= kMaxElements / columns_);
  if (!fits || pitch_ < std::max<size_t>(1, rows_)) return CUBLAS_STATUS_INVALID_VALUE;
  return caller_ == nullptr && rows_ * columns_ != 0 ? CUBLAS_STATUS_INVALID_VALUE
                                                     : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t XtMatrix::Copy(bool to_device) {
  static const auto copy = FARCALL_DRIVER(cuMemcpy2DUnaligned_v2);
  CUDA_MEMCPY2D box{};
  box.WidthInBytes = rows_ * element_bytes_;
  box.Height = columns_;
  box.srcMemoryType = to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  box.dstMemoryType = to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  box.srcHost = box.dstHost = caller_;
  box.srcDevice = box.dstDevice = reinterpret_cast<CUdeviceptr>(device_);
  box.srcPitch = (to_device ? pitch_ : rows_) * element_bytes_;
  box.dstPitch = (to_device ? rows_ : pitch_) * element_bytes_;
  return StatusOf(copy(&box));
}

cublasStatus_t XtMatrix::Place() {
  device_ = caller_;
  if (rows_ * columns_ == 0 || (use_ != Use::kScratch && IsOnDevice(caller_)))
    return CUBLAS_STATUS_SUCCESS;
  static const auto allocate = FARCALL_DRIVER(cuMemAlloc_v2);
  CUdeviceptr memory = 0;
  cublasStatus_t status = StatusOf(allocate(&memory, rows_ * columns_ * element_bytes_));
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  copied_ = true;
  device_ = reinterpret_cast<void*>(memory);
  return use_ == Use::kScratch ? CUBLAS_STATUS_SUCCESS : Copy(true);
}

cublasStatus_t XtMatrix::Return() {
  return copied_ && use_ == Use::kChanged ? Copy(false) : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t RunXt(cublasXtHandle_t handle, std::initializer_list<const void*> scalars,
                     std::initializer_list<XtMatrix*> matrices,
                     const std::function<cublasStatus_t(cublasHandle_t)>& compute) {
  std::shared_ptr<XtHandle> xt = Find(handle);
  if (xt == nullptr || xt->blas == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  if (std::any_of(scalars.begin(), scalars.end(), [](const void* s) { return s == nullptr; }))
    status = CUBLAS_STATUS_INVALID_VALUE;
  const auto each = [&](cublasStatus_t (XtMatrix::*step)()) {
    for (XtMatrix* matrix : matrices)
      if (status == CUBLAS_STATUS_SUCCESS) status = (matrix->*step)();
  };
  for (const XtMatrix* matrix : matrices)
    if (status == CUBLAS_STATUS_SUCCESS) status = matrix->Check();
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  std::lock_guard lock(xt->mutex);
  Entered entered(xt->context);
  if (!entered.ok()) return CUBLAS_STATUS_EXECUTION_FAILED;
  each(&XtMatrix::Place);
  if (status == CUBLAS_STATUS_SUCCESS) status = compute(xt->blas);
  if (status == CUBLAS_STATUS_SUCCESS) status = Wait(xt->blas);
  each(&XtMatrix::Return);
  return status;
}

namespace {

// All is computed on the first of the devices; the others have to be there.
cublasStatus_t Select(XtHandle& xt, int count, const int* devices) {
  static const auto get = FARCALL_DRIVER(cuDeviceGet);
  static const auto retain = FARCALL_DRIVER(cuDevicePrimaryCtxRetain);
  CUdevice first = 0, device = 0;
  for (int i = count - 1; i >= 0; --i) {
    if (get(&device, devices[i]) != CUDA_SUCCESS) return CUBLAS_STATUS_INVALID_VALUE;
    first = device;
  }
  if (xt.blas != nullptr) return CUBLAS_STATUS_INVALID_VALUE;  // selected before
  CUcontext context = nullptr;
  cublasStatus_t status = StatusOf(retain(&context, first));
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  xt.device = first;
  xt.context = context;
  Entered entered(context);
  return entered.ok() ? cublasCreate_v2(&xt.blas) : CUBLAS_STATUS_NOT_INITIALIZED;
}

bool IsRoutine(cublasXtBlasOp_t op, cublasXtOpType_t type) {
  return op >= 0 && op < CUBLASXT_ROUTINE_MAX && type >= 0 && type <= CUBLASXT_DOUBLECOMPLEX;
}

}  // namespace

}  // namespace farcall::cublas

using farcall::cublas::Find;
using farcall::cublas::TheHandles;
using farcall::cublas::XtHandle;

XT_ENTRY cublasXtCreate(cublasXtHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  int opened = farcall::thin::Open();
  if (opened != 0) return static_cast<cublasStatus_t>(opened);
  auto made = std::make_shared<XtHandle>();
  *handle = reinterpret_cast<cublasXtHandle_t>(made.get());
  std::lock_guard lock(TheHandles().mutex);
  TheHandles().live.emplace(made.get(), made);
  return CUBLAS_STATUS_SUCCESS;
}

XT_ENTRY cublasXtDestroy(cublasXtHandle_t handle) {
  std::shared_ptr<XtHandle> xt = Find(handle);
  if (xt == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  {
    std::lock_guard lock(TheHandles().mutex);
    TheHandles().live.erase(handle);
  }
  std::lock_guard lock(xt->mutex);
  if (xt->blas == nullptr) return CUBLAS_STATUS_SUCCESS;
  cublasStatus_t status = cublasDestroy_v2(xt->blas);
  xt->blas = nullptr;
  static const auto release = FARCALL_DRIVER(cuDevicePrimaryCtxRelease_v2);
  release(xt->device);
  return status;
}

XT_ENTRY cublasXtDeviceSelect(cublasXtHandle_t handle, int nbDevices, int deviceId[]) {
  std::shared_ptr<XtHandle> xt = Find(handle);
  if (xt == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (nbDevices <= 0 || deviceId == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  std::lock_guard lock(xt->mutex);
  return farcall::cublas::Select(*xt, nbDevices, deviceId);
}

XT_ENTRY cublasXtGetNumBoards(int nbDevices, int deviceId[], int* nbBoards) {
  if (nbDevices <= 0 || deviceId == nullptr || nbBoards == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  int opened = farcall::thin::Open();
  if (opened != 0) return static_cast<cublasStatus_t>(opened);
  static const auto get = FARCALL_DRIVER(cuDeviceGet);
  for (int i = 0; i < nbDevices; ++i) {
    CUdevice device = 0;
    if (get(&device, deviceId[i]) != CUDA_SUCCESS) return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::sort(deviceId, deviceId + nbDevices);
  *nbBoards = static_cast<int>(std::unique(deviceId, deviceId + nbDevices) - deviceId);
  return CUBLAS_STATUS_SUCCESS;
}

// One is as many as compute.
XT_ENTRY cublasXtMaxBoards(int* nbGpuBoards) {
  if (nbGpuBoards == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *nbGpuBoards = 1;
  return CUBLAS_STATUS_SUCCESS;
}

// Kept and told: matrices are not cut into blocks.
XT_ENTRY cublasXtSetBlockDim(cublasXtHandle_t handle, int blockDim) {
  std::shared_ptr<XtHandle> xt = Find(handle);
  if (xt == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (blockDim <= 0) return CUBLAS_STATUS_INVALID_VALUE;
  xt->block = blockDim;
  return CUBLAS_STATUS_SUCCESS;
}

XT_ENTRY cublasXtGetBlockDim(cublasXtHandle_t handle, int* blockDim) {
  std::shared_ptr<XtHandle> xt = Find(handle);
  if (xt == nullptr || blockDim == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *blockDim = xt->block;
  return CUBLAS_STATUS_SUCCESS;
}

XT_ENTRY cublasXtSetPinningMemMode(cublasXtHandle_t handle, cublasXtPinnedMemMode_t mode) {
  std::shared_ptr<XtHandle> xt = Find(handle);
  if (xt == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (mode != CUBLASXT_PINNING_DISABLED && mode != CUBLASXT_PINNING_ENABLED)
    return CUBLAS_STATUS_INVALID_VALUE;
  xt->pinning = mode;
  return CUBLAS_STATUS_SUCCESS;
}

XT_ENTRY cublasXtGetPinningMemMode(cublasXtHandle_t handle, cublasXtPinnedMemMode_t* mode) {
  std::shared_ptr<XtHandle> xt = Find(handle);
  if (xt == nullptr || mode == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *mode = xt->pinning;
  return CUBLAS_STATUS_SUCCESS;
}

// Only a product is shared with the processor, and how much of it changes no value: all of it is
// computed on the device.
XT_ENTRY cublasXtSetCpuRoutine(cublasXtHandle_t handle, cublasXtBlasOp_t blasOp,
                               cublasXtOpType_t type, void*) {
  if (Find(handle) == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!farcall::cublas::IsRoutine(blasOp, type)) return CUBLAS_STATUS_INVALID_VALUE;
  return blasOp == CUBLASXT_GEMM ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

XT_ENTRY cublasXtSetCpuRatio(cublasXtHandle_t handle, cublasXtBlasOp_t blasOp,
                             cublasXtOpType_t type, float) {
  return cublasXtSetCpuRoutine(handle, blasOp, type, nullptr);
}
