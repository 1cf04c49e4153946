// SPDX-License-Identifier: Apache-2.0
// The pool's REST: the input is what a peer sends on one connection, requests one behind the other.
// They go where the port's threads take them: framing, the HTTP library's parser, routes, handlers,
// controller, store. Whatever comes, each answer is whole and bounded, and JSON where it says so;
// no exception leaves a handler; and tenant a (token-of-tenant-a) neither sees nor changes what
// tenant b has, nor gets what is not there.
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "pool/http/http_connection.h"
#include "pool/rest/rest.h"
#include "tests/fuzz/pool_world.h"

namespace {

using namespace farcall;
using farcall::fuzz::Fail;

constexpr size_t kMaxAnswerBytes = 1u << 20;
constexpr std::string_view kHeadEnd = "\r\n\r\n";

bool Holds(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

std::optional<std::string_view> Field(std::string_view head, std::string_view name) {
  for (size_t at = head.find("\r\n"); at != head.npos; at = head.find("\r\n", at + 2)) {
    std::string_view line = head.substr(at + 2, head.find("\r\n", at + 2) - at - 2);
    if (line.size() <= name.size() || line[name.size()] != ':' ||
        strncasecmp(line.data(), name.data(), name.size()) != 0)
      continue;
    line.remove_prefix(name.size() + 1);
    return line.substr(std::min(line.find_first_not_of(' '), line.size()));
  }
  return std::nullopt;
}

// A request line that can be read, of HEAD: one that cannot is answered as any other.
bool IsHead(std::string_view request) {
  std::string_view line = request.substr(0, request.find("\r\n"));
  const size_t space = line.rfind(' ');
  return line.substr(0, 5) == "HEAD " && space > 5 &&
         (line.substr(space + 1) == "HTTP/1.1" || line.substr(space + 1) == "HTTP/1.0");
}

// One answer, from its first byte to its last.
void CheckAnswer(std::string_view answer, bool is_head) {
  constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  while (answer.substr(0, kContinue.size()) == kContinue) answer.remove_prefix(kContinue.size());
  if (answer.empty()) return;  // the connection just closes
  if (answer.size() > kMaxAnswerBytes) Fail("an answer of " + std::to_string(answer.size()));
  const size_t end = answer.find(kHeadEnd);
  if (answer.substr(0, 9) != "HTTP/1.1 " || end == answer.npos) Fail("no HTTP");
  std::string_view head = answer.substr(0, end + 2), body = answer.substr(end + kHeadEnd.size());
  if (Field(head, "EXCEPTION_WHAT") || answer.substr(9, 3) == "500")
    Fail("an exception left a handler: " + std::string(answer));
  if (Field(head, "Transfer-Encoding") || Field(head, "Content-Encoding")) return;
  size_t length = 0;
  if (auto told = Field(head, "Content-Length"))
    std::from_chars(told->data(), told->data() + told->size(), length);
  if (is_head ? !body.empty() : body.size() != length)
    Fail("a body of another length than told: " + std::string(answer));
  if (!is_head && Field(head, "Content-Type") == "application/json" &&
      !nlohmann::json::accept(body))
    Fail("no JSON: " + std::string(body));
}

std::string Drain(int fd) {
  std::string bytes;
  char some[16384];
  for (ssize_t got = 0; (got = recv(fd, some, sizeof(some), MSG_DONTWAIT)) > 0;)
    bytes.append(some, static_cast<size_t>(got));
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMaxInput = 64u << 10;  // what the socket holds
  if (size == 0 || size > kMaxInput) return 0;
  fuzz::PoolWorld world;
  pool::RestServer server(&world.service(), fuzz::PoolWorld::callers(), {});
  server.Close();  // nothing listens, and what would never end ends at once
  const std::string bytes =
      world.WithClaims(std::string(reinterpret_cast<const char*>(data), size));
  const bool a_alone = !Holds(bytes, fuzz::kOperatorToken) && !Holds(bytes, fuzz::kTokenB);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    Fail("no sockets");
  if (send(ends[0], bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    Fail("the input does not fit the socket");
  pool::HttpConnection connection(ends[1], nullptr);
  bool goes_on = true;
  while (goes_on) {
    goes_on = connection.Read({}) == pool::HttpConnection::State::kWhole;
    const bool is_head = goes_on && IsHead(connection.request());
    goes_on = goes_on && server.Answer(connection);
    const std::string answer = Drain(ends[0]);
    CheckAnswer(answer, is_head);
    if (a_alone && Holds(answer, world.secret())) Fail("tenant a sees a claim of tenant b");
    world.Check(a_alone);
    world.Beat();
    world.Check(a_alone);
    if (goes_on) connection.Next();
  }
  close(ends[0]);
  return 0;
}
