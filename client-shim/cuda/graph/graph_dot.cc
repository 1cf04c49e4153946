// SPDX-License-Identifier: Apache-2.0
// A graph as text for Graphviz, into a file of this machine.
#include <cstdio>

#include "client-shim/core/session/calls.h"
#include "client-shim/cuda/objects/graph_memory.h"
#include "client-shim/cuda/state/graph_model.h"
#include "client-shim/cuda/state/module.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

struct Dot {
  FILE* file = nullptr;
  unsigned flags = 0;
  int graphs = 0;
  bool Shows(unsigned flag) const {
    return (flags & (flag | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE)) != 0;
  }
};

const char* NameOf(CUgraphNodeType type) {
  constexpr const char* kNames[] = {"KERNEL",       "MEMCPY",     "MEMSET",     "HOST",
                                    "GRAPH",        "EMPTY",      "WAIT_EVENT", "EVENT_RECORD",
                                    "EXT_SIGNAL",   "EXT_WAIT",   "MEM_ALLOC",  "MEM_FREE",
                                    "BATCH_MEM_OP", "CONDITIONAL"};
  return type <= CU_GRAPH_NODE_TYPE_CONDITIONAL ? kNames[type] : "?";
}

void PrintWork(const Dot& dot, const GraphNode& node) {
  const CUgraphNodeParams& given = node.work->given;
  auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  if (given.type == CU_GRAPH_NODE_TYPE_KERNEL) {
    const CUDA_KERNEL_NODE_PARAMS_v3& kernel = given.kernel;
    const Function* function =
        FindFunction(kernel.func != nullptr ? Wire(kernel.func) : Wire(kernel.kern));
    if (function != nullptr) fprintf(dot.file, "|%s", function->info->name.c_str());
    if (dot.Shows(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS)) {
      fprintf(dot.file, "\\<\\<\\<(%u,%u,%u),(%u,%u,%u),%u\\>\\>\\>", kernel.gridDimX,
              kernel.gridDimY, kernel.gridDimZ, kernel.blockDimX, kernel.blockDimY,
              kernel.blockDimZ, kernel.sharedMemBytes);
    }
  }
  if (given.type == CU_GRAPH_NODE_TYPE_MEMCPY &&
      dot.Shows(CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS)) {
    const CUDA_MEMCPY3D& copy = given.memcpy.copyParams;
    fprintf(dot.file, "|%llu x %llu x %llu", number(copy.WidthInBytes), number(copy.Height),
            number(copy.Depth));
  }
  if (given.type == CU_GRAPH_NODE_TYPE_MEMSET &&
      dot.Shows(CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS)) {
    const CUDA_MEMSET_NODE_PARAMS_v2& set = given.memset;
    fprintf(dot.file, "|0x%llx = 0x%x, %llu x %llu of %u", number(set.dst), set.value,
            number(set.width), number(set.height), set.elementSize);
  }
  if (node.work->memory != nullptr && dot.Shows(CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS |
                                                CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS)) {
    fprintf(dot.file, "|0x%llx, %llu bytes", number(node.work->memory->address),
            number(node.work->memory->bytes));
  }
}

CUresult Print(Dot* dot, Graph* graph) {
  CUresult status = Learn(graph);
  int own = ++dot->graphs;
  fprintf(dot->file, "subgraph cluster_%d {\nlabel=\"graph_%d\" graph[style=\"dashed\"];\n", own,
          own);
  std::unordered_map<const GraphNode*, size_t> number;
  for (const auto& node : graph->nodes) number.emplace(node.get(), number.size());
  for (const auto& node : graph->nodes) {
    if (status == CUDA_SUCCESS) status = LearnWork(node.get());
    if (status != CUDA_SUCCESS) break;
    size_t place = number[node.get()];
    fprintf(dot->file, "\"graph_%d_node_%zu\" [style=\"solid\" shape=\"record\" label=\"{%s|%zu",
            own, place, NameOf(node->work->type()), place);
    PrintWork(*dot, *node);
    fprintf(dot->file, "}\"];\n");
    for (const GraphEdge& edge : node->after) {
      fprintf(dot->file, "\"graph_%d_node_%zu\" -> \"graph_%d_node_%zu\";\n", own,
              number[edge.from], own, place);
    }
    CUgraph child = nullptr;
    if (node->work->type() == CU_GRAPH_NODE_TYPE_GRAPH) {
      status = Call_cuGraphChildGraphNodeGetGraph(AsHandle<CUgraphNode>(node->handle), &child);
      if (status == CUDA_SUCCESS) status = Print(dot, FindGraph(child).get());
    }
    for (CUgraph body : node->work->bodies)
      if (status == CUDA_SUCCESS) status = Print(dot, FindGraph(body).get());
  }
  fprintf(dot->file, "}\n");
  return status;
}

}  // namespace

CUresult Call_cuGraphDebugDotPrint(CUgraph hGraph, const char* path, unsigned int flags) {
  constexpr unsigned kKnown = (CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS << 1) - 1;
  auto lock = LockGraphs();
  std::shared_ptr<Graph> graph = FindGraph(hGraph);
  if (graph == nullptr || path == nullptr || (flags & ~kKnown) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  Dot dot;
  dot.file = fopen(path, "we");
  dot.flags = flags;
  if (dot.file == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  fprintf(dot.file, "digraph dot {\n");
  CUresult status = Print(&dot, graph.get());
  fprintf(dot.file, "}\n");
  if (fclose(dot.file) != 0 && status == CUDA_SUCCESS) status = CUDA_ERROR_OPERATING_SYSTEM;
  return status;
}

}  // namespace farcall::client
