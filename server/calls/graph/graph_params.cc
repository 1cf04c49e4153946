// SPDX-License-Identifier: Apache-2.0
// A graph node's parameters on the wire: {u32 type, u32 0} and what the type has. The partner is
// client-shim/cuda/graph/graph_wire.cc.
#include <cstring>

#include "generated/server/driver_api.h"
#include "server/calls/graph/graph.h"
#include "server/state/objects/context_state.h"
#include "server/state/session.h"

namespace farcall::server {

namespace {

constexpr size_t kMaxParameterBytes = 32768;
constexpr size_t kMaxMemOps = 256;
constexpr size_t kMaxBodies = 4096;

// One side of a copy: {u32 memory type, u32 0, u64 address or array, u64 x, y, z, pitch, height};
// the address of device memory is the box's first byte.
struct Side {
  uint32_t type = 0;
  uint64_t base = 0, x = 0, y = 0, z = 0, pitch = 0, height = 0;
};

Side DecodeSide(Reader& in) {
  Side side;
  side.type = in.Get<uint32_t>();
  in.Get<uint32_t>();
  for (uint64_t* field : {&side.base, &side.x, &side.y, &side.z, &side.pitch, &side.height})
    *field = in.Get<uint64_t>();
  return side;
}

void EncodeSide(Builder& out, const Side& side) {
  out.Put<uint32_t>(side.type);
  out.Put<uint32_t>(0);
  for (uint64_t field : {side.base, side.x, side.y, side.z, side.pitch, side.height})
    out.Put<uint64_t>(field);
}

void DecodeCopy(ServeCall& call, CUDA_MEMCPY3D* copy) {
  Side src = DecodeSide(call.in), dst = DecodeSide(call.in);
  copy->srcMemoryType = static_cast<CUmemorytype>(src.type);
  copy->srcDevice = src.base;
  copy->srcXInBytes = src.x;
  copy->srcY = src.y;
  copy->srcZ = src.z;
  copy->srcPitch = src.pitch;
  copy->srcHeight = src.height;
  copy->dstMemoryType = static_cast<CUmemorytype>(dst.type);
  copy->dstDevice = dst.base;
  copy->dstXInBytes = dst.x;
  copy->dstY = dst.y;
  copy->dstZ = dst.z;
  copy->dstPitch = dst.pitch;
  copy->dstHeight = dst.height;
  copy->WidthInBytes = call.in.Get<uint64_t>();
  copy->Height = call.in.Get<uint64_t>();
  copy->Depth = call.in.Get<uint64_t>();
}

void EncodeCopy(ServeCall& call, const CUDA_MEMCPY3D& copy) {
  bool from_host = copy.srcMemoryType == CU_MEMORYTYPE_HOST;
  bool to_host = copy.dstMemoryType == CU_MEMORYTYPE_HOST;
  Side src{copy.srcMemoryType, from_host ? 0 : copy.srcDevice,
           copy.srcXInBytes,   copy.srcY,
           copy.srcZ,          copy.srcPitch,
           copy.srcHeight};
  Side dst{copy.dstMemoryType, to_host ? 0 : copy.dstDevice,
           copy.dstXInBytes,   copy.dstY,
           copy.dstZ,          copy.dstPitch,
           copy.dstHeight};
  if (copy.srcMemoryType == CU_MEMORYTYPE_ARRAY)
    src.base = NameOf(call.session, HandleKind::kArray, copy.srcArray);
  if (copy.dstMemoryType == CU_MEMORYTYPE_ARRAY)
    dst.base = NameOf(call.session, HandleKind::kArray, copy.dstArray);
  EncodeSide(call.out, src);
  EncodeSide(call.out, dst);
  call.out.Put<uint64_t>(copy.WidthInBytes);
  call.out.Put<uint64_t>(copy.Height);
  call.out.Put<uint64_t>(copy.Depth);
}

// From a box's first byte to behind its last; false if that wraps or no pitch can hold it.
bool Extent(const CUDA_MEMCPY3D& copy, uint64_t pitch, uint64_t height, uint64_t* bytes) {
  uint64_t rows = 0;
  return copy.WidthInBytes != 0 && copy.Height != 0 && copy.Depth != 0 &&
         pitch >= copy.WidthInBytes && (copy.Depth == 1 || height >= copy.Height) &&
         !__builtin_mul_overflow(copy.Depth - 1, height, &rows) &&
         !__builtin_add_overflow(rows, copy.Height - 1, &rows) &&
         !__builtin_mul_overflow(rows, pitch, bytes) &&
         !__builtin_add_overflow(*bytes, copy.WidthInBytes, bytes);
}

// Device memory inside the session's own, or one of its arrays; never host memory of the server's.
void ResolveSide(ServeCall& call, const CUDA_MEMCPY3D& copy, CUmemorytype type, CUdeviceptr* base,
                 CUarray* array, bool offset, uint64_t pitch, uint64_t height) {
  uint64_t bytes = 0;
  if (type == CU_MEMORYTYPE_ARRAY) {
    *array = call.Resolve<CUarray>(HandleKind::kArray, *base);
    *base = 0;
  } else if (type != CU_MEMORYTYPE_DEVICE || offset || !Extent(copy, pitch, height, &bytes)) {
    call.Reject("a copy that is no box of device memory");
  } else {
    call.ResolveAddress(*base, bytes);
  }
}

void ResolveCopy(ServeCall& call, CUDA_MEMCPY3D* copy) {
  ResolveSide(call, *copy, copy->srcMemoryType, &copy->srcDevice, &copy->srcArray,
              (copy->srcXInBytes | copy->srcY | copy->srcZ) != 0, copy->srcPitch, copy->srcHeight);
  ResolveSide(call, *copy, copy->dstMemoryType, &copy->dstDevice, &copy->dstArray,
              (copy->dstXInBytes | copy->dstY | copy->dstZ) != 0, copy->dstPitch, copy->dstHeight);
}

void DecodeKernel(ServeCall& call, NodeParams* params) {
  CUDA_KERNEL_NODE_PARAMS_v3& kernel = params->native.kernel;
  params->kernel = call.in.Get<uint64_t>();
  for (unsigned* field : {&kernel.gridDimX, &kernel.gridDimY, &kernel.gridDimZ, &kernel.blockDimX,
                          &kernel.blockDimY, &kernel.blockDimZ, &kernel.sharedMemBytes})
    *field = call.in.Get<uint32_t>();
  params->kernel_params = call.in.GetBytes();
}

void ResolveKernel(ServeCall& call, NodeParams* params) {
  CUDA_KERNEL_NODE_PARAMS_v3& kernel = params->native.kernel;
  bool is_kernel = SplitHandle(params->kernel).kind == HandleKind::kKernel;
  HandleKind kind = is_kernel ? HandleKind::kKernel : HandleKind::kFunction;
  void* native = call.Resolve<void*>(kind, params->kernel);
  if (native == nullptr || !call.ready()) return;
  auto* state = static_cast<FunctionState*>(call.ResolveExtra(kind, params->kernel));
  params->kernel_param_bytes = params->kernel_params.size();
  if (state != nullptr && state->parameter_bytes != FunctionState::kUnknown &&
      params->kernel_param_bytes < state->parameter_bytes) {
    call.result = CUDA_ERROR_INVALID_VALUE;
    call.detail = "a kernel node with too few bytes of parameters";
    return;
  }
  if (is_kernel) {
    kernel.kern = static_cast<CUkernel>(native);
    kernel.ctx = call.context->native;
  } else {
    kernel.func = static_cast<CUfunction>(native);
  }
  // The driver copies the buffer before it returns.
  params->extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
  params->extra[1] = const_cast<std::byte*>(params->kernel_params.data());
  params->extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
  params->extra[3] = &params->kernel_param_bytes;
  params->extra[4] = CU_LAUNCH_PARAM_END;
  kernel.extra = params->extra;
}

void DecodeMemset(ServeCall& call, CUDA_MEMSET_NODE_PARAMS_v2* set) {
  set->dst = call.in.Get<uint64_t>();
  set->pitch = call.in.Get<uint64_t>();
  set->value = call.in.Get<uint32_t>();
  set->elementSize = call.in.Get<uint32_t>();
  set->width = call.in.Get<uint64_t>();
  set->height = call.in.Get<uint64_t>();
}

void ResolveMemset(ServeCall& call, CUDA_MEMSET_NODE_PARAMS_v2* set) {
  uint64_t row = 0, bytes = 0;
  bool sound = set->height != 0 && !__builtin_mul_overflow(set->width, set->elementSize, &row) &&
               !__builtin_mul_overflow(set->height - 1, set->pitch, &bytes) &&
               !__builtin_add_overflow(bytes, row, &bytes);
  if (!sound) return call.Reject("a memset node that wraps");
  call.ResolveAddress(set->dst, bytes);
  set->ctx = call.context->native;
}

// {count, {u32 operation, u32 flags, u64 address, u64 value}}
bool DecodeMemOps(ServeCall& call, NodeParams* params) {
  size_t count = call.in.GetCount(24);
  if (count > kMaxMemOps) return false;
  for (size_t i = 0; i < count; ++i) {
    CUstreamBatchMemOpParams op{};
    op.operation = static_cast<CUstreamBatchMemOpType>(call.in.Get<uint32_t>());
    op.waitValue.flags = call.in.Get<uint32_t>();
    op.waitValue.address = call.in.Get<uint64_t>();
    op.waitValue.value64 = call.in.Get<uint64_t>();
    params->mem_ops.push_back(op);
  }
  return true;
}

void ResolveMemOps(ServeCall& call, NodeParams* params) {
  for (CUstreamBatchMemOpParams& op : params->mem_ops) {
    unsigned flags = op.waitValue.flags;
    switch (op.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        call.ResolveAddress(op.waitValue.address, 4);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        call.ResolveAddress(op.waitValue.address, 8);
        break;
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: {
        CUstreamBatchMemOpType kind = op.operation;
        op = {};
        op.flushRemoteWrites.operation = kind;
        op.flushRemoteWrites.flags = flags;
        break;
      }
      default:
        call.result = CUDA_ERROR_NOT_SUPPORTED;
        break;
    }
  }
  params->native.memOp.ctx = call.context->native;
  params->native.memOp.count = static_cast<unsigned>(params->mem_ops.size());
  params->native.memOp.paramArray = params->mem_ops.data();
}

bool DecodeConditional(ServeCall& call, NodeParams* params) {
  CUDA_CONDITIONAL_NODE_PARAMS& conditional = params->native.conditional;
  conditional.handle = call.in.Get<uint64_t>();
  conditional.type = static_cast<CUgraphConditionalNodeType>(call.in.Get<uint32_t>());
  size_t count = call.in.GetCount(8);
  conditional.size = static_cast<unsigned>(count);
  for (size_t i = 0; i < count && i < kMaxBodies; ++i)
    params->new_graphs.push_back(call.in.Get<uint64_t>());
  return count <= kMaxBodies;
}

// The bytes of a kernel node's parameters, by the layout the driver tells.
CUresult CollectKernelParams(ServeCall& call, const CUDA_KERNEL_NODE_PARAMS_v2& kernel,
                             std::vector<std::byte>* bytes) {
  if (kernel.kernelParams == nullptr && kernel.extra != nullptr) {
    const void* buffer = nullptr;
    size_t size = 0;
    for (void** at = kernel.extra; *at != CU_LAUNCH_PARAM_END; at += 2)
      if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER)
        buffer = at[1];
      else if (*at == CU_LAUNCH_PARAM_BUFFER_SIZE)
        size = *static_cast<const size_t*>(at[1]);
      else
        return CUDA_ERROR_NOT_SUPPORTED;
    const auto* start = static_cast<const std::byte*>(buffer);
    bytes->assign(start, start + (buffer == nullptr ? 0 : size));
    return CUDA_SUCCESS;
  }
  for (size_t i = 0;; ++i) {
    size_t offset = 0, size = 0;
    CUresult known = kernel.func != nullptr
                         ? call.api.cuFuncGetParamInfo(kernel.func, i, &offset, &size)
                         : call.api.cuKernelGetParamInfo(kernel.kern, i, &offset, &size);
    if (known == CUDA_ERROR_INVALID_VALUE) return CUDA_SUCCESS;  // past the last
    if (known != CUDA_SUCCESS) return known;
    bytes->resize(std::max(bytes->size(), offset + size));
    std::memcpy(bytes->data() + offset, kernel.kernelParams[i], size);
  }
}

// A library's kernel is launched by its own name; the driver may tell the function it is there.
uint64_t NameOfKernel(ServeCall& call, const CUDA_KERNEL_NODE_PARAMS_v2& kernel) {
  uint64_t name =
      kernel.kern == nullptr ? 0 : NameOf(call.session, HandleKind::kKernel, kernel.kern);
  if (name == 0 && kernel.func != nullptr)
    name = NameOf(call.session, HandleKind::kFunction, kernel.func);
  if (name != 0 || kernel.func == nullptr || call.api.cuKernelGetFunction == nullptr) return name;
  call.session.table(HandleKind::kKernel)
      .ForEachLive([&](uint32_t index, uint16_t generation, void* object, void*) {
        CUfunction function = nullptr;
        CUresult known = call.api.cuKernelGetFunction(&function, static_cast<CUkernel>(object));
        if (known == CUDA_SUCCESS && function == kernel.func)
          name = MakeHandle(HandleKind::kKernel, index, generation);
      });
  return name;
}

CUresult EncodeKernel(ServeCall& call, CUgraphNode node) {
  CUDA_KERNEL_NODE_PARAMS_v2 kernel{};
  if (call.api.cuGraphKernelNodeGetParams_v2 == nullptr || call.api.cuFuncGetParamInfo == nullptr ||
      call.api.cuKernelGetParamInfo == nullptr)
    return CUDA_ERROR_NOT_SUPPORTED;
  CUresult result = call.api.cuGraphKernelNodeGetParams_v2(node, &kernel);
  std::vector<std::byte> bytes;
  if (result == CUDA_SUCCESS) result = CollectKernelParams(call, kernel, &bytes);
  if (result != CUDA_SUCCESS) return result;
  uint64_t name = NameOfKernel(call, kernel);
  call.out.Put<uint64_t>(name);
  for (unsigned field : {kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ, kernel.blockDimX,
                         kernel.blockDimY, kernel.blockDimZ, kernel.sharedMemBytes})
    call.out.Put<uint32_t>(field);
  call.out.PutBytes(bytes.data(), bytes.size());
  return CUDA_SUCCESS;
}

CUresult EncodeMemset(ServeCall& call, CUgraphNode node) {
  CUDA_MEMSET_NODE_PARAMS set{};
  CUresult result = call.api.cuGraphMemsetNodeGetParams(node, &set);
  call.out.Put<uint64_t>(set.dst);
  call.out.Put<uint64_t>(set.pitch);
  call.out.Put<uint32_t>(set.value);
  call.out.Put<uint32_t>(set.elementSize);
  call.out.Put<uint64_t>(set.width);
  call.out.Put<uint64_t>(set.height);
  return result;
}

CUresult EncodeMemOps(ServeCall& call, CUgraphNode node) {
  CUDA_BATCH_MEM_OP_NODE_PARAMS ops{};
  if (call.api.cuGraphBatchMemOpNodeGetParams == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  CUresult result = call.api.cuGraphBatchMemOpNodeGetParams(node, &ops);
  unsigned count = result == CUDA_SUCCESS ? ops.count : 0;
  call.out.Put<uint64_t>(count);
  for (unsigned i = 0; i < count; ++i) {
    const CUstreamBatchMemOpParams& op = ops.paramArray[i];
    call.out.Put<uint32_t>(op.operation);
    call.out.Put<uint32_t>(op.waitValue.flags);
    call.out.Put<uint64_t>(op.waitValue.address);
    call.out.Put<uint64_t>(op.waitValue.value64);
  }
  return result;
}

}  // namespace

bool DecodeParams(ServeCall& call, NodeParams* params) {
  CUgraphNodeParams& native = params->native;
  native.type = static_cast<CUgraphNodeType>(call.in.Get<uint32_t>());
  call.in.Get<uint32_t>();
  switch (native.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      DecodeKernel(call, params);
      return params->kernel_params.size() <= kMaxParameterBytes;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      DecodeCopy(call, &native.memcpy.copyParams);
      return true;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      DecodeMemset(call, &native.memset);
      return true;
    case CU_GRAPH_NODE_TYPE_HOST:
      params->host_function = call.in.Get<uint64_t>();
      return true;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      native.graph.graph = reinterpret_cast<CUgraph>(call.in.Get<uint64_t>());
      return true;
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return true;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      native.eventWait.event = reinterpret_cast<CUevent>(call.in.Get<uint64_t>());
      return true;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return DecodeMemOps(call, params);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return DecodeConditional(call, params);
    default:
      return false;
  }
}

void ResolveParams(ServeCall& call, NodeParams* params) {
  CUgraphNodeParams& native = params->native;
  switch (native.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return ResolveKernel(call, params);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      native.memcpy.copyCtx = call.context->native;
      return ResolveCopy(call, &native.memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return ResolveMemset(call, &native.memset);
    case CU_GRAPH_NODE_TYPE_HOST:
      native.host = GraphHostFunction(call.session, params->host_function);
      return;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      native.graph.graph =
          call.Resolve<CUgraph>(HandleKind::kGraph, reinterpret_cast<uint64_t>(native.graph.graph));
      return;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      native.eventWait.event = call.Resolve<CUevent>(
          HandleKind::kEvent, reinterpret_cast<uint64_t>(native.eventWait.event));
      return;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return ResolveMemOps(call, params);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      native.conditional.ctx = call.context->native;
      return;
    default:
      return;
  }
}

void EncodeParams(ServeCall& call, CUgraphNode node) {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  call.result = call.api.cuGraphNodeGetType(node, &type);
  call.out.Put<uint32_t>(type);
  call.out.Put<uint32_t>(0);
  if (call.result != CUDA_SUCCESS) return;
  CUevent event = nullptr;
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      call.result = EncodeKernel(call, node);
      return;
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      CUDA_MEMCPY3D copy{};
      call.result = call.api.cuGraphMemcpyNodeGetParams(node, &copy);
      EncodeCopy(call, copy);
      return;
    }
    case CU_GRAPH_NODE_TYPE_MEMSET:
      call.result = EncodeMemset(call, node);
      return;
    case CU_GRAPH_NODE_TYPE_HOST: {
      CUDA_HOST_NODE_PARAMS host{};
      call.result = call.api.cuGraphHostNodeGetParams(node, &host);
      call.out.Put<uint64_t>(GraphHostFunctionOf(host.fn, host.userData));
      return;
    }
    case CU_GRAPH_NODE_TYPE_GRAPH:
      call.out.Put<uint64_t>(0);
      return;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      call.result = call.api.cuGraphEventWaitNodeGetEvent(node, &event);
      break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      call.result = call.api.cuGraphEventRecordNodeGetEvent(node, &event);
      break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      call.result = EncodeMemOps(call, node);
      return;
    default:
      return;
  }
  call.out.Put<uint64_t>(NameOf(call.session, HandleKind::kEvent, event));
}

}  // namespace farcall::server
