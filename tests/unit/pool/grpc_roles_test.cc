// SPDX-License-Identifier: Apache-2.0
// Each method of the pool's gRPC, asked by a user of each role, over the loopback.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "pool/access/access.h"
#include "pool/grpc/grpc_service.h"

namespace farcall::pool {
namespace {

class PoolGrpcRoles : public testing::Test {
 protected:
  PoolGrpcRoles() {
    char folder[] = "/tmp/pool-roles-XXXXXX";
    folder_ = mkdtemp(folder);
    Loaded loaded;
    auto store = Store::Open(folder_ + "/pool.db", &loaded);
    EXPECT_TRUE(store.ok());
    controller_ = std::make_unique<Controller>(std::move(*store), loaded, Timing(), Limits());
    service_ = std::make_unique<Service>(controller_.get(), ServiceOptions{});
    callers_ = std::make_unique<Callers>("", std::vector<TokenVerifier>{}, false,
                                         &controller_->accounts(), true);
    server_ = std::make_unique<GrpcServer>(
        service_.get(), GrpcServer::Options{"127.0.0.1:0", *callers_, "pool", {}, {}});
    EXPECT_TRUE(server_->Open().ok());
    controller_->Start();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()),
                                   grpc::InsecureChannelCredentials());
  }
  ~PoolGrpcRoles() override {
    channel_.reset();
    controller_->Stop();
    server_->Close();
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string TokenOf(Role role) {
    const Caller first{true, ""};
    pb::User user, made;
    user.set_name("u-" + std::string(ToText(role)));
    if (role != Role::kNone) user.add_roles()->set_role(std::string(ToText(role)));
    EXPECT_TRUE(service_->AddUser(first, user, &made).ok());
    pb::TokenRequest request;
    request.set_user(user.name());
    pb::Token token;
    EXPECT_TRUE(service_->NewToken(first, request, &token).ok());
    return token.token();
  }

  // Of an empty message; a stream is not waited for.
  grpc::StatusCode Ask(const std::string& path, const std::string& token) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
    grpc::CompletionQueue queue;
    const grpc::Slice empty;
    grpc::ByteBuffer request(&empty, 1), answer;
    auto call = stub.PrepareUnaryCall(&context, path, request, &queue);
    call->StartCall();
    grpc::Status status;
    call->Finish(&answer, &status, nullptr);
    void* tag = nullptr;
    bool is_ok = false;
    queue.Next(&tag, &is_ok);
    return status.error_code();
  }

  std::string folder_;
  std::unique_ptr<Controller> controller_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<Callers> callers_;
  std::unique_ptr<GrpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(PoolGrpcRoles, every_method_asks_for_its_role) {
  std::map<Role, std::string> tokens;
  for (Role role : {Role::kNone, Role::kViewer, Role::kUser, Role::kAdmin, Role::kOperator})
    tokens[role] = TokenOf(role);
  const google::protobuf::FileDescriptor* file = v1::Claim::descriptor()->file();
  size_t asked = 0;
  for (int i = 0; i < file->service_count(); ++i)
    for (int j = 0; j < file->service(i)->method_count(); ++j) {
      const auto* service = file->service(i);
      const std::string method = service->method(j)->name(), call = service->name() + "." + method;
      const Rule& rule = RuleOf(call);
      if (rule.lets_in == LetsIn::kAnybody) continue;  // a host's own, by other secrets
      const std::string path = "/" + service->full_name() + "/" + method;
      EXPECT_EQ(Ask(path, ""), grpc::StatusCode::UNAUTHENTICATED) << call;
      EXPECT_EQ(Ask(path, "fcu_0"), grpc::StatusCode::UNAUTHENTICATED) << call;
      for (const auto& [role, token] : tokens) {
        // An admin of nothing in particular: what it gives is judged by its project.
        if (service->method(j)->server_streaming() && role >= rule.least) continue;
        const bool may = rule.lets_in == LetsIn::kCallers || role >= rule.least;
        const grpc::StatusCode got = Ask(path, token);
        EXPECT_NE(got, grpc::StatusCode::UNAUTHENTICATED) << call;
        EXPECT_EQ(got != grpc::StatusCode::PERMISSION_DENIED, may) << call << " " << ToText(role);
        ++asked;
      }
    }
  EXPECT_GT(asked, 100u);
}

}  // namespace
}  // namespace farcall::pool
