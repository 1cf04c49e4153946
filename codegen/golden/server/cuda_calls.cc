// SPDX-License-Identifier: Apache-2.0
// Generated from cuda.h and codegen/spec/cuda/: decode, check, resolve, call, encode. Partner: client/cuda_calls.cc.
#include <string>
#include <vector>

#include "generated/proto/cuda_structs.h"
#include "proto/cuda/extent.h"
#include "generated/server/driver_api.h"
#include "generated/server/handwritten.h"
#include "server/state/serve.h"

namespace farcall::server {
namespace {

// Handles whose kind the record itself says, among those allowed.
template <typename Native>
Native ResolveAny(ServeCall& call, uint64_t wire, std::initializer_list<HandleKind> kinds) {
  for (HandleKind kind : kinds) {
    if (SplitHandle(wire).kind == kind) { return call.Resolve<Native>(kind, wire); }
  }
  return call.Resolve<Native>(*kinds.begin(), wire);  // of no allowed kind: a lie, which Resolve reports
}

template <typename Native>
std::vector<Native> ResolveAll(ServeCall& call, HandleKind kind, const std::vector<uint64_t>& wires) {
  std::vector<Native> natives;
  natives.reserve(wires.size());
  for (uint64_t wire : wires) { natives.push_back(call.Resolve<Native>(kind, wire)); }
  return natives;
}

[[maybe_unused]] std::vector<uint64_t> GetHandles(Reader& in) {
  std::vector<uint64_t> wires(in.GetCount(sizeof(uint64_t)));
  for (uint64_t& wire : wires) { wire = in.Get<uint64_t>(); }
  return wires;
}

template <typename Function>
bool Has(ServeCall& call, Function* function) {
  if (function == nullptr) { call.result = CUDA_ERROR_NOT_SUPPORTED; }
  return function != nullptr;
}

// Addresses inside the record: only the session's own, unless the field is unused.
void ResolveFields(ServeCall& call, CUaccessPolicyWindow_st* value) {
  if (value->base_ptr != nullptr || value->num_bytes != 0) {
    call.ResolveAddress(reinterpret_cast<uint64_t>(value->base_ptr), value->num_bytes);
  }
}

}  // namespace

Status Serve_cuCtxGetLimit(ServeCall& call) {
  const CUlimit limit = static_cast<CUlimit>(call.in.Get<int32_t>());
  if (!call.in.Done()) { return call.Malformed("body"); }
  if (!Has(call, call.api.cuCtxGetLimit)) { return Status(); }
  size_t pvalue{};
  call.result = call.api.cuCtxGetLimit(&pvalue, limit);
  if (call.result != CUDA_SUCCESS) { return Status(); }
  call.out.Put<uint64_t>(pvalue);
  return Status();
}

Status Serve_cuCtxGetStreamPriorityRange(ServeCall& call) {
  if (!call.in.Done()) { return call.Malformed("body"); }
  if (!Has(call, call.api.cuCtxGetStreamPriorityRange)) { return Status(); }
  int leastPriority{};
  int greatestPriority{};
  call.result = call.api.cuCtxGetStreamPriorityRange(&leastPriority, &greatestPriority);
  if (call.result != CUDA_SUCCESS) { return Status(); }
  call.out.Put<int32_t>(leastPriority);
  call.out.Put<int32_t>(greatestPriority);
  return Status();
}

Status Serve_cuProfilerStart(ServeCall& call) {
  if (!call.in.Done()) { return call.Malformed("body"); }
  if (!Has(call, call.api.cuProfilerStart)) { return Status(); }
  call.result = call.api.cuProfilerStart();
  return Status();
}

Status Serve_cuMemcpyDtoDAsync_v2(ServeCall& call) {
  const uint64_t wire_dstDevice = call.in.Get<uint64_t>();
  const uint64_t wire_srcDevice = call.in.Get<uint64_t>();
  const size_t ByteCount = call.in.Get<uint64_t>();
  const uint64_t wire_hStream = call.in.Get<uint64_t>();
  if (!call.in.Done()) { return call.Malformed("body"); }
  if (!Has(call, call.api.cuMemcpyDtoDAsync_v2)) { return Status(); }
  const CUdeviceptr dstDevice = call.ResolveAddress(wire_dstDevice, ByteCount);
  const CUdeviceptr srcDevice = call.ResolveAddress(wire_srcDevice, ByteCount);
  const CUstream hStream = call.ResolveStream(wire_hStream);
  if (!call.ready()) { return call.RejectStatus(); }
  call.result = call.api.cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, hStream);
  return Status();
}

Status Serve_cuMemsetD2D16Async(ServeCall& call) {
  const uint64_t wire_dstDevice = call.in.Get<uint64_t>();
  const size_t dstPitch = call.in.Get<uint64_t>();
  const unsigned short us = call.in.Get<uint16_t>();
  const size_t Width = call.in.Get<uint64_t>();
  const size_t Height = call.in.Get<uint64_t>();
  const uint64_t wire_hStream = call.in.Get<uint64_t>();
  if (!call.in.Done()) { return call.Malformed("body"); }
  if (!Has(call, call.api.cuMemsetD2D16Async)) { return Status(); }
  const CUdeviceptr dstDevice = call.ResolveAddress(
      wire_dstDevice, Pitched(dstPitch, Product(Width, 2), Height));
  const CUstream hStream = call.ResolveStream(wire_hStream);
  if (!call.ready()) { return call.RejectStatus(); }
  call.result = call.api.cuMemsetD2D16Async(dstDevice, dstPitch, us, Width, Height, hStream);
  return Status();
}

Status Serve_cuStreamCreateWithPriority(ServeCall& call) {
  const uint64_t wire_phStream = call.in.Get<uint64_t>();
  const unsigned int flags = call.in.Get<uint32_t>();
  const int priority = call.in.Get<int32_t>();
  if (!call.in.Done()) { return call.Malformed("body"); }
  if (!Has(call, call.api.cuStreamCreateWithPriority)) { return Status(); }
  call.CheckNew(HandleKind::kStream, wire_phStream);
  if (!call.ready()) { return call.RejectStatus(); }
  CUstream phStream = nullptr;
  call.result = call.api.cuStreamCreateWithPriority(&phStream, flags, priority);
  if (call.result == CUDA_SUCCESS) {
    call.Insert(HandleKind::kStream, wire_phStream, phStream);
  }
  return Status();
}

Status Serve_cuStreamDestroy_v2(ServeCall& call) {
  const uint64_t wire_hStream = call.in.Get<uint64_t>();
  if (!call.in.Done()) { return call.Malformed("body"); }
  if (!Has(call, call.api.cuStreamDestroy_v2)) { return Status(); }
  const auto hStream = call.Resolve<CUstream>(HandleKind::kStream, wire_hStream);
  if (!call.ready()) { return call.RejectStatus(); }
  call.Erase(HandleKind::kStream, wire_hStream);
  call.result = call.api.cuStreamDestroy_v2(hStream);
  return Status();
}

Status Serve_cuKernelGetFunction(ServeCall& call) {
  const uint64_t wire_pFunc = call.in.Get<uint64_t>();
  const uint64_t wire_kernel = call.in.Get<uint64_t>();
  if (!call.in.Done()) { return call.Malformed("body"); }
  if (!Has(call, call.api.cuKernelGetFunction)) { return Status(); }
  call.CheckNew(HandleKind::kFunction, wire_pFunc);
  const auto kernel = call.Resolve<CUkernel>(HandleKind::kKernel, wire_kernel);
  if (!call.ready()) { return call.RejectStatus(); }
  CUfunction pFunc = nullptr;
  call.result = call.api.cuKernelGetFunction(&pFunc, kernel);
  if (call.result == CUDA_SUCCESS) {
    call.Insert(HandleKind::kFunction, wire_pFunc, pFunc);
  }
  return Status();
}

Status Serve_cuOccupancyMaxActiveBlocksPerMultiprocessor(ServeCall& call) {
  const uint64_t wire_func = call.in.Get<uint64_t>();
  const int blockSize = call.in.Get<int32_t>();
  const size_t dynamicSMemSize = call.in.Get<uint64_t>();
  if (!call.in.Done()) { return call.Malformed("body"); }
  if (!Has(call, call.api.cuOccupancyMaxActiveBlocksPerMultiprocessor)) { return Status(); }
  const auto func = ResolveAny<CUfunction>(call, wire_func,
                                           {HandleKind::kFunction, HandleKind::kKernel});
  if (!call.ready()) { return call.RejectStatus(); }
  int numBlocks{};
  call.result = call.api.cuOccupancyMaxActiveBlocksPerMultiprocessor(
      &numBlocks, func, blockSize, dynamicSMemSize);
  if (call.result != CUDA_SUCCESS) { return Status(); }
  call.out.Put<int32_t>(numBlocks);
  return Status();
}

Status Serve_cuStreamSetAttribute(ServeCall& call) {
  const uint64_t wire_hStream = call.in.Get<uint64_t>();
  const CUstreamAttrID attr = static_cast<CUstreamAttrID>(call.in.Get<int32_t>());
  CUstreamAttrValue param{};
  if (!Decode(call.in, attr, &param)) { call.in.Fail(); }
  if (!call.in.Done()) { return call.Malformed("body"); }
  if (!Has(call, call.api.cuStreamSetAttribute)) { return Status(); }
  const CUstream hStream = call.ResolveStream(wire_hStream);
  if (attr == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW) {
    ResolveFields(call, &param.accessPolicyWindow);
  }
  if (!call.ready()) { return call.RejectStatus(); }
  call.result = call.api.cuStreamSetAttribute(hStream, attr, &param);
  return Status();
}

Status Serve_cuGraphExecUpdate_v2(ServeCall& call) {
  if (!call.in.Done()) { return call.Malformed("body"); }
  if (!Has(call, call.api.cuGraphExecUpdate_v2)) { return Status(); }
  call.result = call.api.cuGraphExecUpdate_v2();
  return Status();
}

Status Serve_cuGraphAddEmptyNode(ServeCall& call) {
  if (!call.in.Done()) { return call.Malformed("body"); }
  if (!Has(call, call.api.cuGraphAddEmptyNode)) { return Status(); }
  call.result = call.api.cuGraphAddEmptyNode();
  return Status();
}

}  // namespace farcall::server
