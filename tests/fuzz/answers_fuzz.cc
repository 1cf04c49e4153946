// SPDX-License-Identifier: Apache-2.0
// What a client keeps of servers' answers, under two servers of which one is hostile. Input: steps
// {u8 what, u8 which, u16 bytes, body}. A step keeps an answer of a library under a server, asks
// for one, does the same in the session's own memory, or puts bytes where a kept file is read. What
// one server has answered is told under no other server, library, version or question; and a file
// is read to the end of what is whole in it.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include "client-shim/core/answer_cache.h"
#include "client-shim/core/report/record_file.h"
#include "client-shim/core/session/answers.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/session.h"
#include "tests/fuzz/scratch_folder.h"
#include "tests/fuzz/scripted_channel.h"

namespace {

using namespace farcall;
using namespace farcall::client;

constexpr size_t kMaxSteps = 64;

void Require(bool is_so, const char* what) {
  if (is_so) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// Two servers with the same device, which is all the more reason to keep them apart.
const Welcome& TheWelcome() {
  static const Welcome* welcome = [] {
    auto* made = new Welcome;
    made->device_kind = "cpu";
    made->grace_ms = 1;
    made->devices.resize(1);
    made->devices[0].name = "device";
    made->devices[0].total_bytes = 1u << 30;
    made->devices[0].attributes.resize(CU_DEVICE_ATTRIBUTE_MAX, 8);
    static Session* const session = new Session(*made, "tcp://one:1");
    LoadDevices({&session, 1});
    return made;
  }();
  return *welcome;
}

void SpeakTo(size_t server) {
  static Session* const sessions[] = {new Session(TheWelcome(), "tcp://one:1"),
                                      new Session(TheWelcome(), "tcp://two:1")};
  g_session.store(sessions[server]);
}

// A run's answers, as they were kept first; questions begin with the number of the input.
class Memory {
 public:
  Memory() : prefix_(std::to_string(++inputs_) + "|") { ForgetAnswers(); }

  void Keep(uint8_t which, std::string_view body) {
    const Place place = PlaceOf(which, body);
    const std::string answer(body);
    const std::string& question = std::get<3>(place);
    SpeakTo(std::get<0>(place));
    KeepAnswer(std::get<1>(place), std::get<2>(place), question.data(), question.size(),
               answer.data(), answer.size());
    kept_.try_emplace(place, answer);
  }

  void Ask(uint8_t which, std::string_view body) {
    const Place place = PlaceOf(which, body);
    const std::string& question = std::get<3>(place);
    SpeakTo(std::get<0>(place));
    std::string told;
    const bool is_known = KeptAnswer(
        std::get<1>(place), std::get<2>(place), question.data(), question.size(),
        [](void* user, const void* bytes, size_t count) {
          static_cast<std::string*>(user)->assign(static_cast<const char*>(bytes), count);
        },
        &told);
    if (!is_known) return;
    auto kept = kept_.find(place);
    Require(kept != kept_.end() && kept->second == told, "an answer that was not given here");
  }

  // The session's own memory, of contexts instead of servers.
  void Session(uint8_t which, std::string_view body) {
    const std::string question =
        prefix_ + std::string(body.substr(0, std::min<size_t>(body.size(), 4)));
    const Question asked = {which & 1 ? CallId::cuCtxGetLimit : CallId::cuCtxGetCacheConfig,
                            which >> 1 & 3u, std::as_bytes(std::span(question))};
    const auto key = std::tuple(asked.call, asked.context, question);
    if (which >= 0xF0) {
      ForgetAnswers();
      asked_.clear();
    } else if (which & 8) {
      KeepAnswer(asked, std::as_bytes(std::span(body)), AnswerRenewals());
      asked_[key] = std::string(body);
    } else {
      std::vector<std::byte> told;
      const bool is_known = FindAnswer(asked, &told);
      auto found = asked_.find(key);
      Require(is_known == (found != asked_.end()), "an answer that is lost, or comes from nowhere");
      if (is_known)
        Require(std::ranges::equal(told, std::as_bytes(std::span(found->second))),
                "an answer to another question");
    }
  }

 private:
  using Place = std::tuple<size_t, uint8_t, int64_t, std::string>;

  Place PlaceOf(uint8_t which, std::string_view body) const {
    return {which & 1u, static_cast<uint8_t>(which >> 1 & 1), 1 + (which >> 2 & 1),
            prefix_ + std::string(body.substr(0, which >> 3 & 3))};
  }

  static inline uint64_t inputs_ = 0;
  const std::string prefix_;
  std::map<Place, std::string> kept_;
  std::map<std::tuple<CallId, uint64_t, std::string>, std::string> asked_;
};

void ReadFile(uint8_t which, std::string_view body) {
  const std::string path = fuzz::ScratchFolder() + "/file";
  if (which & 1) unlink(path.c_str());
  if (which & 2) (void)AppendRecord(path, which, std::as_bytes(std::span(body.substr(0, 64))));
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  Require(file >= 0 && write(file, body.data(), body.size()) >= 0, "the file cannot be written");
  close(file);
  size_t bytes = 0;
  (void)ReadRecords(path,
                    [&](uint8_t, std::span<const std::byte> record) { bytes += record.size(); });
  Require(bytes <= std::filesystem::file_size(path), "more was read than there is");
}

}  // namespace

// The shim keeps what it made for ever, by its own rules: that is no leak here.
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0";
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  setenv("FARCALL_CACHE_DIR", fuzz::ScratchFolder().c_str(), 1);
  setenv("FARCALL_LOG", "off", 1);
  unsetenv("FARCALL_LIBRARY_CACHE");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Memory memory;
  for (size_t steps = 0; size >= 4 && steps < kMaxSteps; ++steps) {
    uint16_t bytes;
    std::memcpy(&bytes, data + 2, sizeof(bytes));
    const size_t take = std::min<size_t>(bytes, size - 4);
    const std::string_view body(reinterpret_cast<const char*>(data + 4), take);
    switch (data[0] % 4) {
      case 0:
        memory.Keep(data[1], body);
        break;
      case 1:
        memory.Ask(data[1], body);
        break;
      case 2:
        memory.Session(data[1], body);
        break;
      default:
        ReadFile(data[1], body);
        break;
    }
    data += 4 + take;
    size -= 4 + take;
  }
  g_session.store(nullptr);  // there is nobody to take leave of at exit
  return 0;
}
