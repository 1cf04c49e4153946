// SPDX-License-Identifier: Apache-2.0
// What a request to REST says, as the message of its route.
#pragma once

#include <google/protobuf/message.h>

#include "pool/service/service.h"

namespace httplib {
struct Request;
}  // namespace httplib

namespace farcall::pool {

// From body, query, path and headers; `name_field`: what the path's name is, or nullptr.
//   Errors  400, with the field
Outcome ReadMessage(const httplib::Request& request, const char* name_field,
                    google::protobuf::Message* in);

}  // namespace farcall::pool
