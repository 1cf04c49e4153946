// SPDX-License-Identifier: Apache-2.0
// Stream capture: calls become nodes, events carry the capture from stream to stream.
#include <algorithm>
#include <atomic>

#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/event.h"
#include "cpu-device/driver/state/graph.h"
#include "cpu-device/driver/state/stream.h"

namespace farcall::cpu_device {
namespace {

std::atomic<uint64_t> g_next_id{1};

CUgraphNodeType TypeOf(const Op& op) {
  constexpr CUgraphNodeType kTypes[] = {CU_GRAPH_NODE_TYPE_EMPTY,  CU_GRAPH_NODE_TYPE_KERNEL,
                                        CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMSET,
                                        CU_GRAPH_NODE_TYPE_HOST,   CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};
  return kTypes[op.index()];
}

void AddUnique(std::vector<GraphNode*>* to, const std::vector<GraphNode*>& nodes) {
  for (GraphNode* node : nodes)
    if (std::find(to->begin(), to->end(), node) == to->end()) to->push_back(node);
}

}  // namespace

Capture::Capture(std::shared_ptr<Graph> graph, Stream& origin, CUstreamCaptureMode mode, bool owned)
    : graph_(std::move(graph)),
      origin_(origin),
      mode_(mode),
      owned_(owned),
      id_(g_next_id.fetch_add(1)) {
  tips_[&origin] = {};
}

bool Capture::valid() const {
  std::lock_guard lock(mutex_);
  return valid_;
}

void Capture::Invalidate() {
  std::lock_guard lock(mutex_);
  valid_ = false;
}

GraphNode* Capture::Append(Stream& stream, CUgraphNodeType type) {
  std::lock_guard lock(mutex_);
  std::vector<GraphNode*>& tips = tips_[&stream];
  GraphNode& node = graph_->Add(type, std::move(tips));
  tips = {&node};
  return &node;
}

std::vector<GraphNode*> Capture::Tips(Stream& stream) {
  std::lock_guard lock(mutex_);
  return tips_[&stream];
}

void Capture::Join(Stream& stream, const std::vector<GraphNode*>& nodes) {
  std::lock_guard lock(mutex_);
  AddUnique(&tips_[&stream], nodes);
}

void Capture::SetTips(Stream& stream, std::vector<GraphNode*> nodes) {
  std::lock_guard lock(mutex_);
  tips_[&stream] = std::move(nodes);
}

void Capture::Leave(Stream& stream) {
  std::lock_guard lock(mutex_);
  AddUnique(&left_tips_, tips_[&stream]);
  tips_.erase(&stream);
  stream.set_capture(nullptr);
}

void Capture::Finish(bool* unjoined) {
  std::lock_guard lock(mutex_);
  // All nodes the origin's last ones stand on.
  std::vector<GraphNode*> reached = tips_[&origin_];
  for (size_t i = 0; i < reached.size(); ++i)
    AddUnique(&reached, std::vector<GraphNode*>(reached[i]->dependencies));
  const auto is_joined = [&](GraphNode* tip) {
    return std::find(reached.begin(), reached.end(), tip) != reached.end();
  };
  *unjoined = !std::all_of(left_tips_.begin(), left_tips_.end(), is_joined);
  for (auto& [stream, tips] : tips_) {
    if (!std::all_of(tips.begin(), tips.end(), is_joined)) *unjoined = true;
    stream->set_capture(nullptr);
  }
  tips_.clear();
}

CUresult RefuseWhileCapturing(Stream& stream) {
  const std::shared_ptr<Capture> capture = stream.capture();
  if (capture == nullptr) return CUDA_SUCCESS;
  if (!capture->valid()) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  capture->Invalidate();
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

void AbandonCapture(Stream& stream) {
  if (const std::shared_ptr<Capture> capture = stream.capture()) {
    if (&capture->origin() != &stream) return capture->Leave(stream);
    bool unjoined = false;
    capture->Invalidate();
    capture->Finish(&unjoined);
  }
}

CUresult CaptureOp(Stream& stream, Op op) {
  const std::shared_ptr<Capture> capture = stream.capture();
  if (!capture->valid()) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  const CUgraphNodeType type = TypeOf(op);
  capture->Append(stream, type)->op = std::move(op);
  return CUDA_SUCCESS;
}

CUresult CaptureGraph(Stream& stream, const Graph& graph) {
  const std::shared_ptr<Capture> capture = stream.capture();
  if (!capture->valid()) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  GraphNode* node = capture->Append(stream, CU_GRAPH_NODE_TYPE_GRAPH);
  node->child = graph.Clone();
  node->child->embedded = true;
  TheDriver().graphs.Add(node->child);
  return CUDA_SUCCESS;
}

CUresult CaptureEvent(Stream& stream, std::shared_ptr<Event> event, bool record) {
  const std::shared_ptr<Capture> capture = stream.capture();
  if (!capture->valid()) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  const CUgraphNodeType type =
      record ? CU_GRAPH_NODE_TYPE_EVENT_RECORD : CU_GRAPH_NODE_TYPE_WAIT_EVENT;
  capture->Append(stream, type)->event = {std::move(event), record};
  return CUDA_SUCCESS;
}

CUresult CaptureRecord(Stream& stream, Event& event) {
  const std::shared_ptr<Capture> capture = stream.capture();
  if (!capture->valid()) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::vector<CUgraphNode> nodes;
  for (GraphNode* node : capture->Tips(stream)) nodes.push_back(node->handle());
  event.SetCaptured(capture, std::move(nodes));
  return CUDA_SUCCESS;
}

CUresult WaitOrCapture(Stream& stream, Event& event) {
  std::vector<CUgraphNode> handles;
  const std::shared_ptr<Capture> captured = event.captured(&handles);
  const std::shared_ptr<Capture> capturing = stream.capture();
  if (captured == nullptr) {
    // An event from outside has no node: the capture cannot express the wait.
    if (capturing != nullptr) {
      const bool valid = capturing->valid();
      capturing->Invalidate();
      return valid ? CUDA_ERROR_STREAM_CAPTURE_ISOLATION : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    return WaitForEvent(stream, event);
  }
  if (!captured->valid()) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (capturing != nullptr && capturing != captured) {
    captured->Invalidate();
    capturing->Invalidate();
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (stream.kind() == Stream::Kind::kLegacy) {
    captured->Invalidate();
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  std::vector<GraphNode*> nodes;
  nodes.reserve(handles.size());
  for (CUgraphNode handle : handles) nodes.push_back(reinterpret_cast<GraphNode*>(handle));
  captured->Join(stream, nodes);
  if (capturing == nullptr) stream.set_capture(captured);
  return CUDA_SUCCESS;
}

}  // namespace farcall::cpu_device
