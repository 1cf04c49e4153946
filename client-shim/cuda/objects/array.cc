// SPDX-License-Identifier: Apache-2.0
// Arrays and mipmaps: made by the server's driver, described from what is known here.
#include "client-shim/cuda/objects/array.h"

#include <mutex>

#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/handles.h"
#include "client-shim/cuda/objects/physical_memory.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

uint64_t HandleOf(CUarray array) {
  return reinterpret_cast<uint64_t>(array);
}
uint64_t HandleOf(CUmipmappedArray array) {
  return reinterpret_cast<uint64_t>(array);
}

void PutShape(Builder& body, const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  body.Put<uint64_t>(shape.Width);
  body.Put<uint64_t>(shape.Height);
  body.Put<uint64_t>(shape.Depth);
  body.Put<uint32_t>(shape.Format);
  body.Put<uint32_t>(shape.NumChannels);
  body.Put<uint32_t>(shape.Flags);
}

bool GetShape(const Reply& reply, CUDA_ARRAY3D_DESCRIPTOR* shape) {
  Reader outputs = reply.outputs();
  shape->Width = outputs.Get<uint64_t>();
  shape->Height = outputs.Get<uint64_t>();
  shape->Depth = outputs.Get<uint64_t>();
  shape->Format = static_cast<CUarray_format>(outputs.Get<uint32_t>());
  shape->NumChannels = outputs.Get<uint32_t>();
  shape->Flags = outputs.Get<uint32_t>();
  return outputs.Done();
}

// An array under a new handle; the object of an older one in its slot is used anew, as others may
// still look at it.
Array* NewArray(HandleKind kind) {
  uint64_t handle = Handles(kind).New(nullptr);
  if (handle == 0) return nullptr;
  auto* array = FormerObject<Array>(kind, handle);
  if (array == nullptr) array = new Array;
  *array = {};
  array->handle = handle;
  array->context = CurrentContext();
  Handles(kind).SetObject(handle, array);
  return array;
}

// Sends what makes `array`, whose shape comes back.
CUresult Create(CallId call, HandleKind kind, Array* array, std::span<const std::byte> body) {
  Reply reply;
  CUresult status = RoundTrip(call, body, &reply);
  if (status == CUDA_SUCCESS && !GetShape(reply, &array->shape)) status = CUDA_ERROR_UNKNOWN;
  if (status != CUDA_SUCCESS) Handles(kind).Free(array->handle);
  return status;
}

// What was mapped to the array may be released once the server says that it is gone.
void LetGo(std::vector<PhysicalMemory*>* backing) {
  std::lock_guard lock(UserRanges().mutex());
  for (PhysicalMemory* memory : *backing) {
    --memory->mappings;
    ReleaseIfUnused(memory);
  }
  backing->clear();
}

CUresult Destroy(CallId call, HandleKind kind, Array* array) {
  uint64_t handle = array->handle;
  FixedBody<8> body;
  body.Put<uint64_t>(handle);
  CUresult status =
      array->backing.empty() ? Post(call, body.bytes()) : RoundTrip(call, body.bytes(), nullptr);
  LetGo(&array->backing);
  Handles(HandleKind::kArray).FreeIf([handle](void* object) {
    return object != nullptr && static_cast<Array*>(object)->parent == handle;
  });
  Handles(kind).Free(handle);
  return status;
}

// A level of a mipmap, a plane of an array: asked for once, then known by `index`.
CUresult GetPart(CallId call, Array* parent, unsigned index, CUarray* part) {
  static auto* mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  auto known = parent->parts.find(index);
  if (known != parent->parts.end()) {
    *part = reinterpret_cast<CUarray>(known->second);
    return CUDA_SUCCESS;
  }
  Array* array = NewArray(HandleKind::kArray);
  if (array == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  Builder body;
  body.Put<uint64_t>(array->handle);
  body.Put<uint64_t>(parent->handle);
  body.Put<uint32_t>(index);
  CUresult status = Create(call, HandleKind::kArray, array, body.bytes());
  if (status != CUDA_SUCCESS) return status;
  array->parent = parent->handle;
  parent->parts[index] = array->handle;
  *part = reinterpret_cast<CUarray>(array->handle);
  return CUDA_SUCCESS;
}

CUresult GetSparse(CallId call, uint64_t handle, CUDA_ARRAY_SPARSE_PROPERTIES* properties) {
  FixedBody<8> body;
  body.Put<uint64_t>(handle);
  Reply reply;
  CUresult status = RoundTrip(call, body.bytes(), &reply);
  if (status != CUDA_SUCCESS) return status;
  Reader outputs = reply.outputs();
  CUDA_ARRAY_SPARSE_PROPERTIES found{};
  found.tileExtent.width = outputs.Get<uint32_t>();
  found.tileExtent.height = outputs.Get<uint32_t>();
  found.tileExtent.depth = outputs.Get<uint32_t>();
  found.miptailFirstLevel = outputs.Get<uint32_t>();
  found.miptailSize = outputs.Get<uint64_t>();
  found.flags = outputs.Get<uint32_t>();
  if (!outputs.Done()) return CUDA_ERROR_UNKNOWN;
  *properties = found;
  return CUDA_SUCCESS;
}

uint64_t AtLeastOne(uint64_t extent) {
  return extent == 0 ? 1 : extent;
}

bool Within(uint64_t at, uint64_t extent, uint64_t limit) {
  return at <= limit && extent <= limit - at;
}

}  // namespace

Array* FindArray(CUarray array) {
  return FindObject<Array>(HandleKind::kArray, HandleOf(array));
}

Array* FindMipmappedArray(CUmipmappedArray array) {
  return FindObject<Array>(HandleKind::kMipmappedArray, HandleOf(array));
}

uint64_t ElementBytes(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  switch (shape.Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return shape.NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2 * shape.NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4 * shape.NumChannels;
    default:
      return 0;
  }
}

bool HoldsBox(const Array& array, uint64_t x_bytes, uint64_t y, uint64_t z, uint64_t width_bytes,
              uint64_t height, uint64_t depth) {
  uint64_t element = ElementBytes(array.shape);
  if (element == 0) return true;  // the driver looks
  return x_bytes % element == 0 && width_bytes % element == 0 &&
         Within(x_bytes, width_bytes, array.shape.Width * element) &&
         Within(y, height, AtLeastOne(array.shape.Height)) &&
         Within(z, depth, AtLeastOne(array.shape.Depth));
}

void DropContextArrays(Context* context) {
  for (HandleKind kind : {HandleKind::kArray, HandleKind::kMipmappedArray}) {
    Handles(kind).FreeIf([context](void* object) {
      return object != nullptr && static_cast<Array*>(object)->context == context;
    });
  }
}

CUresult Call_cuArray3DCreate_v2(CUarray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pAllocateArray) {
  if (pHandle == nullptr || pAllocateArray == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Array* array = NewArray(HandleKind::kArray);
  if (array == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  Builder body;
  body.Put<uint64_t>(array->handle);
  PutShape(body, *pAllocateArray);
  CUresult status = Create(CallId::cuArray3DCreate_v2, HandleKind::kArray, array, body.bytes());
  if (status == CUDA_SUCCESS) *pHandle = reinterpret_cast<CUarray>(array->handle);
  return status;
}

CUresult Call_cuArrayCreate_v2(CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR* pAllocateArray) {
  if (pAllocateArray == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = pAllocateArray->Width;
  shape.Height = pAllocateArray->Height;
  shape.Format = pAllocateArray->Format;
  shape.NumChannels = pAllocateArray->NumChannels;
  return Call_cuArray3DCreate_v2(pHandle, &shape);
}

CUresult Call_cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* pArrayDescriptor, CUarray hArray) {
  Array* array = FindArray(hArray);
  if (pArrayDescriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *pArrayDescriptor = array->shape;
  return CUDA_SUCCESS;
}

CUresult Call_cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* pArrayDescriptor, CUarray hArray) {
  Array* array = FindArray(hArray);
  if (pArrayDescriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *pArrayDescriptor = {array->shape.Width, array->shape.Height, array->shape.Format,
                       array->shape.NumChannels};
  return CUDA_SUCCESS;
}

CUresult Call_cuArrayDestroy(CUarray hArray) {
  Array* array = FindArray(hArray);
  // A level or a plane goes with the whole.
  if (array == nullptr || array->parent != 0) return CUDA_ERROR_INVALID_HANDLE;
  return Destroy(CallId::cuArrayDestroy, HandleKind::kArray, array);
}

CUresult Call_cuArrayGetPlane(CUarray* pPlaneArray, CUarray hArray, unsigned int planeIdx) {
  Array* array = FindArray(hArray);
  if (pPlaneArray == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return GetPart(CallId::cuArrayGetPlane, array, planeIdx, pPlaneArray);
}

CUresult Call_cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* sparseProperties,
                                         CUarray array) {
  Array* found = FindArray(array);
  if (sparseProperties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if ((found->shape.Flags & CUDA_ARRAY3D_SPARSE) == 0) return CUDA_ERROR_INVALID_VALUE;
  return GetSparse(CallId::cuArrayGetSparseProperties, found->handle, sparseProperties);
}

CUresult Call_cuMipmappedArrayCreate(CUmipmappedArray* pHandle,
                                     const CUDA_ARRAY3D_DESCRIPTOR* pMipmappedArrayDesc,
                                     unsigned int numMipmapLevels) {
  if (pHandle == nullptr || pMipmappedArrayDesc == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Array* array = NewArray(HandleKind::kMipmappedArray);
  if (array == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  Builder body;
  body.Put<uint64_t>(array->handle);
  PutShape(body, *pMipmappedArrayDesc);
  body.Put<uint32_t>(numMipmapLevels);
  CUresult status =
      Create(CallId::cuMipmappedArrayCreate, HandleKind::kMipmappedArray, array, body.bytes());
  if (status == CUDA_SUCCESS) *pHandle = reinterpret_cast<CUmipmappedArray>(array->handle);
  return status;
}

CUresult Call_cuMipmappedArrayGetLevel(CUarray* pLevelArray, CUmipmappedArray hMipmappedArray,
                                       unsigned int level) {
  Array* array = FindMipmappedArray(hMipmappedArray);
  if (pLevelArray == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return GetPart(CallId::cuMipmappedArrayGetLevel, array, level, pLevelArray);
}

CUresult Call_cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
  Array* array = FindMipmappedArray(hMipmappedArray);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return Destroy(CallId::cuMipmappedArrayDestroy, HandleKind::kMipmappedArray, array);
}

CUresult Call_cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* sparseProperties,
                                                  CUmipmappedArray mipmap) {
  Array* found = FindMipmappedArray(mipmap);
  if (sparseProperties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if ((found->shape.Flags & CUDA_ARRAY3D_SPARSE) == 0) return CUDA_ERROR_INVALID_VALUE;
  return GetSparse(CallId::cuMipmappedArrayGetSparseProperties, found->handle, sparseProperties);
}

// ---- Copies of one row: a box with an array at one end or both.

namespace {

struct RowCopy {
  CUDA_MEMCPY3D copy{};
  explicit RowCopy(size_t bytes) {
    copy.WidthInBytes = bytes;
    copy.Height = copy.Depth = 1;
  }
  RowCopy& FromArray(CUarray array, size_t offset) {
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = array;
    copy.srcXInBytes = offset;
    return *this;
  }
  RowCopy& ToArray(CUarray array, size_t offset) {
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array;
    copy.dstXInBytes = offset;
    return *this;
  }
  RowCopy& FromHost(const void* host) {
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = host;
    return *this;
  }
  RowCopy& ToHost(void* host) {
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = host;
    return *this;
  }
  RowCopy& FromDevice(CUdeviceptr address) {
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = address;
    return *this;
  }
  RowCopy& ToDevice(CUdeviceptr address) {
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = address;
    return *this;
  }
};

}  // namespace

CUresult Call_cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void* srcHost,
                              size_t ByteCount, CUstream default_stream) {
  return Call_cuMemcpy3D_v2(&RowCopy(ByteCount).FromHost(srcHost).ToArray(dstArray, dstOffset).copy,
                            default_stream);
}

CUresult Call_cuMemcpyAtoH_v2(void* dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount,
                              CUstream default_stream) {
  return Call_cuMemcpy3D_v2(&RowCopy(ByteCount).FromArray(srcArray, srcOffset).ToHost(dstHost).copy,
                            default_stream);
}

CUresult Call_cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void* srcHost,
                                   size_t ByteCount, CUstream hStream) {
  return Call_cuMemcpy3DAsync_v2(
      &RowCopy(ByteCount).FromHost(srcHost).ToArray(dstArray, dstOffset).copy, hStream);
}

CUresult Call_cuMemcpyAtoHAsync_v2(void* dstHost, CUarray srcArray, size_t srcOffset,
                                   size_t ByteCount, CUstream hStream) {
  return Call_cuMemcpy3DAsync_v2(
      &RowCopy(ByteCount).FromArray(srcArray, srcOffset).ToHost(dstHost).copy, hStream);
}

CUresult Call_cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice,
                              size_t ByteCount, CUstream default_stream) {
  return Call_cuMemcpy3D_v2(
      &RowCopy(ByteCount).FromDevice(srcDevice).ToArray(dstArray, dstOffset).copy, default_stream);
}

CUresult Call_cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset,
                              size_t ByteCount, CUstream default_stream) {
  return Call_cuMemcpy3D_v2(
      &RowCopy(ByteCount).FromArray(srcArray, srcOffset).ToDevice(dstDevice).copy, default_stream);
}

CUresult Call_cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray,
                              size_t srcOffset, size_t ByteCount, CUstream default_stream) {
  return Call_cuMemcpy3D_v2(
      &RowCopy(ByteCount).FromArray(srcArray, srcOffset).ToArray(dstArray, dstOffset).copy,
      default_stream);
}

// ---- Shapes of 32 bits

CUresult Call_cuArrayCreate(CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR_v1* pAllocateArray) {
  if (pAllocateArray == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY_DESCRIPTOR shape = {pAllocateArray->Width, pAllocateArray->Height,
                                 pAllocateArray->Format, pAllocateArray->NumChannels};
  return Call_cuArrayCreate_v2(pHandle, &shape);
}

CUresult Call_cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR_v1* pArrayDescriptor, CUarray hArray) {
  CUDA_ARRAY_DESCRIPTOR shape{};
  CUresult status =
      Call_cuArrayGetDescriptor_v2(pArrayDescriptor == nullptr ? nullptr : &shape, hArray);
  if (status != CUDA_SUCCESS) return status;
  *pArrayDescriptor = {static_cast<unsigned>(shape.Width), static_cast<unsigned>(shape.Height),
                       shape.Format, shape.NumChannels};
  return CUDA_SUCCESS;
}

CUresult Call_cuArray3DCreate(CUarray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1* pAllocateArray) {
  if (pAllocateArray == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR shape = {pAllocateArray->Width,       pAllocateArray->Height,
                                   pAllocateArray->Depth,       pAllocateArray->Format,
                                   pAllocateArray->NumChannels, pAllocateArray->Flags};
  return Call_cuArray3DCreate_v2(pHandle, &shape);
}

CUresult Call_cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR_v1* pArrayDescriptor, CUarray hArray) {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  CUresult status =
      Call_cuArray3DGetDescriptor_v2(pArrayDescriptor == nullptr ? nullptr : &shape, hArray);
  if (status != CUDA_SUCCESS) return status;
  *pArrayDescriptor = {static_cast<unsigned>(shape.Width),
                       static_cast<unsigned>(shape.Height),
                       static_cast<unsigned>(shape.Depth),
                       shape.Format,
                       shape.NumChannels,
                       shape.Flags};
  return CUDA_SUCCESS;
}

}  // namespace farcall::client
