// SPDX-License-Identifier: Apache-2.0
// The audit file: lines are never lost, whatever a rotation of logs does to it.
#include "server/supervisor/audit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace farcall::server {
namespace {

class AuditTest : public testing::Test {
 protected:
  AuditTest() {
    char folder[] = "/tmp/farcall-audit-XXXXXX";
    folder_ = mkdtemp(folder);
    path_ = folder_ / "audit.jsonl";
  }
  ~AuditTest() override { std::filesystem::remove_all(folder_); }

  static std::vector<std::string> EventsOf(const std::filesystem::path& file) {
    std::vector<std::string> events;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);)
      events.push_back(nlohmann::json::parse(line).at("event"));
    return events;
  }

  std::filesystem::path folder_, path_;
  Audit audit_;
};

using Events = std::vector<std::string>;

TEST_F(AuditTest, AppendsToWhatIsThere) {
  ASSERT_TRUE(audit_.Open(path_).ok());
  audit_.Note("first", {});
  Audit again;
  ASSERT_TRUE(again.Open(path_).ok());
  again.Note("second", {});
  EXPECT_EQ(EventsOf(path_), (Events{"first", "second"}));
}

TEST_F(AuditTest, BeginsANewFileWhenItsOwnWasRenamed) {
  ASSERT_TRUE(audit_.Open(path_).ok());
  audit_.Note("first", {});
  std::filesystem::rename(path_, folder_ / "audit.jsonl.1");
  audit_.Note("second", {});
  audit_.Note("third", {});
  EXPECT_EQ(EventsOf(folder_ / "audit.jsonl.1"), Events{"first"});
  EXPECT_EQ(EventsOf(path_), (Events{"second", "third"}));
}

TEST_F(AuditTest, GoesOnInANewFileThatAnotherHasMade) {
  ASSERT_TRUE(audit_.Open(path_).ok());
  std::filesystem::rename(path_, folder_ / "audit.jsonl.1");
  std::ofstream(path_).close();
  audit_.Note("only", {});
  EXPECT_EQ(EventsOf(path_), Events{"only"});
}

TEST_F(AuditTest, KeepsTheRenamedFileWhereNoneCanBeMade) {
  const std::filesystem::path inner = folder_ / "inner";
  std::filesystem::create_directory(inner);
  ASSERT_TRUE(audit_.Open(inner / "audit.jsonl").ok());
  std::filesystem::rename(inner, folder_ / "elsewhere");
  audit_.Note("only", {});
  EXPECT_EQ(EventsOf(folder_ / "elsewhere/audit.jsonl"), Events{"only"});
}

}  // namespace
}  // namespace farcall::server
