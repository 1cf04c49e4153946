// SPDX-License-Identifier: Apache-2.0
// Our declarations of UCX's binary interface against its own headers, where these are installed.
#include "transport/ucx/ucx_abi.h"

#include <gtest/gtest.h>
#include <ucp/api/ucp.h>

namespace farcall::ucx {
namespace {

#define SAME_PLACE(ours, our_member, theirs, their_member)                      \
  static_assert(offsetof(ours, our_member) == offsetof(theirs, their_member) && \
                sizeof(ours::our_member) == sizeof(theirs::their_member))

SAME_PLACE(ContextParams, mask, ucp_params_t, field_mask);
SAME_PLACE(ContextParams, features, ucp_params_t, features);
SAME_PLACE(ContextParams, is_shared, ucp_params_t, mt_workers_shared);
SAME_PLACE(ContextParams, name, ucp_params_t, name);
SAME_PLACE(WorkerParams, thread_mode, ucp_worker_params_t, thread_mode);
SAME_PLACE(WorkerParams, events, ucp_worker_params_t, events);
SAME_PLACE(WorkerParams, client_id, ucp_worker_params_t, client_id);
SAME_PLACE(EndpointParams, address, ucp_ep_params_t, address);
SAME_PLACE(EndpointParams, error_mode, ucp_ep_params_t, err_mode);
SAME_PLACE(EndpointParams, on_error, ucp_ep_params_t, err_handler.cb);
SAME_PLACE(EndpointParams, error_argument, ucp_ep_params_t, err_handler.arg);
SAME_PLACE(EndpointParams, flags, ucp_ep_params_t, flags);
SAME_PLACE(ReceiveParams, attributes, ucp_am_recv_param_t, recv_attr);
SAME_PLACE(ReceiveParams, reply_endpoint, ucp_am_recv_param_t, reply_ep);
SAME_PLACE(HandlerParams, id, ucp_am_handler_param_t, id);
SAME_PLACE(HandlerParams, flags, ucp_am_handler_param_t, flags);
SAME_PLACE(HandlerParams, callback, ucp_am_handler_param_t, cb);
SAME_PLACE(HandlerParams, argument, ucp_am_handler_param_t, arg);
SAME_PLACE(RequestParams, mask, ucp_request_param_t, op_attr_mask);
SAME_PLACE(RequestParams, flags, ucp_request_param_t, flags);
SAME_PLACE(RequestParams, request, ucp_request_param_t, request);
SAME_PLACE(RequestParams, send, ucp_request_param_t, cb);
SAME_PLACE(RequestParams, user_data, ucp_request_param_t, user_data);
SAME_PLACE(RequestParams, memory_handle, ucp_request_param_t, memh);
static_assert(sizeof(ContextParams) >= sizeof(ucp_params_t));
static_assert(sizeof(WorkerParams) >= sizeof(ucp_worker_params_t));
static_assert(sizeof(EndpointParams) >= sizeof(ucp_ep_params_t));
static_assert(sizeof(HandlerParams) >= sizeof(ucp_am_handler_param_t));
static_assert(sizeof(RequestParams) >= sizeof(ucp_request_param_t));
static_assert(sizeof(StatusCode) == sizeof(ucs_status_t));

TEST(UcxAbiTest, NumbersAreUcxs) {
  EXPECT_EQ(kInProgress, UCS_INPROGRESS);
  EXPECT_EQ(kBusy, UCS_ERR_BUSY);
  EXPECT_EQ(kRejected, UCS_ERR_REJECTED);
  EXPECT_EQ(kLastError, UCS_ERR_LAST);
  EXPECT_EQ(kFeatureActiveMessages, uint64_t{UCP_FEATURE_AM});
  EXPECT_EQ(kFeatureWakeup, uint64_t{UCP_FEATURE_WAKEUP});
  EXPECT_EQ(ContextParams::kFeatures, uint64_t{UCP_PARAM_FIELD_FEATURES});
  EXPECT_EQ(ContextParams::kShared, uint64_t{UCP_PARAM_FIELD_MT_WORKERS_SHARED});
  EXPECT_EQ(ContextParams::kName, uint64_t{UCP_PARAM_FIELD_NAME});
  EXPECT_EQ(WorkerParams::kThreadMode, uint64_t{UCP_WORKER_PARAM_FIELD_THREAD_MODE});
  EXPECT_EQ(WorkerParams::kSerialized, int{UCS_THREAD_MODE_SERIALIZED});
  EXPECT_EQ(EndpointParams::kAddress, uint64_t{UCP_EP_PARAM_FIELD_REMOTE_ADDRESS});
  EXPECT_EQ(EndpointParams::kErrorMode, uint64_t{UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE});
  EXPECT_EQ(EndpointParams::kErrorHandler, uint64_t{UCP_EP_PARAM_FIELD_ERR_HANDLER});
  EXPECT_EQ(EndpointParams::kPeerErrors, int{UCP_ERR_HANDLING_MODE_PEER});
  EXPECT_EQ(ReceiveParams::kRendezvous, uint64_t{UCP_AM_RECV_ATTR_FLAG_RNDV});
  EXPECT_EQ(HandlerParams::kId, uint64_t{UCP_AM_HANDLER_PARAM_FIELD_ID});
  EXPECT_EQ(HandlerParams::kFlags, uint64_t{UCP_AM_HANDLER_PARAM_FIELD_FLAGS});
  EXPECT_EQ(HandlerParams::kCallback, uint64_t{UCP_AM_HANDLER_PARAM_FIELD_CB});
  EXPECT_EQ(HandlerParams::kArgument, uint64_t{UCP_AM_HANDLER_PARAM_FIELD_ARG});
  EXPECT_EQ(HandlerParams::kWholeMessage, uint32_t{UCP_AM_FLAG_WHOLE_MSG});
  EXPECT_EQ(RequestParams::kCallback, uint32_t{UCP_OP_ATTR_FIELD_CALLBACK});
  EXPECT_EQ(RequestParams::kUserData, uint32_t{UCP_OP_ATTR_FIELD_USER_DATA});
  EXPECT_EQ(RequestParams::kFlags, uint32_t{UCP_OP_ATTR_FIELD_FLAGS});
  EXPECT_EQ(RequestParams::kCloseForce, uint32_t{UCP_EP_CLOSE_FLAG_FORCE});
}

}  // namespace
}  // namespace farcall::ucx
