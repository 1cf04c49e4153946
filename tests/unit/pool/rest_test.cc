// SPDX-License-Identifier: Apache-2.0
// What the pool's REST refuses before or after its library has read it.
#include "pool/rest/rest.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "listener/descriptors.h"
#include "tests/fuzz/pool_world.h"

namespace farcall::pool {
namespace {

using Json = nlohmann::json;

class RestTest : public testing::Test {
 protected:
  RestTest() : server_(&world_.service(), fuzz::PoolWorld::callers(), {}) {}

  static std::string Head(const std::string& line, const std::string& fields = "",
                          size_t body_bytes = 0) {
    return line + " HTTP/1.1\r\nAuthorization: Bearer " + fuzz::kTokenA + "\r\n" + fields +
           "Content-Length: " + std::to_string(body_bytes) + "\r\n\r\n";
  }
  // The answer; `least_fd`: its connection has this descriptor or a higher one.
  std::string Ask(const std::string& request, int least_fd = 0) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    const int served = fcntl(ends[1], F_DUPFD_CLOEXEC, least_fd);
    close(ends[1]);
    EXPECT_GE(served, least_fd);
    {
      HttpConnection connection(served, nullptr);
      EXPECT_EQ(send(ends[0], request.data(), request.size(), 0),
                static_cast<ssize_t>(request.size()));
      if (connection.Read({}) == HttpConnection::State::kWhole) server_.Answer(connection);
    }
    std::string answer(1 << 20, '\0');
    answer.resize(static_cast<size_t>(
        std::max<ssize_t>(recv(ends[0], answer.data(), answer.size(), MSG_DONTWAIT), 0)));
    close(ends[0]);
    return answer;
  }
  static std::string StatusOf(const std::string& answer) { return answer.substr(9, 3); }
  static Json BodyOf(const std::string& answer) {
    return Json::parse(answer.substr(answer.find("\r\n\r\n") + 4), nullptr, false);
  }
  void ExpectRefused(const std::string& request) {
    const std::string answer = Ask(request);
    EXPECT_EQ(StatusOf(answer), "400") << answer;
    EXPECT_TRUE(BodyOf(answer).is_object()) << answer;
  }

  fuzz::PoolWorld world_;  // at its end the next controller reads all claims
  RestServer server_;
};

TEST_F(RestTest, UnpacksNoBody) {
  EXPECT_EQ(StatusOf(Ask(Head("POST /v1/join", "Content-Encoding: br\r\n"))), "415");
  EXPECT_EQ(StatusOf(Ask(Head("POST /v1/claims", "content-encoding: gzip\r\n"))), "415");
}

TEST_F(RestTest, SendsNoAnswerInParts) {
  EXPECT_EQ(StatusOf(Ask(Head("GET /openapi.json", "Range: bytes=0-,0-,0-\r\n"))), "416");
}

TEST_F(RestTest, AnswersHoweverManyDescriptorsAreOpen) {
  if (RaiseDescriptorLimit() < 3000) GTEST_SKIP() << "this user may open too few files";
  EXPECT_EQ(StatusOf(Ask(Head("GET /v1/pool"), 2000)), "200");
}

TEST_F(RestTest, TakesNoTextThatCannotBeReadBack) {
  const std::string body = "{\"memory_bytes\":\"1\",\"owner\":\"\xff\"}";
  ExpectRefused(Head("POST /v1/claims", "Idempotency-Key: \xff\xfe\r\n"));
  ExpectRefused(Head("POST /v1/claims?memory_bytes=1&owner=%ff"));
  ExpectRefused(Head("POST /v1/claims", "", body.size()) + body);
  ExpectRefused(Head("GET /v1/claims?watch=1&name=%ff"));
}

TEST_F(RestTest, ErrorsAreShortAndJson) {
  std::string long_name;
  for (int i = 0; i < 200; ++i) long_name += "%E2%82%AC";
  for (const char* path : {"/v1/claims?none=", "/v1/claims?limit=", "/v1/none/"}) {
    const std::string answer = Ask(Head("GET " + std::string(path) + long_name));
    Json error = BodyOf(answer);
    ASSERT_TRUE(error.is_object()) << answer;
    EXPECT_LE(error["message"].get<std::string>().size(), 512u);
  }
}

TEST_F(RestTest, APlanIsHeldToTheBoundsOfARequest) {
  const std::string body = R"({"share_milli":1001})";
  const std::string answer = Ask(Head("POST /v1/claims:plan", "", body.size()) + body);
  EXPECT_EQ(StatusOf(answer), "400") << answer;
  EXPECT_EQ(BodyOf(answer)["field"], "share_milli");
}

}  // namespace
}  // namespace farcall::pool
