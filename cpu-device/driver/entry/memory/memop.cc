// SPDX-License-Identifier: Apache-2.0
// Values written and waited for in stream order.
#include "cpu-device/driver/state/memop.h"

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/op.h"
#include "cpu-device/driver/state/stream.h"

namespace farcall::cpu_device {
namespace {

CUresult Submit(CUstream handle, const CUstreamBatchMemOpParams* ops, unsigned count) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  const std::shared_ptr<Stream> stream = context->FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult result = CheckMemOps(*context, ops, count)) return result;
  bool waits = false;
  for (unsigned i = 0; i < count; ++i) {
    waits |= ops[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
             ops[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
  }
  return SubmitOp(*stream, MemOp{{ops, ops + count}}, waits ? How::kQueue : How::kInlineIfIdle);
}

CUstreamBatchMemOpParams WaitFor(CUstreamBatchMemOpType operation, CUdeviceptr address,
                                 cuuint64_t value, unsigned flags) {
  CUstreamBatchMemOpParams op{};
  op.waitValue.operation = operation;
  op.waitValue.address = address;
  op.waitValue.value64 = value;
  op.waitValue.flags = flags;
  return op;
}

CUstreamBatchMemOpParams Written(CUstreamBatchMemOpType operation, CUdeviceptr address,
                                 cuuint64_t value, unsigned flags) {
  CUstreamBatchMemOpParams op{};
  op.writeValue.operation = operation;
  op.writeValue.address = address;
  op.writeValue.value64 = value;
  op.writeValue.flags = flags;
  return op;
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                unsigned int flags) {
  const auto op = WaitFor(CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags);
  return Submit(stream, &op, 1);
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                unsigned int flags) {
  const auto op = WaitFor(CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags);
  return Submit(stream, &op, 1);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                 unsigned int flags) {
  const auto op = Written(CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags);
  return Submit(stream, &op, 1);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                 unsigned int flags) {
  const auto op = Written(CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags);
  return Submit(stream, &op, 1);
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* ops,
                               unsigned int flags) {
  return flags != 0 ? CUDA_ERROR_INVALID_VALUE : Submit(stream, ops, count);
}

}  // extern "C"
