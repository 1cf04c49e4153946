// SPDX-License-Identifier: Apache-2.0
// The report of a run: its arithmetic, and what it reads.
#include "cli/run_report.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "client-shim/core/report/counters.h"
#include "generated/proto/call_id.h"
#include "server/supervisor/run_totals.h"

namespace farcall::cli {
namespace {

using client::Stats;

class RunReportTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "run_report_" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Leave(const std::string& name, const Stats& stats, size_t bytes = sizeof(Stats)) {
    std::ofstream file(folder_ + "/" + name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&stats), static_cast<std::streamsize>(bytes));
  }

  std::string folder_;
};

TEST_F(RunReportTest, EveryWaitTakesARoundTripAndEveryByteItsTime) {
  RunReport report;
  report.waits = 1000;
  EXPECT_DOUBLE_EQ(AddedSeconds(report, 10, 1), 10.0);
  report.bytes_up = 1'000'000'000;
  report.bytes_down = 250'000'000;
  EXPECT_DOUBLE_EQ(AddedSeconds(report, 0, 10), 1.0);
  EXPECT_DOUBLE_EQ(AddedSeconds(report, 0.1, 100), 0.1 + 0.1);
}

TEST_F(RunReportTest, ProcessesAreSummed) {
  auto stats = std::make_unique<Stats>();
  stats->magic = Stats::kMagic;
  stats->round_trips = 3;
  stats->posted = 10;
  auto& row = stats->by_call[static_cast<size_t>(CallId::cuMemAlloc_v2)];
  row.calls = 5;
  row.posted = 3;
  row.waited = 1;
  row.local_left = 4;
  std::strcpy(stats->library[0], "/opt/libcublas.so.13");
  stats->libraries = 1;
  Leave("1.counters", *stats);
  stats->libraries = 1u << 20;  // not to be believed
  Leave("2.counters", *stats);
  Leave("cut.counters", *stats, 100);
  stats->magic = 0;
  Leave("foreign.counters", *stats);
  RunReport report;
  ReadCounters(folder_, &report);
  EXPECT_EQ(report.processes, 2u);
  EXPECT_EQ(report.waits, 6u);
  EXPECT_EQ(report.posted, 20u);
  EXPECT_EQ(report.AllCalls(), 10u);
  EXPECT_EQ(report.calls["cuMemAlloc_v2"].local, 2u);
  EXPECT_TRUE(report.libraries.count("/opt/libcublas.so.13"));
}

TEST_F(RunReportTest, WhatTheServerWritesIsRead) {
  server::RunTotals totals;
  totals.sessions = 2;
  totals.bytes_up = 7;
  totals.AddPeak(0, 100);
  totals.AddPeak(0, 60);
  totals.NoteCharged(0, 200);
  totals.NoteCharged(0, 150);
  totals.skipped["scale"] = 3;
  const std::string path = folder_ + "/server.json";
  ASSERT_TRUE(server::WriteReport(path, server::ToJson(totals, "dry", "a \"card\"")).ok());
  RunReport report;
  ASSERT_TRUE(ReadServerReport(path, &report).ok());
  EXPECT_EQ(report.device_name, "a \"card\"");
  EXPECT_EQ(report.bytes_up, 7u);
  ASSERT_EQ(report.memory.size(), 1u);
  EXPECT_EQ(report.memory[0].peak_bytes, 100u);
  EXPECT_EQ(report.memory[0].all_sessions_bytes, 160u);
  EXPECT_EQ(report.memory[0].charged_bytes, 200u);
  EXPECT_EQ(report.skipped.at("scale"), 3u);
  EXPECT_FALSE(ReadServerReport(folder_ + "/absent", &report).ok());
}

TEST_F(RunReportTest, TheTextSaysThatNothingWasExecuted) {
  RunReport report;
  report.device_kind = "dry";
  report.calls["cuLaunchKernel"].calls = 4;
  report.calls["cuGraphLaunch"].calls = 1;
  EXPECT_NE(ToText(report).find("5 launches, none executed"), std::string::npos);
  report.device_kind = "cpu";
  EXPECT_EQ(ToText(report).find("none executed"), std::string::npos);
  const auto json = nlohmann::json::parse(ToJson(report));
  EXPECT_EQ(json["launches"], 5);
  EXPECT_EQ(json["cost"].size(), 12u);
}

TEST_F(RunReportTest, SkippedKernelsAreNamedAndCounted) {
  RunReport report;
  report.device_kind = "cpu-skip";
  EXPECT_NE(ToText(report).find("KERNELS SKIPPED: none was launched"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(ToJson(report))["executed"], true);
  report.skipped = {{"once", 1}, {"often", 9}};
  const std::string text = ToText(report);
  EXPECT_NE(text.find("KERNELS SKIPPED: 10 launches of 2 kernels"), std::string::npos);
  EXPECT_LT(text.find("often"), text.find("once"));
  const auto json = nlohmann::json::parse(ToJson(report));
  EXPECT_EQ(json["executed"], false);
  EXPECT_EQ(json["skipped_launches"], 10);
  EXPECT_EQ(json["skipped"]["often"], 9);
}

}  // namespace
}  // namespace farcall::cli
