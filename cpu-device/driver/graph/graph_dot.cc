// SPDX-License-Identifier: Apache-2.0
// A graph as text for Graphviz.
#include <cstdio>
#include <memory>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/graph.h"
#include "cpu-device/driver/state/module.h"

namespace farcall::cpu_device {
namespace {

const char* NameOf(CUgraphNodeType type) {
  constexpr const char* kNames[] = {"KERNEL",       "MEMCPY",     "MEMSET",     "HOST",
                                    "GRAPH",        "EMPTY",      "WAIT_EVENT", "EVENT_RECORD",
                                    "EXT_SIGNAL",   "EXT_WAIT",   "MEM_ALLOC",  "MEM_FREE",
                                    "BATCH_MEM_OP", "CONDITIONAL"};
  return type <= CU_GRAPH_NODE_TYPE_CONDITIONAL ? kNames[type] : "?";
}

void Print(FILE* file, const Graph& graph, int* next) {
  const int number = (*next)++;
  fprintf(file, "subgraph cluster_%d {\nlabel=\"graph_%d\";\n", number, number);
  for (const auto& node : graph.nodes()) {
    const auto* kernel = std::get_if<KernelOp>(&node->op);
    fprintf(file, "\"graph_%d_node_%llu\" [shape=record, label=\"{%s|%llu%s%s}\"];\n", number,
            static_cast<unsigned long long>(node->id), NameOf(node->type),
            static_cast<unsigned long long>(node->id), kernel == nullptr ? "" : "|",
            kernel == nullptr ? "" : kernel->function->info().name.c_str());
    for (const GraphNode* from : node->dependencies) {
      fprintf(file, "\"graph_%d_node_%llu\" -> \"graph_%d_node_%llu\";\n", number,
              static_cast<unsigned long long>(from->id), number,
              static_cast<unsigned long long>(node->id));
    }
    if (node->child != nullptr) Print(file, *node->child, next);
    if (node->body == nullptr) continue;
    for (const auto& body : node->body->graphs) Print(file, *body, next);
  }
  fprintf(file, "}\n");
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" CUresult cuGraphDebugDotPrint(CUgraph handle, const char* path, unsigned int flags) {
  if (const CUresult result = CheckInitialized()) return result;
  const std::shared_ptr<Graph> graph = TheDriver().graphs.Find(handle);
  constexpr unsigned kKnown = (CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS << 1) - 1;
  if (graph == nullptr || path == nullptr || (flags & ~kKnown) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  FILE* file = fopen(path, "we");
  if (file == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  int next = 1;
  fprintf(file, "digraph dot {\n");
  Print(file, *graph, &next);
  fprintf(file, "}\n");
  return fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
