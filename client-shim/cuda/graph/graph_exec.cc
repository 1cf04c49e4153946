// SPDX-License-Identifier: Apache-2.0
// Executable graphs: made, launched, changed. A launch is one record, and for each host copy in the
// graph one more.
#include <algorithm>
#include <utility>

#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/handles.h"
#include "client-shim/cuda/objects/graph_memory.h"
#include "client-shim/cuda/objects/graph_params.h"
#include "client-shim/cuda/state/capture_rules.h"
#include "client-shim/cuda/state/graph_model.h"
#include "client-shim/cuda/state/mirror.h"
#include "client-shim/cuda/state/stream.h"
#include "client-shim/cuda/state/stream_function.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

constexpr unsigned kRecordedByGraph = 1u << 31;

void CollectMemory(const Graph& graph, GraphExec* exec) {
  for (const auto& node : graph.nodes) {
    if (node->work->type() == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
      exec->allocates.push_back(node->work->memory);
    if (node->work->type() == CU_GRAPH_NODE_TYPE_MEM_FREE)
      exec->frees.push_back(node->work->memory);
  }
}

CUresult CheckFlags(unsigned long long flags) {
  constexpr unsigned long long kKnown = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                        CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                        CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0)
    return NotSupported(CallId::cuGraphInstantiateWithFlags);
  return (flags & ~kKnown) != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// The launch's allocations are in use from now on, what it frees no more.
CUresult Allocate(const GraphExec& exec) {
  bool reuse = (exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  for (const auto& memory : exec.allocates)
    if (memory->live() && !reuse) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& memory : exec.allocates) memory->Use(memory);
  for (const auto& memory : exec.frees) memory->Unuse();
  return CUDA_SUCCESS;
}

// Launches into a capture become a child graph of it, with what the graph does on the client.
CUresult NoteInCapture(const GraphExec& exec, Stream* stream) {
  std::shared_ptr<Graph> graph = FindGraph(AsHandle<CUgraph>(stream->capture_graph.load()));
  if (!exec.allocates.empty() || !exec.frees.empty()) return RefuseOn(stream);
  if (graph == nullptr || !exec.plan.hosts.empty()) return RefuseOn(stream);
  graph->users.Share(*exec.users);
  if (exec.plan.empty()) return CUDA_SUCCESS;
  auto inside = std::make_shared<Graph>();
  inside->known = false;
  for (CUevent event : exec.plan.records) {
    auto work = std::make_shared<GraphWork>();
    work->given = EventParams(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
    KeepNode(inside.get(), 0, std::move(work));
  }
  for (const PlannedCopy& planned : exec.plan.copies) {
    auto work = std::make_shared<GraphWork>();
    work->given.type = CU_GRAPH_NODE_TYPE_MEMCPY;
    work->copies.push_back(planned.copy);
    KeepNode(inside.get(), 0, std::move(work));
  }
  inside->inherited = graph->inherited;
  graph->inherited = std::move(inside);
  return CUDA_SUCCESS;
}

// References of the graph last until the launches are over: a function of ours behind each of them.
void GiveBackLater(const std::shared_ptr<UserObjects>& users, const std::set<uint64_t>& streams) {
  if (users == nullptr || users->empty()) return;
  for (uint64_t stream : streams) {
    CUresult known = CUDA_SUCCESS;
    WireStream(AsHandle<CUstream>(stream), false, &known);
    auto hold = [users](CUresult) {};
    if (known == CUDA_SUCCESS &&
        PostHostFunction(AsHandle<CUstream>(stream), hold, HostFunctionKind::kOurs) == CUDA_SUCCESS)
      continue;
    // The stream is gone, its work perhaps not.
    Context* context = CurrentContext();
    FixedBody<8> body;
    body.Put<uint64_t>(context == nullptr ? 0 : context->handle);
    if (context != nullptr) (void)RoundTrip(CallId::cuCtxSynchronize_v2, body.bytes(), nullptr);
  }
}

// The node is one of the graph that the exec was made from.
GraphNode* NodeOf(const GraphExec& exec, CUgraphNode handle) {
  GraphNode* node = FindNode(handle);
  return node != nullptr && exec.source.lock().get() == node->graph &&
                 (exec.partial || exec.nodes.count(node->handle) != 0)
             ? node
             : nullptr;
}

// The node's copies in the plan are those of `work` from now on.
CUresult ReplaceCopies(GraphExec* exec, GraphNode* node, const GraphWork& work) {
  CUresult status = LearnWork(node);
  if (status != CUDA_SUCCESS) return status;
  // A clone's copies are not known by node.
  if (node->graph->inherited != nullptr && (TouchesHost(*node->work) || !work.copies.empty()))
    return NotSupported(CallId::cuGraphExecNodeSetParams);
  if (!exec->plan.hosts.empty() && (!work.copies.empty() || work.host_function != 0))
    return NotSupported(CallId::cuGraphExecNodeSetParams);
  std::erase_if(exec->plan.copies,
                [node](const PlannedCopy& copy) { return copy.node == node->handle; });
  for (const auto& copy : work.copies)
    exec->plan.copies.push_back({copy, node->handle, false, false});
  return CUDA_SUCCESS;
}

// What an exec's event node recorded before, and what it records now.
void ReplaceRecord(GraphExec* exec, const GraphNode& node, CUevent event) {
  auto& records = exec->plan.records;
  CUevent before = exec->events.count(node.handle) != 0 ? exec->events[node.handle]
                                                        : node.work->given.eventRecord.event;
  auto found = std::find(records.begin(), records.end(), before);
  if (found != records.end()) records.erase(found);
  records.push_back(event);
  exec->events[node.handle] = event;
}

CUresult SetInExec(CUgraphExec hExec, CUgraphNode hNode, const CUgraphNodeParams& params) {
  auto lock = LockGraphs();
  std::shared_ptr<GraphExec> exec = FindExec(hExec);
  GraphNode* node = exec == nullptr ? nullptr : NodeOf(*exec, hNode);
  if (node == nullptr || node->work->type() != params.type) return CUDA_ERROR_INVALID_VALUE;
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      break;
  }
  auto work = std::make_shared<GraphWork>();
  CUresult status = MakeWork(params, node->graph, work.get());
  if (status != CUDA_SUCCESS) return status;
  bool inside = work->inside != nullptr && (work->inside->Any(CU_GRAPH_NODE_TYPE_HOST) ||
                                            work->inside->Any(CU_GRAPH_NODE_TYPE_MEMCPY) ||
                                            work->inside->inherited != nullptr);
  if (inside) {
    LaunchPlan plan;
    Graph probe;
    KeepNode(&probe, 0, work);
    status = MakePlan(&probe, &plan);
    if (status == CUDA_SUCCESS && !plan.empty())
      status = NotSupported(CallId::cuGraphExecNodeSetParams);
    if (status != CUDA_SUCCESS) return status;
  }
  if (params.type == CU_GRAPH_NODE_TYPE_MEMCPY || params.type == CU_GRAPH_NODE_TYPE_HOST)
    status = ReplaceCopies(exec.get(), node, *work);
  if (status != CUDA_SUCCESS) return status;
  Builder body;
  body.Put<uint64_t>(exec->handle);
  body.Put<uint64_t>(node->handle);
  PutWork(&body, *work);
  status = PostGraph(CallId::cuGraphExecNodeSetParams, body);
  if (status == CUDA_SUCCESS && params.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
    ReplaceRecord(exec.get(), *node, params.eventRecord.event);
  return status;
}

template <typename Params>
CUresult SetTypedInExec(CUgraphExec exec, CUgraphNode node, const Params* params) {
  return params == nullptr ? CUDA_ERROR_INVALID_VALUE : SetInExec(exec, node, ParamsFrom(*params));
}

CUgraphNode NodeAt(const std::vector<GraphNode*>& places, uint64_t place) {
  return place < places.size() ? AsHandle<CUgraphNode>(places[place]->handle) : nullptr;
}

}  // namespace

CUresult NoteRecords(const LaunchPlan& plan, CUstream stream) {
  for (CUevent handle : plan.records) {
    if (FindEvent(handle) == nullptr) continue;
    CUresult status = RecordEvent(handle, stream, kRecordedByGraph);
    if (status != CUDA_SUCCESS) return status;
  }
  return CUDA_SUCCESS;
}

CUresult Call_cuGraphInstantiateWithFlags(CUgraphExec* phGraphExec, CUgraph hGraph,
                                          unsigned long long flags) {
  auto lock = LockGraphs();
  std::shared_ptr<Graph> graph = FindGraph(hGraph);
  if (phGraphExec == nullptr || graph == nullptr || graph->inner || graph->capturing)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult status = CheckFlags(flags);
  if (status != CUDA_SUCCESS) return status;
  // Memory is the client's matter, and an upload without a stream has no meaning.
  auto exec = std::make_shared<GraphExec>();
  exec->flags = flags;
  exec->source = graph;
  exec->context = CurrentContext();
  CollectMemory(*graph, exec.get());
  // Memory is at one place: one executable graph at a time.
  bool single = !exec->allocates.empty() || !exec->frees.empty();
  if (single && graph->execs != 0) return CUDA_ERROR_INVALID_VALUE;
  status = MakePlan(graph.get(), &exec->plan);
  if (status != CUDA_SUCCESS) return status;
  ++graph->execs;
  // It may take long, and other graphs go on.
  lock.unlock();
  status = RoundTrip_cuGraphInstantiateWithFlags(
      phGraphExec, hGraph, flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
  lock.lock();
  if (status != CUDA_SUCCESS) {
    --graph->execs;
    return status;
  }
  exec->handle = Wire(*phGraphExec);
  for (const auto& node : graph->nodes) exec->nodes[node->handle] = node->work->type();
  exec->partial = !graph->known;
  exec->users = std::make_shared<UserObjects>();
  exec->users->Share(graph->users);
  AnnouncePlan(exec->plan);
  KeepExec(exec);
  return CUDA_SUCCESS;
}

CUresult Call_cuGraphExecDestroy(CUgraphExec hGraphExec) {
  std::shared_ptr<GraphExec> exec;
  {
    auto lock = LockGraphs();
    exec = DropExec(hGraphExec);
    if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Graph> source = exec->source.lock();
    if (source != nullptr) --source->execs;
  }
  CUresult status = Post_cuGraphExecDestroy(hGraphExec);
  GiveBackLater(exec->users, exec->launched_on);
  return status;
}

CUresult Call_cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t* flags) {
  auto lock = LockGraphs();
  std::shared_ptr<GraphExec> exec = FindExec(hGraphExec);
  if (exec == nullptr || flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

CUresult Call_cuGraphLaunch(CUgraphExec hGraph, CUstream hStream) {
  CUresult status = CUDA_SUCCESS;
  uint64_t stream = WireStream(hStream, false, &status);
  std::shared_ptr<GraphExec> exec;
  LaunchPlan plan;
  std::set<uint64_t> disabled;
  if (status == CUDA_SUCCESS && !Captures(FindStream(hStream))) PushMirrors();
  {
    auto lock = LockGraphs();
    exec = FindExec(hGraph);
    if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (status != CUDA_SUCCESS) return status;
    Stream* on = FindStream(hStream);
    if (Captures(on)) {
      status = NoteInCapture(*exec, on);
      return status != CUDA_SUCCESS ? status : Post_cuGraphLaunch(hGraph, hStream);
    }
    status = Allocate(*exec);
    if (status != CUDA_SUCCESS) return status;
    if (!exec->users->empty()) exec->launched_on.insert(Wire(hStream));
    if (exec->plan.empty()) return Post_cuGraphLaunch(hGraph, hStream);
    plan = exec->plan;
    disabled = exec->disabled;
  }
  status = SendSources(plan, disabled, stream);
  if (status == CUDA_SUCCESS) status = Post_cuGraphLaunch(hGraph, hStream);
  if (status == CUDA_SUCCESS) status = LandResults(plan, disabled, stream);
  if (status == CUDA_SUCCESS) status = NoteRecords(plan, hStream);
  return status;
}

CUresult Call_cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                                   CUgraphExecUpdateResultInfo* resultInfo) {
  auto lock = LockGraphs();
  std::shared_ptr<GraphExec> exec = FindExec(hGraphExec);
  std::shared_ptr<Graph> graph = FindGraph(hGraph);
  if (exec == nullptr || graph == nullptr || resultInfo == nullptr || graph->capturing)
    return CUDA_ERROR_INVALID_VALUE;
  *resultInfo = {CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
  LaunchPlan plan;
  CUresult status = MakePlan(graph.get(), &plan);
  if (status != CUDA_SUCCESS) return status;
  bool memory = !exec->allocates.empty() || !exec->frees.empty() || graph->has_memory();
  if (memory && exec->source.lock() != graph) {
    resultInfo->result = CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  FixedBody<16> body;
  body.Put<uint64_t>(exec->handle);
  body.Put<uint64_t>(graph->handle);
  Reply reply;
  status = RoundTrip(CallId::cuGraphExecUpdate_v2, body.bytes(), &reply);
  if (status != CUDA_SUCCESS) return status;
  Reader in = reply.outputs();
  status = static_cast<CUresult>(in.Get<int32_t>());
  auto result = static_cast<CUgraphExecUpdateResult>(in.Get<int32_t>());
  auto error = in.Get<uint64_t>();
  auto from = in.Get<uint64_t>();
  if (!in.Done()) return CUDA_ERROR_UNKNOWN;
  resultInfo->result = result;
  if (status != CUDA_SUCCESS) {
    std::vector<GraphNode*> places;
    if (~error != 0 && Learn(graph.get(), 0, nullptr, &places) == CUDA_SUCCESS) {
      resultInfo->errorNode = NodeAt(places, error);
      resultInfo->errorFromNode = NodeAt(places, from);
    }
    return status;
  }
  auto users = std::make_shared<UserObjects>();
  users->Share(graph->users);
  std::swap(exec->users, users);
  std::set<uint64_t> streams = std::exchange(exec->launched_on, {});
  exec->plan = std::move(plan);
  exec->events.clear();
  AnnouncePlan(exec->plan);
  lock.unlock();
  GiveBackLater(users, streams);
  return CUDA_SUCCESS;
}

CUresult Call_cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode* hErrorNode_out,
                                CUgraphExecUpdateResult* updateResult_out) {
  CUgraphExecUpdateResultInfo info{};
  CUresult status = Call_cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
  if (hErrorNode_out != nullptr) *hErrorNode_out = info.errorNode;
  if (updateResult_out != nullptr) *updateResult_out = info.result;
  return status;
}

CUresult Call_cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
                                    unsigned int isEnabled) {
  auto lock = LockGraphs();
  std::shared_ptr<GraphExec> exec = FindExec(hGraphExec);
  GraphNode* node = exec == nullptr ? nullptr : NodeOf(*exec, hNode);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeType type = node->work->type();
  if (type != CU_GRAPH_NODE_TYPE_KERNEL && type != CU_GRAPH_NODE_TYPE_MEMSET &&
      type != CU_GRAPH_NODE_TYPE_MEMCPY)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult status = Post_cuGraphNodeSetEnabled(hGraphExec, hNode, isEnabled);
  if (status != CUDA_SUCCESS) return status;
  if (isEnabled != 0)
    exec->disabled.erase(node->handle);
  else
    exec->disabled.insert(node->handle);
  return CUDA_SUCCESS;
}

CUresult Call_cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
                                    unsigned int* isEnabled) {
  auto lock = LockGraphs();
  std::shared_ptr<GraphExec> exec = FindExec(hGraphExec);
  GraphNode* node = exec == nullptr ? nullptr : NodeOf(*exec, hNode);
  if (node == nullptr || isEnabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *isEnabled = exec->disabled.count(node->handle) == 0;
  return CUDA_SUCCESS;
}

CUresult Call_cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                       CUgraphNodeParams* nodeParams) {
  return nodeParams == nullptr ? CUDA_ERROR_INVALID_VALUE
                               : SetInExec(hGraphExec, hNode, *nodeParams);
}
CUresult Call_cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                             const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  return SetTypedInExec(hGraphExec, hNode, nodeParams);
}
CUresult Call_cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return SetTypedInExec(hGraphExec, hNode, nodeParams);
}
CUresult Call_cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                             const CUDA_MEMCPY3D* copyParams, CUcontext) {
  return SetTypedInExec(hGraphExec, hNode, copyParams);
}
CUresult Call_cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                             const CUDA_MEMSET_NODE_PARAMS* memsetParams,
                                             CUcontext) {
  return SetTypedInExec(hGraphExec, hNode, memsetParams);
}
CUresult Call_cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                           const CUDA_HOST_NODE_PARAMS* nodeParams) {
  return SetTypedInExec(hGraphExec, hNode, nodeParams);
}
CUresult Call_cuGraphExecBatchMemOpNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                 const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
  return SetTypedInExec(hGraphExec, hNode, nodeParams);
}
CUresult Call_cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                 CUgraph childGraph) {
  return SetInExec(hGraphExec, hNode, ChildParams(childGraph));
}
CUresult Call_cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                 CUevent event) {
  return SetInExec(hGraphExec, hNode, EventParams(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}
CUresult Call_cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
                                               CUevent event) {
  return SetInExec(hGraphExec, hNode, EventParams(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}

}  // namespace farcall::client
