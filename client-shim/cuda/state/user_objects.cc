// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cuda/state/user_objects.h"

#include <atomic>

#include "client-shim/core/host_functions.h"
#include "client-shim/core/session/handles.h"
#include "client-shim/core/session/session.h"
#include "client-shim/cuda/state/graph_model.h"
#include "generated/client/calls.h"

namespace farcall::client {

struct UserObject {
  CUhostFn destroy = nullptr;
  void* pointer = nullptr;
  uint64_t handle = 0;
  std::atomic<unsigned> references{0};
};

namespace {

struct Table {
  std::mutex mutex;
  std::unordered_map<uint64_t, std::shared_ptr<UserObject>> objects;
};
Table* g_table = new Table;

std::shared_ptr<UserObject> Find(CUuserObject handle) {
  std::lock_guard lock(g_table->mutex);
  auto found = g_table->objects.find(Wire(handle));
  return found == g_table->objects.end() ? nullptr : found->second;
}

// The destructor is the application's and may take locks that our caller holds: it runs on the
// thread that runs host functions, where CUDA calls are refused.
bool Release(const std::shared_ptr<UserObject>& object, unsigned count) {
  unsigned held = object->references.load();
  do {
    if (held < count) return false;
  } while (!object->references.compare_exchange_weak(held, held - count));
  if (held != count) return true;
  {
    std::lock_guard lock(g_table->mutex);
    g_table->objects.erase(object->handle);
  }
  FreeHandle(HandleKind::kUserObject, object->handle);
  auto destroy = [call = object->destroy, pointer = object->pointer](CUresult) { call(pointer); };
  uint64_t number = RegisterHostFunction(std::move(destroy), HostFunctionKind::kOnce);
  Session* session = CurrentSession();
  if (session != nullptr)
    session->QueueHostCall([number] { RunHostFunction(number, CUDA_SUCCESS); });
  return true;
}

}  // namespace

UserObjects::~UserObjects() {
  for (const auto& [object, count] : held_) Release(object, count);
}

bool UserObjects::Drop(const std::shared_ptr<UserObject>& object, unsigned count) {
  auto found = held_.find(object);
  if (found == held_.end() || found->second < count) return false;
  if ((found->second -= count) == 0) held_.erase(found);
  return true;
}

void UserObjects::Share(const UserObjects& other) {
  for (const auto& [object, count] : other.held_) {
    object->references.fetch_add(count);
    held_[object] += count;
  }
}

CUresult Call_cuUserObjectCreate(CUuserObject* object_out, void* ptr, CUhostFn destroy,
                                 unsigned int initialRefcount, unsigned int flags) {
  if (object_out == nullptr || destroy == nullptr || initialRefcount == 0 ||
      flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  auto object = std::make_shared<UserObject>();
  CUresult error = CUDA_SUCCESS;
  object->handle = NewHandle(HandleKind::kUserObject, &error);
  if (error != CUDA_SUCCESS) return error;
  object->destroy = destroy;
  object->pointer = ptr;
  object->references = initialRefcount;
  *object_out = AsHandle<CUuserObject>(object->handle);
  std::lock_guard lock(g_table->mutex);
  g_table->objects[object->handle] = std::move(object);
  return CUDA_SUCCESS;
}

CUresult Call_cuUserObjectRetain(CUuserObject object, unsigned int count) {
  std::shared_ptr<UserObject> found = Find(object);
  if (found == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  found->references.fetch_add(count);
  return CUDA_SUCCESS;
}

CUresult Call_cuUserObjectRelease(CUuserObject object, unsigned int count) {
  std::shared_ptr<UserObject> found = Find(object);
  if (found == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  return Release(found, count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult Call_cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                      unsigned int flags) {
  auto lock = LockGraphs();
  std::shared_ptr<Graph> found = FindGraph(graph);
  std::shared_ptr<UserObject> held = Find(object);
  if (found == nullptr || held == nullptr || count == 0 || flags > CU_GRAPH_USER_OBJECT_MOVE)
    return CUDA_ERROR_INVALID_VALUE;
  // A move hands the caller's references over; else the graph gets its own.
  if (flags != CU_GRAPH_USER_OBJECT_MOVE) held->references.fetch_add(count);
  found->users.Take(held, count);
  return CUDA_SUCCESS;
}

CUresult Call_cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count) {
  auto lock = LockGraphs();
  std::shared_ptr<Graph> found = FindGraph(graph);
  std::shared_ptr<UserObject> held = Find(object);
  if (found == nullptr || held == nullptr || count == 0 || !found->users.Drop(held, count))
    return CUDA_ERROR_INVALID_VALUE;
  return Release(held, count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace farcall::client
