// SPDX-License-Identifier: Apache-2.0
// Settings: what is read, what is refused and how it is said.
#include "server/supervisor/options/serve_options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "transport/url.h"

namespace farcall::server {
namespace {

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) {
    path_ =
        (std::filesystem::temp_directory_path() / ("farcall-config-" + std::to_string(getpid())))
            .string();
    std::ofstream(path_) << text;
  }
  ~ConfigFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string WhatIsWrong(const std::string& text) {
  ConfigFile file(text);
  ServeOptions options;
  Status read = ReadServeConfig(file.path(), &options);
  EXPECT_EQ(read.code(), Code::kInvalid);
  return read.message().substr(file.path().size());
}

TEST(ServeOptions, ReadsEverySetting) {
  ConfigFile file(
      "listen = [\"tcp://127.0.0.1:1\", \"tcp://[::1]:2\"]\ndevice = \"cpu\"\ngpus = "
      "\"0,1\"\ntoken = \"t\"\n"
      "mem = \"4GiB\"\ngrace = 5\nmax_sessions = 7\nlanes = 4\nlog_level = \"debug\"\n");
  ServeOptions options;
  Status read = ReadServeConfig(file.path(), &options);
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(options.listen.size(), 2u);
  EXPECT_EQ(options.device, "cpu");
  EXPECT_EQ(options.gpus, "0,1");
  ASSERT_EQ(options.tokens.size(), 1u);
  EXPECT_EQ(FindToken(options.tokens, "t"), &options.tokens[0]);
  EXPECT_EQ(options.memory_bytes, uint64_t{4} << 30);
  EXPECT_EQ(options.grace_seconds, 5u);
  EXPECT_EQ(options.max_sessions, 7u);
  EXPECT_EQ(options.lanes, 4u);
  EXPECT_TRUE(CheckServeOptions(options).ok());
}

TEST(ServeOptions, NamesTheNearestSetting) {
  EXPECT_EQ(WhatIsWrong("listne = \"x\"\n"), ": unknown setting 'listne'; the nearest is 'listen'");
  EXPECT_EQ(WhatIsWrong("tokenfile = \"x\"\n"),
            ": unknown setting 'tokenfile'; the nearest is 'token_file'");
}

TEST(ServeOptions, SaysWhatWouldBeRight) {
  EXPECT_EQ(WhatIsWrong("grace = \"long\"\n"), ": setting 'grace' takes a number from 0 to 86400");
  EXPECT_EQ(WhatIsWrong("lanes = 9\n"), ": setting 'lanes' takes a number from 0 to 8");
  EXPECT_EQ(WhatIsWrong("mem = \"4 apples\"\n"),
            ": setting 'mem': size '4 apples': write it as 4GiB, 512MiB or a number of bytes");
  EXPECT_EQ(WhatIsWrong("device = \n").substr(0, 3), ":1:");
  ServeOptions options;
  EXPECT_EQ(ReadServeConfig("/nonexistent", &options).message(),
            "/nonexistent: cannot be read: No such file or directory");
}

TEST(ServeOptions, RefusesInOneLine) {
  EXPECT_EQ(WhatIsWrong("\"a\\nb\" = 1\n"), ": unknown setting 'a\\nb'; the nearest is 'shm'");
  EXPECT_EQ(WhatIsWrong("mem = \"4\\n\"\n"),
            ": setting 'mem': size '4\\n': write it as 4GiB, 512MiB or a number of bytes");
  ServeOptions options;
  EXPECT_EQ(ReadServeConfig("/", &options).message(), "/: cannot be read: Is a directory");
  for (const char* text : {"a\nb", "\x1b[2J"}) {
    for (const Status& refused :
         {ParseBytes(text).status(), ParsePercent(text).status(), ParsePriority(text).status(),
          ParseFactor(text).status(), ParseModes(text).status(), ParseUserRange(text).status(),
          SetOverhead(text, &options), SetWorkerCalls(text, &options)}) {
      EXPECT_FALSE(refused.ok());
      EXPECT_EQ(refused.message().find_first_of("\n\x1b"), std::string::npos) << refused.message();
    }
  }
}

// Files that are meant to be short are not read for ever.
TEST(ServeOptions, ReadsNoEndlessFile) {
  EXPECT_EQ(ReadTokenFile("/dev/zero").status().message(),
            "token file '/dev/zero': cannot be read: it has more than 65536 bytes");
  std::vector<TokenVerifier> tokens;
  EXPECT_EQ(ReadTokenVerifiers("/dev/zero", &tokens).message(),
            "token verifiers '/dev/zero': cannot be read: it has more than 1048576 bytes");
}

TEST(ServeOptions, ReadsSizes) {
  EXPECT_EQ(*ParseBytes("0"), 0u);
  EXPECT_EQ(*ParseBytes("1000"), 1000u);
  EXPECT_EQ(*ParseBytes("512MiB"), uint64_t{512} << 20);
  EXPECT_EQ(*ParseBytes("2T"), uint64_t{2} << 40);
  for (const char* wrong :
       {"", "GiB", "-1", "0x10", "99999999999999999999", "99999999999TiB", "1GB "})
    EXPECT_FALSE(ParseBytes(wrong).ok()) << wrong;
}

TEST(ServeOptions, ReadsPartsAndFactors) {
  EXPECT_EQ(*ParsePercent("12.5%"), 125u);
  for (const char* wrong : {"0%", "0x10%", "inf%", "nan", "101%", "1e1%"})
    EXPECT_FALSE(ParsePercent(wrong).ok()) << wrong;
  EXPECT_EQ(*ParseFactor("1.8"), 1800u);
  EXPECT_EQ(*ParseFactor("16"), 16000u);
  for (const char* wrong :
       {"", "0.9", "16.1", "0x2", "nan", "inf", "2 ", "1e1", "18446744073709551615"})
    EXPECT_FALSE(ParseFactor(wrong).ok()) << wrong;
}

TEST(ServeOptions, WantsATokenForOtherInterfaces) {
  for (const char* url :
       {"tcp://127.0.0.1:7717", "tcp://127.1.2.3:0", "tcp://localhost:1", "tcp://[::1]:7717"})
    EXPECT_TRUE(IsLoopbackUrl(url)) << url;
  for (const char* url : {"tcp://0.0.0.0:7717", "tcp://[::]:7717", "tcp://127.evil.example:1",
                          "tcp://10.0.0.1:1", "nothing"})
    EXPECT_FALSE(IsLoopbackUrl(url)) << url;
  ServeOptions options;
  options.listen = {"tcp://0.0.0.0:7717"};
  EXPECT_FALSE(CheckServeOptions(options).ok());
  options.tokens = {TokenKeys("t").verifier()};
  EXPECT_TRUE(CheckServeOptions(options).ok());
  options.log_level = "loud";
  EXPECT_FALSE(CheckServeOptions(options).ok());
}

}  // namespace
}  // namespace farcall::server
