// SPDX-License-Identifier: Apache-2.0
// What a node does: from CUDA's structures, onto the wire, and back. The partner is
// server/calls/graph/graph_params.cc.
#include <algorithm>
#include <cstring>

#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/handles.h"
#include "client-shim/cuda/launch/launch_pack.h"
#include "client-shim/cuda/objects/graph_memory.h"
#include "client-shim/cuda/state/graph_model.h"
#include "client-shim/cuda/state/memory.h"
#include "client-shim/cuda/state/mirror.h"
#include "client-shim/cuda/state/module.h"

namespace farcall::client {

namespace {

constexpr unsigned kMaxMemOps = 256;
constexpr size_t kMaxAccesses = 1024;  // more than there are devices
constexpr unsigned kMaxBodies = 4096;

// ---- From the application

CUresult MakeKernel(const CUDA_KERNEL_NODE_PARAMS_v3& params, GraphWork* work) {
  CUDA_KERNEL_NODE_PARAMS_v3& kernel = work->given.kernel;
  uint64_t handle = params.func != nullptr ? Wire(params.func) : Wire(params.kern);
  const Function* function = farcall::client::FindFunction(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (params.func == nullptr && params.ctx != nullptr && FindContext(params.ctx) == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  LaunchShape shape = {{params.gridDimX, params.gridDimY, params.gridDimZ},
                       {params.blockDimX, params.blockDimY, params.blockDimZ},
                       params.sharedMemBytes};
  CUresult status = CheckLaunchOf(*function, shape);
  if (status != CUDA_SUCCESS) return status;
  work->kernel_bytes.resize(function->info->parameter_bytes);
  status =
      PackParameters(*function->info, params.kernelParams, params.extra, work->kernel_bytes.data());
  if (status != CUDA_SUCCESS) return status;
  ExposeParameters(*function->info, work->kernel_bytes.data());
  for (const Parameter& parameter : function->info->parameters)
    work->kernel_values.push_back(work->kernel_bytes.data() + parameter.offset);
  kernel = params;
  // Told again in the form in which they were given.
  const bool as_buffer = params.kernelParams == nullptr && params.extra != nullptr;
  work->kernel_size = work->kernel_bytes.size();
  work->kernel_extra = {CU_LAUNCH_PARAM_BUFFER_POINTER, work->kernel_bytes.data(),
                        CU_LAUNCH_PARAM_BUFFER_SIZE, &work->kernel_size, CU_LAUNCH_PARAM_END};
  kernel.kernelParams = as_buffer ? nullptr : work->kernel_values.data();
  kernel.extra = as_buffer ? work->kernel_extra.data() : nullptr;
  if (kernel.ctx == nullptr) kernel.ctx = AsCuda(CurrentContext());
  return CUDA_SUCCESS;
}

CUresult MakeMemset(const CUDA_MEMSET_NODE_PARAMS_v2& set) {
  uint64_t row = 0, bytes = 0;
  unsigned size = set.elementSize;
  if ((size != 1 && size != 2 && size != 4) || set.width == 0 || set.height == 0 ||
      set.dst % size != 0 || __builtin_mul_overflow(set.width, size, &row) ||
      __builtin_mul_overflow(set.height - 1, set.pitch, &bytes) ||
      __builtin_add_overflow(bytes, row, &bytes) || (set.height > 1 && set.pitch < row))
    return CUDA_ERROR_INVALID_VALUE;
  return IsDeviceRange(set.dst, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// A side as the device is to see it: device memory from the box's first byte, or an array.
struct Side {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  uint64_t x, y, z, pitch, height;
};

CUresult MakeSide(const CUDA_MEMCPY3D& copy, Side side, bool to_host, GraphWork* work, Side* made) {
  *made = side;
  if (side.type == CU_MEMORYTYPE_ARRAY) {
    return CheckHandle(HandleKind::kArray, Wire(side.array)) ? CUDA_SUCCESS
                                                             : CUDA_ERROR_INVALID_VALUE;
  }
  if (side.type != CU_MEMORYTYPE_HOST && side.type != CU_MEMORYTYPE_DEVICE &&
      side.type != CU_MEMORYTYPE_UNIFIED)
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t base = side.type == CU_MEMORYTYPE_HOST ? Wire(side.host) : side.device;
  bool on_device = SideOnDevice(side.type, base);
  HostCopy box;
  box.to_host = to_host;
  box.width = copy.WidthInBytes;
  box.height = copy.Height;
  box.depth = copy.Depth;
  box.pitch = side.pitch == 0 ? copy.WidthInBytes + side.x : side.pitch;
  uint64_t height = side.height == 0 ? copy.Height + side.y : side.height;
  constexpr uint64_t kLimit = 1ull << 40;
  if (base == 0 || box.width > kLimit || box.height > kLimit || box.depth > kLimit ||
      box.pitch > kLimit || height > kLimit || box.pitch < box.width || height < box.height ||
      side.x > kLimit || side.y > kLimit || side.z > kLimit ||
      __builtin_mul_overflow(box.pitch, height, &box.slice) ||
      (box.depth > 1 && box.slice > kLimit))
    return CUDA_ERROR_INVALID_VALUE;
  box.host = base + (side.z * height + side.y) * box.pitch + side.x;
  *made = {CU_MEMORYTYPE_DEVICE, nullptr, box.host, nullptr, 0, 0, 0, box.pitch, height};
  if (on_device)
    return IsDeviceRange(box.host, box.extent()) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  CUresult status = MakeGraphMirror(&box);
  if (status != CUDA_SUCCESS) return status;
  made->device = box.mirror->address + (box.host - box.mirror->host);
  work->copies.push_back(std::make_shared<HostCopy>(box));
  return CUDA_SUCCESS;
}

CUresult MakeCopy(const CUDA_MEMCPY_NODE_PARAMS& params, GraphWork* work) {
  const CUDA_MEMCPY3D& copy = params.copyParams;
  if (params.flags != 0 || copy.WidthInBytes == 0 || copy.Height == 0 || copy.Depth == 0)
    return CUDA_ERROR_INVALID_VALUE;
  Side src, dst;
  CUresult status =
      MakeSide(copy,
               {copy.srcMemoryType, copy.srcHost, copy.srcDevice, copy.srcArray, copy.srcXInBytes,
                copy.srcY, copy.srcZ, copy.srcPitch, copy.srcHeight},
               false, work, &src);
  if (status != CUDA_SUCCESS) return status;
  status = MakeSide(copy,
                    {copy.dstMemoryType, copy.dstHost, copy.dstDevice, copy.dstArray,
                     copy.dstXInBytes, copy.dstY, copy.dstZ, copy.dstPitch, copy.dstHeight},
                    true, work, &dst);
  if (status != CUDA_SUCCESS) return status;
  CUDA_MEMCPY3D& made = work->device_copy;
  made = copy;
  made.srcMemoryType = src.type;
  made.srcDevice = src.device;
  made.srcArray = src.array;
  made.srcXInBytes = src.x;
  made.srcY = src.y;
  made.srcZ = src.z;
  made.srcPitch = src.pitch;
  made.srcHeight = src.height;
  made.dstMemoryType = dst.type;
  made.dstDevice = dst.device;
  made.dstArray = dst.array;
  made.dstXInBytes = dst.x;
  made.dstY = dst.y;
  made.dstZ = dst.z;
  made.dstPitch = dst.pitch;
  made.dstHeight = dst.height;
  return CUDA_SUCCESS;
}

CUresult MakeMemOps(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2& params, GraphWork* work) {
  if (params.count > kMaxMemOps || (params.count != 0 && params.paramArray == nullptr) ||
      params.flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  work->mem_ops.assign(params.paramArray, params.paramArray + params.count);
  for (const CUstreamBatchMemOpParams& op : work->mem_ops) {
    bool wide = op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                op.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    bool narrow = op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
                  op.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32;
    if (op.operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES) continue;
    if (!wide && !narrow) return CUDA_ERROR_NOT_SUPPORTED;
    unsigned bytes = wide ? 8 : 4;
    if (op.waitValue.address % bytes != 0 || !IsDeviceRange(op.waitValue.address, bytes))
      return CUDA_ERROR_INVALID_VALUE;
  }
  work->given.memOp.paramArray = work->mem_ops.data();
  return CUDA_SUCCESS;
}

CUresult MakeAllocation(const CUDA_MEM_ALLOC_NODE_PARAMS_v2& params, Graph* graph,
                        GraphWork* work) {
  const CUmemPoolProps& props = params.poolProps;
  if (props.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      props.handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
      props.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      (params.accessDescCount != 0 && params.accessDescs == nullptr) ||
      params.accessDescCount > kMaxAccesses)
    return CUDA_ERROR_INVALID_VALUE;
  if (props.location.id != CurrentContext()->device) return CUDA_ERROR_NOT_SUPPORTED;
  CUresult status = GraphMemory::Make(params.bytesize, &work->memory);
  if (status != CUDA_SUCCESS) return status;
  work->memory->owner = graph;
  work->memory->props = props;
  work->accesses.assign(params.accessDescs, params.accessDescs + params.accessDescCount);
  work->given.alloc.accessDescs = work->accesses.data();
  work->given.alloc.dptr = work->memory->address;
  return CUDA_SUCCESS;
}

// In the owning graph or in another one, and once.
CUresult MakeFree(CUdeviceptr address, const Graph* graph, GraphWork* work) {
  work->memory = GraphMemory::Find(address);
  if (work->memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Graph *before = work->memory->freed_by, *owner = work->memory->owner;
  if (before != nullptr && (before == graph || before == owner || owner == graph))
    return CUDA_ERROR_INVALID_VALUE;
  work->memory->freed_by = graph;
  return CUDA_SUCCESS;
}

CUresult MakeChild(const CUDA_CHILD_GRAPH_NODE_PARAMS& params, const Graph* graph,
                   GraphWork* work) {
  std::shared_ptr<Graph> child = FindGraph(params.graph);
  if (child == nullptr || child.get() == graph) return CUDA_ERROR_INVALID_VALUE;
  if (params.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) return CUDA_ERROR_NOT_SUPPORTED;
  if (params.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE || child->capturing ||
      child->has_memory() || child->Any(CU_GRAPH_NODE_TYPE_CONDITIONAL))
    return CUDA_ERROR_INVALID_VALUE;
  work->inside = CopyOfWork(*child);
  return CUDA_SUCCESS;
}

CUresult MakeConditional(const CUDA_CONDITIONAL_NODE_PARAMS& params) {
  unsigned most = params.type == CU_GRAPH_COND_TYPE_WHILE ? 1
                  : params.type == CU_GRAPH_COND_TYPE_IF  ? 2
                                                          : kMaxBodies;
  bool sound = params.handle != 0 && params.type >= 0 && params.type <= CU_GRAPH_COND_TYPE_SWITCH &&
               params.size != 0 && params.size <= most &&
               (params.ctx == nullptr || FindContext(params.ctx) != nullptr);
  return sound ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// ---- On the wire

void PutSide(Builder* body, CUmemorytype type, CUdeviceptr device, CUarray array,
             std::initializer_list<uint64_t> rest) {
  body->Put<uint32_t>(type);
  body->Put<uint32_t>(0);
  body->Put<uint64_t>(type == CU_MEMORYTYPE_ARRAY ? Wire(array) : device);
  for (uint64_t field : rest) body->Put<uint64_t>(field);
}

void PutCopy(Builder* body, const CUDA_MEMCPY3D& copy) {
  PutSide(body, copy.srcMemoryType, copy.srcDevice, copy.srcArray,
          {copy.srcXInBytes, copy.srcY, copy.srcZ, copy.srcPitch, copy.srcHeight});
  PutSide(body, copy.dstMemoryType, copy.dstDevice, copy.dstArray,
          {copy.dstXInBytes, copy.dstY, copy.dstZ, copy.dstPitch, copy.dstHeight});
  body->Put<uint64_t>(copy.WidthInBytes);
  body->Put<uint64_t>(copy.Height);
  body->Put<uint64_t>(copy.Depth);
}

void PutKernel(Builder* body, const GraphWork& work) {
  const CUDA_KERNEL_NODE_PARAMS_v3& kernel = work.given.kernel;
  body->Put<uint64_t>(kernel.func != nullptr ? Wire(kernel.func) : Wire(kernel.kern));
  for (unsigned field : {kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ, kernel.blockDimX,
                         kernel.blockDimY, kernel.blockDimZ, kernel.sharedMemBytes})
    body->Put<uint32_t>(field);
  body->PutBytes(work.kernel_bytes.data(), work.kernel_bytes.size());
}

void PutMemOps(Builder* body, const GraphWork& work) {
  body->Put<uint64_t>(work.mem_ops.size());
  for (const CUstreamBatchMemOpParams& op : work.mem_ops) {
    bool flush = op.operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
    body->Put<uint32_t>(op.operation);
    body->Put<uint32_t>(flush ? op.flushRemoteWrites.flags : op.waitValue.flags);
    body->Put<uint64_t>(flush ? 0 : op.waitValue.address);
    body->Put<uint64_t>(flush ? 0 : op.waitValue.value64);
  }
}

// ---- From the wire

struct TakenSide {
  uint32_t type;
  uint64_t base, x, y, z, pitch, height;
};

TakenSide TakeSide(Reader* in) {
  TakenSide side{};
  side.type = in->Get<uint32_t>();
  in->Get<uint32_t>();
  for (uint64_t* field : {&side.base, &side.x, &side.y, &side.z, &side.pitch, &side.height})
    *field = in->Get<uint64_t>();
  // A mirror stands for host memory.
  if (side.type == CU_MEMORYTYPE_DEVICE || side.type == CU_MEMORYTYPE_UNIFIED) {
    uint64_t host = HostOfMirror(side.base);
    side.type = host != 0 ? static_cast<uint32_t>(CU_MEMORYTYPE_HOST) : side.type;
    side.base = host != 0 ? host : side.base;
  }
  return side;
}

void TakeCopy(Reader* in, CUDA_MEMCPY3D* copy) {
  TakenSide src = TakeSide(in), dst = TakeSide(in);
  copy->srcMemoryType = static_cast<CUmemorytype>(src.type);
  copy->dstMemoryType = static_cast<CUmemorytype>(dst.type);
  if (src.type == CU_MEMORYTYPE_HOST) copy->srcHost = AsHandle<void*>(src.base);
  if (dst.type == CU_MEMORYTYPE_HOST) copy->dstHost = AsHandle<void*>(dst.base);
  if (src.type == CU_MEMORYTYPE_ARRAY) copy->srcArray = AsHandle<CUarray>(src.base);
  if (dst.type == CU_MEMORYTYPE_ARRAY) copy->dstArray = AsHandle<CUarray>(dst.base);
  if (src.type == CU_MEMORYTYPE_DEVICE || src.type == CU_MEMORYTYPE_UNIFIED)
    copy->srcDevice = src.base;
  if (dst.type == CU_MEMORYTYPE_DEVICE || dst.type == CU_MEMORYTYPE_UNIFIED)
    copy->dstDevice = dst.base;
  copy->srcXInBytes = src.x;
  copy->srcY = src.y;
  copy->srcZ = src.z;
  copy->srcPitch = src.pitch;
  copy->srcHeight = src.height;
  copy->dstXInBytes = dst.x;
  copy->dstY = dst.y;
  copy->dstZ = dst.z;
  copy->dstPitch = dst.pitch;
  copy->dstHeight = dst.height;
  copy->WidthInBytes = in->Get<uint64_t>();
  copy->Height = in->Get<uint64_t>();
  copy->Depth = in->Get<uint64_t>();
}

CUresult TakeKernel(Reader* in, GraphWork* work) {
  CUDA_KERNEL_NODE_PARAMS_v3& kernel = work->given.kernel;
  auto handle = in->Get<uint64_t>();
  for (unsigned* field : {&kernel.gridDimX, &kernel.gridDimY, &kernel.gridDimZ, &kernel.blockDimX,
                          &kernel.blockDimY, &kernel.blockDimZ, &kernel.sharedMemBytes})
    *field = in->Get<uint32_t>();
  std::span<const std::byte> bytes = in->GetBytes();
  const Function* function = farcall::client::FindFunction(handle);
  if (function == nullptr || bytes.size() < function->info->parameter_bytes)
    return CUDA_ERROR_UNKNOWN;
  // A kernel may stand in a function's place; the runtime knows it by both.
  kernel.func = AsHandle<CUfunction>(handle);
  if (SplitHandle(handle).kind == HandleKind::kKernel) kernel.kern = AsHandle<CUkernel>(handle);
  if (function->kernel != nullptr) kernel.kern = AsHandle<CUkernel>(function->kernel->handle);
  work->kernel_bytes.assign(bytes.begin(), bytes.end());
  for (const Parameter& parameter : function->info->parameters)
    work->kernel_values.push_back(work->kernel_bytes.data() + parameter.offset);
  kernel.kernelParams = work->kernel_values.data();
  kernel.ctx = AsCuda(CurrentContext());
  return CUDA_SUCCESS;
}

void TakeMemset(Reader* in, CUDA_MEMSET_NODE_PARAMS_v2* set) {
  set->dst = in->Get<uint64_t>();
  set->pitch = in->Get<uint64_t>();
  set->value = in->Get<uint32_t>();
  set->elementSize = in->Get<uint32_t>();
  set->width = in->Get<uint64_t>();
  set->height = in->Get<uint64_t>();
}

void TakeMemOps(Reader* in, GraphWork* work) {
  size_t count = in->GetCount(24);
  for (size_t i = 0; i < count; ++i) {
    CUstreamBatchMemOpParams op{};
    op.operation = static_cast<CUstreamBatchMemOpType>(in->Get<uint32_t>());
    op.waitValue.flags = in->Get<uint32_t>();
    op.waitValue.address = in->Get<uint64_t>();
    op.waitValue.value64 = in->Get<uint64_t>();
    work->mem_ops.push_back(op);
  }
  work->given.memOp.ctx = AsCuda(CurrentContext());
  work->given.memOp.count = static_cast<unsigned>(count);
  work->given.memOp.paramArray = work->mem_ops.data();
}

}  // namespace

CUresult MakeWork(const CUgraphNodeParams& params, Graph* graph, GraphWork* work) {
  work->given = params;
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return MakeKernel(params.kernel, work);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return MakeCopy(params.memcpy, work);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return MakeMemset(params.memset);
    case CU_GRAPH_NODE_TYPE_HOST:
      if (params.host.fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
      work->host_function = RegisterGraphFunction(params.host.fn, params.host.userData);
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return MakeChild(params.graph, graph, work);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return CheckHandle(HandleKind::kEvent, Wire(params.eventWait.event))
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_INVALID_HANDLE;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return MakeMemOps(params.memOp, work);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return MakeAllocation(params.alloc, graph, work);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return MakeFree(params.free.dptr, graph, work);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return MakeConditional(params.conditional);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return NotSupported(CallId::cuGraphAddNode_v2);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

void PutWork(Builder* body, const GraphWork& work) {
  const CUgraphNodeParams& given = work.given;
  // Memory is there beforehand: such a node only keeps its place.
  bool memory =
      given.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || given.type == CU_GRAPH_NODE_TYPE_MEM_FREE;
  body->Put<uint32_t>(memory ? CU_GRAPH_NODE_TYPE_EMPTY : given.type);
  body->Put<uint32_t>(0);
  switch (given.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return PutKernel(body, work);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return PutCopy(body, work.device_copy);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      body->Put<uint64_t>(given.memset.dst);
      body->Put<uint64_t>(given.memset.pitch);
      body->Put<uint32_t>(given.memset.value);
      body->Put<uint32_t>(given.memset.elementSize);
      body->Put<uint64_t>(given.memset.width);
      body->Put<uint64_t>(given.memset.height);
      return;
    case CU_GRAPH_NODE_TYPE_HOST:
      return body->Put<uint64_t>(work.host_function);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return body->Put<uint64_t>(Wire(given.graph.graph));
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return body->Put<uint64_t>(Wire(given.eventWait.event));
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return PutMemOps(body, work);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      body->Put<uint64_t>(given.conditional.handle);
      body->Put<uint32_t>(given.conditional.type);
      body->Put<uint64_t>(work.bodies.size());
      for (CUgraph inner : work.bodies) body->Put<uint64_t>(Wire(inner));
      return;
    default:
      return;
  }
}

CUresult TakeWork(Reader* in, GraphWork* work) {
  CUgraphNodeParams& given = work->given;
  given = {};
  given.type = static_cast<CUgraphNodeType>(in->Get<uint32_t>());
  in->Get<uint32_t>();
  CUresult status = CUDA_SUCCESS;
  switch (given.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      status = TakeKernel(in, work);
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      given.memcpy.copyCtx = AsCuda(CurrentContext());
      TakeCopy(in, &given.memcpy.copyParams);
      break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      given.memset.ctx = AsCuda(CurrentContext());
      TakeMemset(in, &given.memset);
      break;
    case CU_GRAPH_NODE_TYPE_HOST: {
      CUDA_HOST_NODE_PARAMS_v2 host{};
      work->host_function = in->Get<uint64_t>();
      if (!FindGraphFunction(work->host_function, &host)) status = CUDA_ERROR_UNKNOWN;
      given.host = host;
      break;
    }
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      given.eventWait.event = AsHandle<CUevent>(in->Get<uint64_t>());
      break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      TakeMemOps(in, work);
      break;
    default:
      break;
  }
  if (!in->Done()) return CUDA_ERROR_UNKNOWN;
  work->known = status == CUDA_SUCCESS;
  return status;
}

}  // namespace farcall::client
