// SPDX-License-Identifier: Apache-2.0
// The table of settings: what a row has to hold for the file, the command line and the help.
#include "server/supervisor/options/serve_settings.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace farcall::server {
namespace {

const ServeSetting& Row(std::string_view name) {
  for (const ServeSetting& setting : ServeSettings())
    if (setting.name == name) return setting;
  ADD_FAILURE() << "no setting " << name;
  return ServeSettings().front();
}

TEST(ServeSettings, EachHasOneNameAndOneKind) {
  std::set<std::string_view> names;
  for (const ServeSetting& setting : ServeSettings()) {
    EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
    const int kinds = (setting.text != nullptr) + (setting.bytes != nullptr) +
                      (setting.number != nullptr) + (setting.flag != nullptr) +
                      (setting.list != nullptr) + (setting.parse != nullptr);
    EXPECT_EQ(kinds, 1) << setting.name;
    EXPECT_EQ(setting.group.empty(), setting.help.empty()) << setting.name;
    if (setting.number != nullptr) EXPECT_LT(setting.least, setting.most) << setting.name;
  }
}

// The help shows what really holds where nothing is set.
TEST(ServeSettings, TheShownDefaultIsTheDefault) {
  for (const ServeSetting& setting : ServeSettings()) {
    if (setting.shown_default.empty()) continue;
    ServeOptions before, after;
    const std::string text(setting.shown_default);
    const SettingValue value = setting.number != nullptr
                                   ? SettingValue(static_cast<int64_t>(std::stoll(text)))
                                   : SettingValue(text);
    ASSERT_TRUE(ApplyFlag(setting, value, &after).ok()) << setting.name;
    if (setting.number != nullptr) EXPECT_EQ(*setting.number(after), *setting.number(before));
    if (setting.bytes != nullptr) EXPECT_EQ(*setting.bytes(after), *setting.bytes(before));
    if (setting.text != nullptr) EXPECT_EQ(*setting.text(after), *setting.text(before));
    EXPECT_EQ(after.oversubscribe_milli, before.oversubscribe_milli);
    EXPECT_EQ(after.charges_overhead, before.charges_overhead);
    EXPECT_EQ(after.reports_worker_calls, before.reports_worker_calls);
    EXPECT_EQ(after.shm, before.shm);
  }
}

TEST(ServeSettings, ARefusalNamesTheFlagOrTheFilesSetting) {
  ServeOptions options;
  const ServeSetting& share = Row("max_share");
  EXPECT_EQ(FlagOf(share), "--max-share");
  const std::string typed = ApplyFlag(share, std::string("much"), &options).message();
  EXPECT_EQ(typed.rfind("--max-share: 'much': ", 0), 0u) << typed;
  const std::string read = ApplySetting(share, std::string("much"), "f.toml", &options).message();
  EXPECT_EQ(read.rfind("f.toml: setting 'max_share': 'much': ", 0), 0u) << read;
  EXPECT_EQ(ApplySetting(Row("plaintext"), std::string("yes"), "f.toml", &options).message(),
            "f.toml: setting 'plaintext' takes true or false");
  EXPECT_EQ(ApplySetting(Row("device"), true, "f.toml", &options).message(),
            "f.toml: setting 'device' takes a text");
  EXPECT_EQ(ApplySetting(Row("listen"), int64_t{7717}, "f.toml", &options).message(),
            "f.toml: setting 'listen' takes a URL or a list of URLs");
  EXPECT_EQ(ApplySetting(Row("mem"), true, "f.toml", &options).message(),
            "f.toml: setting 'mem' takes a size such as \"4GiB\"");
}

TEST(ServeSettings, NumbersAreTakenWhereAFormOfTheirOwnIsRead) {
  ServeOptions options;
  EXPECT_TRUE(ApplySetting(Row("oversubscribe"), 1.8, "f.toml", &options).ok());
  EXPECT_EQ(options.oversubscribe_milli, 1800u);
  EXPECT_TRUE(ApplySetting(Row("mem"), int64_t{1 << 20}, "f.toml", &options).ok());
  EXPECT_EQ(options.memory_bytes, uint64_t{1} << 20);
  EXPECT_FALSE(ApplySetting(Row("mem"), int64_t{-1}, "f.toml", &options).ok());
  EXPECT_FALSE(ApplySetting(Row("max_share"), int64_t{50}, "f.toml", &options).ok());
}

TEST(ServeSettings, AFileOfVerifiersTakesThePlaceOfAToken) {
  ServeOptions options;
  std::string text = "secret";
  ASSERT_TRUE(Row("token").parse(&text, &options).ok());
  EXPECT_TRUE(text.find("secret") == text.npos) << "it is wiped";
  ASSERT_EQ(options.tokens.size(), 1u);
  EXPECT_FALSE(ApplyFlag(Row("token_verifier"), std::string("/nowhere"), &options).ok());
  EXPECT_EQ(options.tokens.size(), 1u) << "a file that cannot be read changes nothing";
}

}  // namespace
}  // namespace farcall::server
