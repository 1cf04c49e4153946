// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cuda/state/graph_copies.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "client-shim/core/host_functions.h"
#include "client-shim/core/session/calls.h"
#include "client-shim/cuda/objects/graph_memory.h"
#include "client-shim/cuda/state/copy.h"
#include "client-shim/cuda/state/graph_model.h"
#include "client-shim/cuda/state/stream.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

struct HostFunction {
  CUDA_HOST_NODE_PARAMS_v2 params{};
  std::vector<std::shared_ptr<HostCopy>> before, after;
  Context* context = nullptr;
};

struct Table {
  std::mutex mutex;
  std::multimap<uint64_t, std::weak_ptr<GraphMirror>> mirrors;      // by host address
  std::map<CUdeviceptr, std::pair<uint64_t, uint64_t>> by_address;  // bytes, host
  std::unordered_map<uint64_t, std::shared_ptr<HostFunction>> functions;
  std::unordered_map<Context*, CUstream> streams;  // for copies while a host node holds its own
};
Table* g_table = new Table;

CUdeviceptr OnMirror(const HostCopy& copy) {
  return copy.mirror->address + (copy.host - copy.mirror->host);
}

// Boxes whose rows follow each other are one run.
uint64_t RunBytes(const HostCopy& copy) {
  bool rows = copy.height == 1 || copy.pitch == copy.width;
  bool slices = copy.depth == 1 || copy.slice == copy.pitch * copy.height;
  return rows && slices ? copy.width * copy.height * copy.depth : copy.width;
}

template <typename Visit>
CUresult ForRuns(const HostCopy& copy, Visit visit) {
  uint64_t bytes = RunBytes(copy);
  if (bytes != copy.width || (copy.height == 1 && copy.depth == 1)) return visit(0, bytes);
  CUresult status = CUDA_SUCCESS;
  for (uint64_t z = 0; z < copy.depth; ++z)
    for (uint64_t y = 0; y < copy.height && status == CUDA_SUCCESS; ++y)
      status = visit(z * copy.slice + y * copy.pitch, bytes);
  return status;
}

CUresult Send(const HostCopy& copy, uint64_t stream, Upload upload) {
  return ForRuns(copy, [&](uint64_t offset, uint64_t bytes) {
    return CopyToDevice(OnMirror(copy) + offset, AsHandle<const std::byte*>(copy.host + offset),
                        bytes, stream, upload);
  });
}

CUresult Land(const HostCopy& copy, uint64_t stream, bool wait) {
  return ForRuns(copy, [&](uint64_t offset, uint64_t bytes) {
    return CopyToHost(AsHandle<std::byte*>(copy.host + offset), OnMirror(copy) + offset, bytes,
                      stream, wait);
  });
}

// Of the calling thread's context, which shares no order with any other.
uint64_t SideStream(Context* context) {
  std::lock_guard lock(g_table->mutex);
  CUstream& stream = g_table->streams[context];
  if (stream == nullptr &&
      Call_cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0) != CUDA_SUCCESS)
    stream = nullptr;
  return Wire(stream);
}

// On the callback thread, while the graph's stream is held.
void RunGraphFunction(const std::shared_ptr<HostFunction>& host) {
  std::vector<std::shared_ptr<HostCopy>> before, after;
  {
    std::lock_guard lock(g_table->mutex);
    before = host->before;
    after = host->after;
  }
  bool copies = !before.empty() || !after.empty();
  ThreadState* self = Self();
  Context* current = std::exchange(self->current, copies ? host->context : self->current);
  uint64_t stream = copies ? SideStream(host->context) : 0;
  for (const auto& copy : before) (void)Land(*copy, stream, true);
  host->params.fn(host->params.userData);
  for (const auto& copy : after) (void)Send(*copy, stream, Upload::kSettled);
  self->current = current;
}

// ---- The plan. Graphs inside nodes are unfolded: a vertex each for what is in them, one for their
// beginning and one for their end.
struct Vertex {
  std::vector<std::shared_ptr<HostCopy>> copies;
  uint64_t host = 0;
  uint64_t node = 0;
  bool conditional = false;
  std::vector<size_t> after;
};

struct Unfolded {
  std::vector<Vertex> vertices;
  std::vector<CUevent> records;
  bool ordered = true;  // all edges are known
  size_t Add() {
    vertices.emplace_back();
    return vertices.size() - 1;
  }
};

// The vertices that are the beginning and the end of the graph.
std::pair<size_t, size_t> Unfold(const Graph& graph, bool top, bool conditional, Unfolded* all);

std::pair<size_t, size_t> UnfoldNode(const GraphNode& node, bool top, bool conditional,
                                     Unfolded* all) {
  const GraphWork& work = *node.work;
  size_t first = all->Add(), last = first;
  all->vertices[first].copies = work.copies;
  all->vertices[first].host = work.host_function;
  all->vertices[first].node = top ? node.handle : 0;
  all->vertices[first].conditional = conditional;
  if (work.type() == CU_GRAPH_NODE_TYPE_EVENT_RECORD && work.given.eventRecord.event != nullptr)
    all->records.push_back(work.given.eventRecord.event);
  auto put_inside = [&](const Graph& inside, bool may_not_run) {
    auto [begin, end] = Unfold(inside, false, may_not_run, all);
    all->vertices[begin].after.push_back(first);
    if (last == first) last = all->Add();
    all->vertices[last].after.push_back(end);
  };
  if (work.inside != nullptr) put_inside(*work.inside, conditional);
  for (CUgraph body : work.bodies) {
    std::shared_ptr<Graph> inner = FindGraph(body);
    if (inner != nullptr) put_inside(*inner, true);
  }
  return {first, last};
}

std::pair<size_t, size_t> Unfold(const Graph& graph, bool top, bool conditional, Unfolded* all) {
  size_t begin = all->Add();
  std::unordered_map<const GraphNode*, std::pair<size_t, size_t>> places;
  for (const auto& node : graph.nodes)
    places[node.get()] = UnfoldNode(*node, top, conditional, all);
  size_t end = all->Add();
  for (const auto& node : graph.nodes) {
    auto [first, last] = places[node.get()];
    all->vertices[first].after.push_back(begin);
    all->vertices[end].after.push_back(last);
    for (const GraphEdge& edge : node->after)
      all->vertices[first].after.push_back(places[edge.from].second);
  }
  if (!graph.known) all->ordered = false;
  if (graph.inherited != nullptr) {
    bool was_ordered = all->ordered;
    auto inherited = Unfold(*graph.inherited, false, conditional, all);
    all->vertices[inherited.first].after.push_back(begin);
    all->vertices[end].after.push_back(inherited.second);
    // A clone's own nodes are the inherited ones again, without their work.
    all->ordered = was_ordered && graph.inherited->known;
    if (!graph.known && graph.inherited->known) all->ordered = true;
  }
  return {begin, end};
}

// What `vertex` stands on, itself not.
std::vector<bool> Ancestors(const Unfolded& all, size_t vertex) {
  std::vector<bool> seen(all.vertices.size());
  std::vector<size_t> next = all.vertices[vertex].after;
  while (!next.empty()) {
    size_t at = next.back();
    next.pop_back();
    if (seen[at]) continue;
    seen[at] = true;
    const auto& more = all.vertices[at].after;
    next.insert(next.end(), more.begin(), more.end());
  }
  return seen;
}

void PlanHosts(const Unfolded& all, LaunchPlan* plan) {
  std::map<size_t, std::vector<bool>> before_host;
  for (size_t i = 0; i < all.vertices.size(); ++i)
    if (all.vertices[i].host != 0) before_host[i] = Ancestors(all, i);
  std::set<const HostCopy*> landed;
  for (const auto& [at, ancestors] : before_host) {
    PlannedHost host;
    host.function = all.vertices[at].host;
    for (size_t i = 0; i < all.vertices.size(); ++i) {
      for (const auto& copy : all.vertices[i].copies) {
        if (copy->to_host && ancestors[i]) {
          // The first host node behind it brings it home: a later one may find what that one made
          // of it.
          bool earlier = false;
          for (const auto& [other, theirs] : before_host)
            earlier = earlier || (other != at && ancestors[other] && theirs[i]);
          if (!earlier) host.before.push_back(copy);
          landed.insert(copy.get());
        } else if (!copy->to_host && Ancestors(all, i)[at]) {
          host.after.push_back(copy);
        }
      }
    }
    plan->hosts.push_back(std::move(host));
  }
  for (PlannedCopy& copy : plan->copies) copy.landed_inside = landed.count(copy.copy.get()) != 0;
}

}  // namespace

GraphMirror::~GraphMirror() {
  {
    std::lock_guard lock(g_table->mutex);
    g_table->by_address.erase(address);
    std::erase_if(g_table->mirrors, [](const auto& entry) { return entry.second.expired(); });
  }
  if (address != 0) FreeQuietly(address);
}

CUresult MakeGraphMirror(HostCopy* copy) {
  uint64_t bytes = copy->extent(), end = copy->host + bytes;
  if (end < copy->host) return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::shared_ptr<GraphMirror>> seen;  // the last of one goes after the lock
  {
    std::lock_guard lock(g_table->mutex);
    for (const auto& [host, weak] : g_table->mirrors) {
      std::shared_ptr<GraphMirror> mirror = seen.emplace_back(weak.lock());
      if (mirror == nullptr || mirror->context != CurrentContext()) continue;
      if (host >= end || host + mirror->bytes <= copy->host) continue;
      if (host <= copy->host && end <= host + mirror->bytes) {
        mirror->lands = mirror->lands || copy->to_host;
        copy->mirror = mirror;
        return CUDA_SUCCESS;
      }
      if (mirror->lands || copy->to_host) return CUDA_ERROR_NOT_SUPPORTED;
    }
  }
  auto mirror = std::make_shared<GraphMirror>();
  CUresult status = Call_cuMemAlloc_v2(&mirror->address, bytes);
  if (status != CUDA_SUCCESS) return status;
  mirror->host = copy->host;
  mirror->bytes = bytes;
  mirror->context = CurrentContext();
  mirror->lands = copy->to_host;
  copy->mirror = mirror;
  std::lock_guard lock(g_table->mutex);
  g_table->mirrors.emplace(mirror->host, mirror);
  g_table->by_address[mirror->address] = {bytes, mirror->host};
  return CUDA_SUCCESS;
}

uint64_t HostOfMirror(CUdeviceptr address) {
  std::lock_guard lock(g_table->mutex);
  auto found = g_table->by_address.upper_bound(address);
  if (found == g_table->by_address.begin()) return 0;
  --found;
  uint64_t offset = address - found->first;
  return offset < found->second.first ? found->second.second + offset : 0;
}

CUresult MakePlan(Graph* graph, LaunchPlan* plan) {
  Unfolded all;
  Unfold(*graph, true, false, &all);
  bool hosts = false, copies = false;
  for (const Vertex& vertex : all.vertices) {
    hosts = hosts || vertex.host != 0;
    copies = copies || !vertex.copies.empty();
  }
  if (hosts && copies && !all.ordered && graph->inherited == nullptr) {
    CUresult status = Learn(graph);
    if (status != CUDA_SUCCESS) return status;
    all = {};
    Unfold(*graph, true, false, &all);
  }
  if (hosts && copies && !all.ordered) return CUDA_ERROR_NOT_SUPPORTED;
  *plan = {};
  plan->records = all.records;
  for (const Vertex& vertex : all.vertices)
    for (const auto& copy : vertex.copies)
      plan->copies.push_back({copy, vertex.node, vertex.conditional, false});
  if (hosts && copies) PlanHosts(all, plan);
  return CUDA_SUCCESS;
}

void AnnouncePlan(const LaunchPlan& plan) {
  std::lock_guard lock(g_table->mutex);
  for (const PlannedHost& planned : plan.hosts) {
    auto found = g_table->functions.find(planned.function);
    if (found == g_table->functions.end()) continue;
    found->second->before = planned.before;
    found->second->after = planned.after;
  }
}

CUresult SendSources(const LaunchPlan& plan, const std::set<uint64_t>& disabled, uint64_t stream) {
  std::set<std::pair<uint64_t, uint64_t>> sent;
  for (const PlannedCopy& planned : plan.copies) {
    const HostCopy& copy = *planned.copy;
    if (planned.node != 0 && disabled.count(planned.node) != 0) continue;
    if (copy.to_host && !planned.conditional) continue;
    if (!sent.insert({copy.host, copy.extent()}).second) continue;
    CUresult status = Send(copy, stream, Upload::kLater);
    if (status != CUDA_SUCCESS) return status;
  }
  return CUDA_SUCCESS;
}

CUresult LandResults(const LaunchPlan& plan, const std::set<uint64_t>& disabled, uint64_t stream) {
  std::set<std::pair<uint64_t, uint64_t>> landed;
  for (const PlannedCopy& planned : plan.copies) {
    const HostCopy& copy = *planned.copy;
    if (!copy.to_host || planned.landed_inside) continue;
    if (planned.node != 0 && disabled.count(planned.node) != 0) continue;
    if (!landed.insert({copy.host, copy.extent()}).second) continue;
    CUresult status = Land(copy, stream, false);
    if (status != CUDA_SUCCESS) return status;
  }
  return CUDA_SUCCESS;
}

uint64_t RegisterGraphFunction(CUhostFn function, void* user_data) {
  auto host = std::make_shared<HostFunction>();
  host->params = {function, user_data};
  host->context = CurrentContext();
  // A host function does not run after a failure.
  auto call = [host](CUresult status) {
    if (status == CUDA_SUCCESS) RunGraphFunction(host);
  };
  uint64_t number = RegisterHostFunction(std::move(call), HostFunctionKind::kCaptured);
  std::lock_guard lock(g_table->mutex);
  g_table->functions[number] = std::move(host);
  return number;
}

bool FindGraphFunction(uint64_t number, CUDA_HOST_NODE_PARAMS_v2* params) {
  std::lock_guard lock(g_table->mutex);
  auto found = g_table->functions.find(number);
  if (found == g_table->functions.end()) return false;
  *params = found->second->params;
  return true;
}

}  // namespace farcall::client
