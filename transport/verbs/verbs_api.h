// SPDX-License-Identifier: Apache-2.0
// libibverbs, loaded when it is first asked for. Everything of it goes through one table of
// functions, so that no library of ours is linked with it and tests can put their own functions in.
// Its header is needed to build this, <infiniband/verbs.h>: only structures and constants of it.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "proto/status.h"

namespace farcall {

struct VerbsApi {
  ibv_device** (*get_device_list)(int* count) = nullptr;
  void (*free_device_list)(ibv_device** list) = nullptr;
  const char* (*get_device_name)(ibv_device* device) = nullptr;
  ibv_context* (*open_device)(ibv_device* device) = nullptr;
  int (*close_device)(ibv_context* context) = nullptr;
  int (*query_device)(ibv_context* context, ibv_device_attr* attributes) = nullptr;
  // As exported: it fills the first part of ibv_port_attr.
  int (*query_port)(ibv_context* context, uint8_t port, ibv_port_attr* attributes) = nullptr;
  int (*query_gid)(ibv_context* context, uint8_t port, int index, ibv_gid* gid) = nullptr;
  // With the GID's type; null in old libraries.
  int (*query_gid_entry)(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry,
                         uint32_t flags, size_t entry_bytes) = nullptr;
  int (*is_fork_initialized)() = nullptr;  // an ibv_fork_status; null in old libraries
  int (*fork_init)() = nullptr;
  const char* (*wc_status_str)(ibv_wc_status status) = nullptr;

  ibv_pd* (*alloc_pd)(ibv_context* context) = nullptr;
  int (*dealloc_pd)(ibv_pd* pd) = nullptr;
  ibv_mr* (*reg_mr)(ibv_pd* pd, void* memory, size_t bytes, int access) = nullptr;
  int (*dereg_mr)(ibv_mr* mr) = nullptr;
  ibv_comp_channel* (*create_comp_channel)(ibv_context* context) = nullptr;
  int (*destroy_comp_channel)(ibv_comp_channel* channel) = nullptr;
  ibv_cq* (*create_cq)(ibv_context* context, int entries, void* user, ibv_comp_channel* channel,
                       int vector) = nullptr;
  int (*destroy_cq)(ibv_cq* cq) = nullptr;
  int (*get_cq_event)(ibv_comp_channel* channel, ibv_cq** cq, void** user) = nullptr;
  void (*ack_cq_events)(ibv_cq* cq, unsigned count) = nullptr;
  ibv_qp* (*create_qp)(ibv_pd* pd, ibv_qp_init_attr* attributes) = nullptr;
  int (*modify_qp)(ibv_qp* qp, ibv_qp_attr* attributes, int mask) = nullptr;
  int (*destroy_qp)(ibv_qp* qp) = nullptr;

  // Of the device's own driver: libibverbs has them as inline functions over context->ops.
  int (*post_send)(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad) = nullptr;
  int (*post_recv)(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr** bad) = nullptr;
  int (*poll_cq)(ibv_cq* cq, int count, ibv_wc* completions) = nullptr;
  int (*req_notify_cq)(ibv_cq* cq, int solicited_only) = nullptr;
};

// Loads libibverbs.so.1: FARCALL_IBVERBS_PATH, a file, or where the loader finds it.
//   Errors  kUnavailable, one line; the same one at every later call
//   Thread  any
Result<const VerbsApi*> LoadVerbs();

}  // namespace farcall
