// SPDX-License-Identifier: Apache-2.0
// User objects, and the memory of graphs.
#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/graph/graph_memory.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/graph.h"

namespace farcall::cpu_device {
namespace {

CUresult Find(CUuserObject handle, std::shared_ptr<UserObject>* object) {
  if (const CUresult result = CheckInitialized()) return result;
  *object = TheDriver().user_objects.Find(handle);
  return *object == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult EnterDevice(CUdevice ordinal, const void* value) {
  if (const CUresult result = CheckInitialized()) return result;
  if (FindDevice(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return value == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuUserObjectCreate(CUuserObject* out, void* pointer, CUhostFn destroy,
                            unsigned int references, unsigned int flags) {
  if (const CUresult result = CheckInitialized()) return result;
  if (out == nullptr || destroy == nullptr || references == 0 ||
      flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  auto object = std::make_shared<UserObject>(destroy, pointer, references);
  *out = object->handle();
  TheDriver().user_objects.Add(std::move(object));
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count) {
  std::shared_ptr<UserObject> object;
  if (const CUresult result = Find(handle, &object)) return result;
  if (count == 0) return CUDA_ERROR_INVALID_VALUE;
  object->Retain(count);
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count) {
  std::shared_ptr<UserObject> object;
  if (const CUresult result = Find(handle, &object)) return result;
  return count != 0 && object->Release(count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphRetainUserObject(CUgraph graph_handle, CUuserObject handle, unsigned int count,
                                 unsigned int flags) {
  std::shared_ptr<UserObject> object;
  if (const CUresult result = Find(handle, &object)) return result;
  const std::shared_ptr<Graph> graph = TheDriver().graphs.Find(graph_handle);
  if (graph == nullptr || count == 0 || flags > CU_GRAPH_USER_OBJECT_MOVE)
    return CUDA_ERROR_INVALID_VALUE;
  // A move hands the caller's references over; else the graph gets its own.
  if (flags != CU_GRAPH_USER_OBJECT_MOVE) object->Retain(count);
  graph->user_objects.Take(object, count);
  return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph_handle, CUuserObject handle, unsigned int count) {
  std::shared_ptr<UserObject> object;
  if (const CUresult result = Find(handle, &object)) return result;
  const std::shared_ptr<Graph> graph = TheDriver().graphs.Find(graph_handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (count == 0 || !graph->user_objects.Drop(object, count)) return CUDA_ERROR_INVALID_VALUE;
  return object->Release(count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                      void* value) {
  if (const CUresult result = EnterDevice(device, value)) return result;
  return GetGraphMemoryAttribute(device, attribute, static_cast<cuuint64_t*>(value));
}

// High watermarks only, and only to what they have come down to.
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                      void* value) {
  if (const CUresult result = EnterDevice(device, value)) return result;
  if (*static_cast<const cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
  return ResetGraphMemoryAttribute(device, attribute);
}

// Memory is given back with its last graph: nothing is kept.
CUresult cuDeviceGraphMemTrim(CUdevice device) {
  return EnterDevice(device, &device);
}

}  // extern "C"
