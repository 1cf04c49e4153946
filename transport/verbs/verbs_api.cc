// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/verbs_api.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

namespace farcall {
namespace {

constexpr char kPathVariable[] = "FARCALL_IBVERBS_PATH";
constexpr char kLibrary[] = "libibverbs.so.1";

int PostSend(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad) {
  return qp->context->ops.post_send(qp, request, bad);
}
int PostReceive(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr** bad) {
  return qp->context->ops.post_recv(qp, request, bad);
}
int PollQueue(ibv_cq* cq, int count, ibv_wc* completions) {
  return cq->context->ops.poll_cq(cq, count, completions);
}
int RequestNotice(ibv_cq* cq, int solicited_only) {
  return cq->context->ops.req_notify_cq(cq, solicited_only);
}

struct Loaded {
  VerbsApi api;
  Status status;
};

template <typename Function>
void Find(void* library, const char* name, Function* function, const char** missing) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr && missing != nullptr && *missing == nullptr) *missing = name;
}

Status Load(VerbsApi* api) {
  const char* given = getenv(kPathVariable);
  const std::string path = given == nullptr || *given == '\0' ? kLibrary : given;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return {Code::kUnavailable,
            "libibverbs cannot be loaded: " + std::string(why == nullptr ? path : why) +
                "; install rdma-core's libibverbs1 and ibverbs-providers, or name the library by " +
                kPathVariable};
  }
  const char* missing = nullptr;
  Find(library, "ibv_get_device_list", &api->get_device_list, &missing);
  Find(library, "ibv_free_device_list", &api->free_device_list, &missing);
  Find(library, "ibv_get_device_name", &api->get_device_name, &missing);
  Find(library, "ibv_open_device", &api->open_device, &missing);
  Find(library, "ibv_close_device", &api->close_device, &missing);
  Find(library, "ibv_query_device", &api->query_device, &missing);
  Find(library, "ibv_query_port", &api->query_port, &missing);
  Find(library, "ibv_query_gid", &api->query_gid, &missing);
  Find(library, "_ibv_query_gid_ex", &api->query_gid_entry, nullptr);
  Find(library, "ibv_is_fork_initialized", &api->is_fork_initialized, nullptr);
  Find(library, "ibv_fork_init", &api->fork_init, &missing);
  Find(library, "ibv_wc_status_str", &api->wc_status_str, &missing);
  Find(library, "ibv_alloc_pd", &api->alloc_pd, &missing);
  Find(library, "ibv_dealloc_pd", &api->dealloc_pd, &missing);
  Find(library, "ibv_reg_mr", &api->reg_mr, &missing);
  Find(library, "ibv_dereg_mr", &api->dereg_mr, &missing);
  Find(library, "ibv_create_comp_channel", &api->create_comp_channel, &missing);
  Find(library, "ibv_destroy_comp_channel", &api->destroy_comp_channel, &missing);
  Find(library, "ibv_create_cq", &api->create_cq, &missing);
  Find(library, "ibv_destroy_cq", &api->destroy_cq, &missing);
  Find(library, "ibv_get_cq_event", &api->get_cq_event, &missing);
  Find(library, "ibv_ack_cq_events", &api->ack_cq_events, &missing);
  Find(library, "ibv_create_qp", &api->create_qp, &missing);
  Find(library, "ibv_modify_qp", &api->modify_qp, &missing);
  Find(library, "ibv_destroy_qp", &api->destroy_qp, &missing);
  if (missing != nullptr)
    return {Code::kUnavailable, path + " has no " + missing + ": it is no libibverbs that fits"};
  api->post_send = &PostSend;
  api->post_recv = &PostReceive;
  api->poll_cq = &PollQueue;
  api->req_notify_cq = &RequestNotice;
  return {};
}

}  // namespace

Result<const VerbsApi*> LoadVerbs() {
  static const Loaded* const loaded = [] {
    auto* made = new Loaded;
    made->status = Load(&made->api);
    return made;
  }();
  return loaded->status.ok() ? Result<const VerbsApi*>(&loaded->api) : loaded->status;
}

}  // namespace farcall
