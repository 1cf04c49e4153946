// SPDX-License-Identifier: Apache-2.0
// Host functions: the stream is held in the driver's callback until the client has run the
// function.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#pragma GCC diagnostic ignored "-Wstringop-overflow"  // wrong where GCC 12 inlines the library
#endif

#include <mutex>

#include "generated/server/driver_api.h"
#include "generated/server/handwritten.h"
#include "server/calls/graph/graph.h"
#include "server/state/objects/context_state.h"
#include "server/state/session.h"
#include "sync/cond_var.h"

namespace farcall::server {

namespace {

// One host function in a stream or a graph. Lives until it has run once, in a graph as long as the
// session.
struct HostFunction {
  Session* session = nullptr;
  uint64_t function = 0, user_data = 0, wire_stream = 0;
  bool in_graph = false;
  std::shared_ptr<Watch> watch;  // its place in the stream; none in a graph
};

class Turnstile {
 public:
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  CondVar opened_;
  bool open_ = false;
};

void AskClient(HostFunction& host, const std::shared_ptr<Turnstile>& gate) {
  Session& session = *host.session;
  // The last use of the session: once the gate is open, it may go before the driver's thread has.
  uint64_t token =
      session.host_calls().Add([gate, &calls = session.host_calls(), in_graph = host.in_graph] {
        if (!in_graph) calls.HasRun();
        gate->Open();
      });
  Builder body;
  body.Put<uint64_t>(token);
  body.Put<uint64_t>(host.function);
  body.Put<uint64_t>(host.user_data);
  body.Put<int32_t>(CUDA_SUCCESS);
  body.Put<uint64_t>(host.wire_stream);
  session.output().Drain();
  session.mirror_reports().Report();
  session.outbox().Push(SessionCall::kHostCall, body.bytes());
}

// On the driver's thread. The question leaves from the completion thread, behind the bytes of the
// stream's copies.
void CUDA_CB Run(void* data) {
  auto* host = static_cast<HostFunction*>(data);
  auto gate = std::make_shared<Turnstile>();
  Completion& completion = host->session->completion();
  if (host->in_graph) {
    completion.Signal(completion.AddManual(host->session->streams().NewKey(), nullptr,
                                           [host, gate](CUresult) { AskClient(*host, gate); }));
  } else if (completion.Attach(host->watch, [host, gate](CUresult) { AskClient(*host, gate); })) {
    completion.Signal(host->watch);
  } else {
    host->session->host_calls().HasRun();
    gate->Open();
  }
  gate->Wait();
  if (!host->in_graph) delete host;
}

}  // namespace

CUDA_HOST_NODE_PARAMS_v2 GraphHostFunction(Session& session, uint64_t function) {
  auto host = std::make_shared<HostFunction>(HostFunction{&session, function, 0, 0, true, {}});
  session.retained().Keep(host);
  session.host_calls().Expect();  // nobody counts its launches
  return {Run, host.get()};
}

uint64_t GraphHostFunctionOf(CUhostFn function, void* data) {
  return function == Run ? static_cast<HostFunction*>(data)->function : 0;
}

Status Serve_cuLaunchHostFunc(ServeCall& call) {
  auto function = call.in.Get<uint64_t>();
  auto user_data = call.in.Get<uint64_t>();
  auto wire_stream = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  StreamState* stream = call.FindStream(wire_stream);
  if (!call.ready()) return call.RejectStatus();
  Session& session = call.session;
  session.streams().MarkActive(*stream);
  auto* host = new HostFunction{
      &session, function, user_data, wire_stream, session.streams().capturing(stream->native), {}};
  if (!host->in_graph) {
    host->watch =
        session.completion().AddManual(stream->key, stream->context->native, [](CUresult) {});
  }
  std::shared_ptr<Watch> watch = host->watch;
  session.host_calls().Expect();
  call.result = call.api.cuLaunchHostFunc(stream->native, Run, host);
  if (call.result != CUDA_SUCCESS) {
    if (watch != nullptr) session.completion().Signal(watch);
    session.host_calls().HasRun();
    delete host;
  }
  return {};
}

}  // namespace farcall::server
