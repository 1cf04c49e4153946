// SPDX-License-Identifier: Apache-2.0
// The calls around a stream capture.
#include <utility>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/graph.h"
#include "cpu-device/driver/state/stream.h"
#include "cpu-device/driver/state/thread.h"

namespace farcall::cpu_device {
namespace {

CUresult Enter(CUstream handle, std::shared_ptr<Stream>* stream) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  *stream = context->FindStream(handle);
  return *stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

bool NodesOf(const CUgraphNode* handles, size_t count, std::vector<GraphNode*>* nodes) {
  if (handles == nullptr && count != 0) return false;
  for (size_t i = 0; i < count; ++i) {
    const std::shared_ptr<GraphNode> node = GraphNodes().Find(handles[i]);
    if (node == nullptr) return false;
    nodes->push_back(node.get());
  }
  return true;
}

CUresult Begin(CUstream handle, CUstreamCaptureMode mode, std::shared_ptr<Graph> graph,
               std::vector<GraphNode*> tips, bool owned) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = Enter(handle, &stream)) return result;
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  if (stream->kind() == Stream::Kind::kLegacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture() != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  // Known from the start: a program may hang user objects on the graph while it grows.
  if (owned) TheDriver().graphs.Add(graph);
  auto capture = std::make_shared<Capture>(std::move(graph), *stream, mode, owned);
  capture->SetTips(*stream, std::move(tips));
  stream->set_capture(capture);
  return CUDA_SUCCESS;
}

// Dependencies handed out by the calling thread's last cuStreamGetCaptureInfo.
std::vector<CUgraphNode>& HandedOut() {
  static thread_local std::vector<CUgraphNode> nodes;
  return nodes;
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return Begin(stream, mode, std::make_shared<Graph>(), {}, true);
}

CUresult cuStreamBeginCapture(CUstream stream) {
  return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph handle,
                                     const CUgraphNode* dependencies, const CUgraphEdgeData*,
                                     size_t count, CUstreamCaptureMode mode) {
  const std::shared_ptr<Graph> graph = TheDriver().graphs.Find(handle);
  std::vector<GraphNode*> nodes;
  if (graph == nullptr || !NodesOf(dependencies, count, &nodes)) return CUDA_ERROR_INVALID_VALUE;
  return Begin(stream, mode, graph, std::move(nodes), false);
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* out) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = Enter(handle, &stream)) return result;
  const std::shared_ptr<Capture> capture = stream->capture();
  // Who captured into a graph of its own has it already.
  if (out == nullptr && (capture == nullptr || capture->owned())) return CUDA_ERROR_INVALID_VALUE;
  if (out != nullptr) *out = nullptr;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (&capture->origin() != stream.get()) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  bool unjoined = false;
  const bool valid = capture->valid();
  capture->Finish(&unjoined);
  if (!valid || unjoined) {
    if (capture->owned()) TheDriver().graphs.Take(capture->graph().handle());
    return valid ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  if (out != nullptr) *out = capture->graph().handle();
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = Enter(handle, &stream)) return result;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Capture> capture = stream->capture();
  *status = capture == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
            : capture->valid() ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                               : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** dependencies,
                                   const CUgraphEdgeData** edges, size_t* count) {
  if (const CUresult result = cuStreamIsCapturing(handle, status)) return result;
  std::shared_ptr<Stream> stream;
  if (const CUresult result = Enter(handle, &stream)) return result;
  if (edges != nullptr) *edges = nullptr;
  const std::shared_ptr<Capture> capture = stream->capture();
  if (capture == nullptr || !capture->valid()) return CUDA_SUCCESS;
  if (id != nullptr) *id = capture->id();
  if (graph != nullptr) *graph = capture->graph().handle();
  std::vector<CUgraphNode>& nodes = HandedOut();
  nodes.clear();
  for (GraphNode* node : capture->Tips(*stream)) nodes.push_back(node->handle());
  if (dependencies != nullptr) *dependencies = nodes.data();
  if (count != nullptr) *count = nodes.size();
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** dependencies,
                                   size_t* count) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, nullptr, count);
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}

CUresult cuStreamGetCaptureInfo_ptsz(CUstream stream, CUstreamCaptureStatus* status,
                                     cuuint64_t* id) {
  return cuStreamGetCaptureInfo(Ptsz(stream), status, id);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode* dependencies,
                                              const CUgraphEdgeData*, size_t count,
                                              unsigned int flags) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = Enter(handle, &stream)) return result;
  const std::shared_ptr<Capture> capture = stream->capture();
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  std::vector<GraphNode*> nodes;
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || !NodesOf(dependencies, count, &nodes))
    return CUDA_ERROR_INVALID_VALUE;
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
    capture->SetTips(*stream, std::move(nodes));
  else
    capture->Join(*stream, nodes);
  return CUDA_SUCCESS;
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* dependencies, size_t count,
                                           unsigned int flags) {
  return cuStreamUpdateCaptureDependencies_v2(stream, dependencies, nullptr, count, flags);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
      *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, ThreadCaptureMode());
  return CUDA_SUCCESS;
}

}  // extern "C"
