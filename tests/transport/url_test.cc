// SPDX-License-Identifier: Apache-2.0
#include "transport/url.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace farcall {
namespace {

TEST(Endpoints, AListIsWrittenOutEachByItself) {
  EXPECT_EQ(*WholeEndpoints("gpu"), "tcp://gpu:7717");
  EXPECT_EQ(*WholeEndpoints("gpu,tls://[::1],tcp://b:9"),
            "tcp://gpu:7717,tls://[::1]:7717,tcp://b:9");
  EXPECT_EQ(SplitEndpoints("tcp://a:1,tcp://b:2"),
            (std::vector<std::string>{"tcp://a:1", "tcp://b:2"}));
  EXPECT_EQ(SplitEndpoints("tcp://a:1"), std::vector<std::string>{"tcp://a:1"});
}

TEST(Endpoints, ListsThatAreNone) {
  std::string many = "h0";
  for (size_t i = 1; i <= kMaxEndpoints; ++i) many += ",h" + std::to_string(i);
  for (const std::string& text :
       {std::string("a,a:7717"), std::string("a,pool://b"), std::string("a,,b"), std::string(",a"),
        std::string("a,"), std::string("a,b:x"), many})
    EXPECT_EQ(WholeEndpoints(text).status().code(), Code::kInvalid) << text;
}

TEST(UrlTest, ReadsHostsAndPorts) {
  struct Case {
    const char* url;
    const char* host;
    uint16_t port;
  };
  for (const Case& c : {Case{"tcp://gpu7:7070", "gpu7", 7070}, Case{"tcp://[::1]:1", "::1", 1},
                        Case{"tcp://127.0.0.1:65535/", "127.0.0.1", 65535},
                        Case{"tcp://0.0.0.0:0", "0.0.0.0", 0}}) {
    Result<Url> url = ParseUrl(c.url);
    ASSERT_TRUE(url.ok()) << c.url;
    Result<HostPort> at = ParseHostPort(*url);
    ASSERT_TRUE(at.ok()) << c.url << ": " << at.status().message();
    EXPECT_EQ(at->host, c.host);
    EXPECT_EQ(at->port, c.port);
  }
}

TEST(UrlTest, NamesTheValueAndTheRightForm) {
  for (const char* text : {"", "gpu7:7070", "://x", "tcp://", "TCP://h:1", "t p://h:1"}) {
    Result<Url> url = ParseUrl(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_EQ(url.status().code(), Code::kInvalid);
    EXPECT_NE(url.status().message().find("\"" + std::string(text) + "\""), std::string::npos);
    EXPECT_NE(url.status().message().find("host:port"), std::string::npos);
  }
  for (const char* text : {"tcp://gpu7", "tcp://:1", "tcp://h:", "tcp://h:x", "tcp://h:65536",
                           "tcp://h:-1", "tcp://h:1 ", "tcp://::1:5", "tcp://[::1]", "tcp://[::1",
                           "tcp://[::1]5", "tcp://h:99999999999999999999", "tcp://[[a]:1",
                           "tcp://a/b:1", "tcp://a b:1", "tcp://a\n:1"}) {
    Result<Url> url = ParseUrl(text);
    ASSERT_TRUE(url.ok()) << text;
    EXPECT_EQ(ParseHostPort(*url).status().code(), Code::kInvalid) << text;
  }
}

TEST(UrlTest, WritesOutWhatClientsAreGiven) {
  for (const auto& [given, whole] :
       {std::pair("gpu-host", "tcp://gpu-host:7717"), std::pair("gpu-host:80", "tcp://gpu-host:80"),
        std::pair("tcp://gpu-host", "tcp://gpu-host:7717"), std::pair("tcp://h:1/", "tcp://h:1"),
        std::pair("[::1]", "tcp://[::1]:7717"), std::pair("[::1]:5", "tcp://[::1]:5"),
        std::pair("pool://ctl", "pool://ctl:7718"), std::pair("pools://ctl:1", "pools://ctl:1"),
        std::pair("ucx://gpu-host", "ucx://gpu-host:7717"),
        std::pair("verbs://gpu-host", "verbs://gpu-host:7717"),
        std::pair("shm://name", "shm://name")}) {
    Result<std::string> got = WholeEndpoint(given);
    ASSERT_TRUE(got.ok()) << given << ": " << got.status().message();
    EXPECT_EQ(*got, whole);
  }
  for (const char* text : {"", "tcp://", "a b", "h:", "h:x", "h:65536", "pool://", "pool:///",
                           "://h", "tcp:/h", "[::1", "h\n"})
    EXPECT_EQ(WholeEndpoint(text).status().code(), Code::kInvalid) << text;
}

TEST(UrlTest, NamesTheSocketOfThisUsersServer) {
  const char* before = std::getenv("FARCALL_RUN_DIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("FARCALL_RUN_DIR", "/somewhere", 1);
  EXPECT_EQ(*WholeEndpoint("shm://"), "shm:///somewhere/7717.shm");
  before == nullptr ? unsetenv("FARCALL_RUN_DIR") : setenv("FARCALL_RUN_DIR", kept.c_str(), 1);
}

TEST(UrlTest, ShowsWhatItRefusesInOneLine) {
  EXPECT_EQ(ParseUrl("a\n\x1b[2Jb").status().message(),
            "endpoint \"a\\n\\x1b[2Jb\": has no transport; write tcp://host:port");
}

TEST(UrlTest, KnowsWhatLeavesTheHost) {
  for (const char* url : {"tcp://127.0.0.1:1", "ucx://localhost:1", "tls://[::1]:1", "shm:///s"})
    EXPECT_TRUE(IsLoopbackUrl(url)) << url;
  for (const char* url : {"tcp://0.0.0.0:1", "ucx://0.0.0.0:1", "ucx://gpu-host:1"})
    EXPECT_FALSE(IsLoopbackUrl(url)) << url;
}

TEST(UrlTest, FormatsIpv6InBrackets) {
  EXPECT_EQ(FormatHostPort("::1", 5), "[::1]:5");
  EXPECT_EQ(FormatHostPort("h", 5), "h:5");
}

}  // namespace
}  // namespace farcall
