// SPDX-License-Identifier: Apache-2.0
#include "server/session/record_pipeline.h"

namespace farcall::server {

Status RecordPipeline::Pass(ServeCall& call, const Nature& nature, Call& body, Served* served) {
  *served = Served::kStalled;
  // A graph that a slow call has, its parent or its child: they are in no two threads' hands.
  if (graphs_held_.load() != 0 && nature.touches_graphs && !nature.slow) return {};
  if (!nature.by_streams && !session_.ahead().empty()) {
    call.turn.touched.everything = call.turn.blocked = true;
    return {};
  }
  if (nature.has_context || nature.needs_context) {
    const CUresult found =
        session_.contexts().Find(call.header, session_.helper_busy(), &call.context, &call.stalled);
    if (call.stalled) return {};
    if (nature.needs_context) call.result = found;
  }
  if (call.result == CUDA_SUCCESS) {
    const uint64_t work = body.Work();
    if (work != 0 && !gate_.Admit(call.context->device, call.context->native, work)) return {};
    if (nature.slow) {
      *served = Served::kDone;
      return body.Submit(work);
    }
    if (call.context != nullptr) session_.contexts().MakeCurrent(call.context);
    FARCALL_TRY(body.Serve());
    if (call.stalled && !call.rejected()) {
      if (work != 0) gate_.Stalled(call.context->device);
      return {};
    }
    FARCALL_TRY(call.RejectStatus());
    if (work != 0) gate_.Submitted(call.context->device, work);
  }
  *served = Served::kDone;
  body.Finish();
  return {};
}

std::shared_ptr<void> RecordPipeline::HoldGraphs() {
  ++graphs_held_;
  return {nullptr, [this](void*) { --graphs_held_; }};
}

}  // namespace farcall::server
