// SPDX-License-Identifier: Apache-2.0
// One program to the server and what came of it back. The server's side: server/toolchain/nvrtc.cc.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "client-shim/core/report/fork_lock.h"
#include "client-shim/core/report/log.h"
#include "client-shim/nvrtc/program.h"
#include "client-shim/thin/blobs.h"
#include "client-shim/thin/call.h"
#include "client-shim/thin/forked.h"
#include "generated/proto/nvrtc_call.h"
#include "proto/library/toolchain.h"

namespace farcall::nvrtc_client {

namespace {

using thin::Call;

constexpr uint64_t kMaxCachedBytes = 64u << 20;
constexpr int kMaxRounds = 64;

// Outcomes by content: frameworks compile the same kernel in many places.
struct Cache {
  client::ForkLock mutex;
  std::unordered_map<std::string, std::shared_ptr<const Outcome>> outcomes;
  // One copy of each header, so that a key names it by its address.
  std::unordered_map<std::string_view, std::shared_ptr<const std::string>> texts;
  uint64_t bytes = 0;
};
Cache& TheCache() {
  static auto* cache = new Cache;
  return *cache;
}

// The client's part of the options is done here, the rest goes on.
struct Options {
  std::vector<std::string> folders, first;  // -I; headers before the source
  std::vector<std::string> rest;
  bool server_headers = false;  // -I names the folder that stands for them
};

// The value of `option` if it is this one, in one piece or with the next; null otherwise.
const char* ValueOf(const std::vector<std::string>& options, size_t* at, const char* name,
                    bool may_join) {
  const std::string& option = options[*at];
  const size_t length = std::strlen(name);
  if (option.compare(0, length, name) != 0) return nullptr;
  const char* rest = option.c_str() + length;
  if (*rest == '=') return rest + 1;
  if (*rest == ' ') return rest + std::strspn(rest, " ");
  if (*rest != 0) return may_join ? rest : nullptr;
  return *at + 1 < options.size() ? options[++*at].c_str() : nullptr;
}

Options Sort(const std::vector<std::string>& options) {
  Options sorted;
  for (size_t i = 0; i < options.size(); ++i) {
    const char* value = nullptr;
    if ((value = ValueOf(options, &i, "--include-path", false)) != nullptr ||
        (value = ValueOf(options, &i, "-include-path", false)) != nullptr ||
        (value = ValueOf(options, &i, "-I", true)) != nullptr) {
      // client-shim/nvrtc/headers
      if (access((std::string(value) + "/.farcall-server").c_str(), F_OK) == 0)
        sorted.server_headers = true;
      else
        sorted.folders.emplace_back(value);
    } else if ((value = ValueOf(options, &i, "--pre-include", false)) != nullptr ||
               (value = ValueOf(options, &i, "-pre-include", false)) != nullptr ||
               (value = ValueOf(options, &i, "-include", false)) != nullptr) {
      sorted.first.emplace_back(value);
    } else if (options[i] == "--pch" || options[i] == "-pch") {
      // Saves time alone, and would be a file of the machine that compiles.
    } else {
      sorted.rest.push_back(options[i]);
    }
  }
  return sorted;
}

// What one try sends: the program with every file that it names.
class Job {
 public:
  Job(const Program& program, const Options& options)
      : program_(program), includes_(options.folders, Names(program)), options_(options.rest) {
    source_ = includes_.Rewrite(program.source, FolderOf(program.name));
    for (const Header& header : program.headers) {
      own_.push_back({header.name, std::make_shared<const std::string>(
                                       includes_.Rewrite(*header.text, FolderOf(header.name)))});
    }
    for (const std::string& name : options.first) {
      const std::string found = includes_.Add(name, "", true);
      options_.push_back("--pre-include=" + (found.empty() ? name : found));
    }
    AddKnownMacros();
  }

  // `server`: which of the server's headers it may include; grows by what it turns out to need.
  std::shared_ptr<const Outcome> Run(uint32_t* server) {
    uint32_t flags = *server;
    std::shared_ptr<const Outcome> without;  // what to say if the server lacks it as well
    std::string lacked;
    for (int round = 0;; ++round) {
      if (includes_.too_many()) return Alone(NVRTC_ERROR_OUT_OF_MEMORY, kTooMany);
      std::shared_ptr<const Outcome> outcome = Once(flags);
      std::string missing, from;
      const bool misses =
          outcome->status == NVRTC_ERROR_COMPILATION && FindMissing(outcome->log, &from, &missing);
      if (lacked.empty() || missing != lacked) *server = flags;
      if (!misses || round == kMaxRounds) return outcome;
      if (missing == lacked) return without;
      if (includes_.AddSpelled(missing, FolderOf(from))) {
        NoteMacro(from, missing);
        continue;
      }
      // A container without CUDA's headers: those beside the server's NVRTC.
      const uint32_t wanted = IsCccl(missing) ? nvrtc::kServerCccl : nvrtc::kServerHeaders;
      if ((flags & wanted) != 0) return outcome;
      flags |= wanted;
      without = outcome;
      lacked = missing;
    }
  }

  // Also in a forked child.
  static constexpr const char* kNotHere =
      "farcall: the server did not compile this: its answer is on standard error\n";

  static std::shared_ptr<const Outcome> Alone(nvrtcResult status, const std::string& log) {
    auto outcome = std::make_shared<Outcome>();
    outcome->status = status;
    outcome->log = log;
    outcome->images[kPtx].bytes.assign(1, 0);
    return outcome;
  }

 private:
  static constexpr const char* kTooMany =
      "farcall: the program includes too many files: at most 8192 with 64 MiB in all cross to the "
      "server\n";

  static std::set<std::string> Names(const Program& program) {
    std::set<std::string> names;
    for (const Header& header : program.headers) names.insert(header.name);
    return names;
  }

  static bool IsCccl(const std::string& name) {
    static constexpr const char* kFolders[] = {"cuda/", "cub/", "thrust/", "nv/"};
    return std::any_of(std::begin(kFolders), std::end(kFolders),
                       [&](const char* folder) { return name.rfind(folder, 0) == 0; });
  }

  // Names that macros made, by the file that included them: not to be missed a second time.
  struct Macros {
    client::ForkLock mutex;
    std::map<std::string, std::set<std::string>> by_file;
  };
  static Macros& TheMacros() {
    static auto* macros = new Macros;
    return *macros;
  }
  static void NoteMacro(const std::string& from, const std::string& name) {
    Macros& macros = TheMacros();
    constexpr size_t kMax = 4096;
    std::lock_guard lock(macros.mutex);
    if (macros.by_file.size() < kMax) macros.by_file[from].insert(name);
  }
  void AddKnownMacros() {
    Macros& macros = TheMacros();
    // A copy: the lock is none to read files under.
    std::map<std::string, std::set<std::string>> by_file;
    {
      std::lock_guard lock(macros.mutex);
      by_file = macros.by_file;
    }
    if (by_file.empty()) return;
    for (size_t i = 0; i < includes_.headers().size(); ++i) {  // it grows
      auto known = by_file.find(includes_.headers()[i].name);
      if (known == by_file.end()) continue;
      for (const std::string& name : known->second)
        includes_.AddSpelled(name, FolderOf(known->first));
    }
  }

  // `one.h(3): catastrophic error: could not open source file "two.h" (...)`
  static bool FindMissing(const std::string& log, std::string* from, std::string* missing) {
    static constexpr char kSays[] = "not open source file \"";
    const size_t says = log.find(kSays);
    if (says == std::string::npos) return false;
    const size_t begin = says + sizeof(kSays) - 1;
    const size_t end = log.find('"', begin);
    const size_t line = log.rfind('\n', says) + 1;  // npos + 1: the first
    const size_t bracket = log.find('(', line);
    if (end == std::string::npos || bracket == std::string::npos || bracket > says) return false;
    *missing = log.substr(begin, end - begin);
    *from = log.substr(line, bracket - line);
    return true;
  }

  std::vector<Header> AllHeaders() const {
    std::vector<Header> all = own_;
    all.insert(all.end(), includes_.headers().begin(), includes_.headers().end());
    Cache& cache = TheCache();
    std::lock_guard lock(cache.mutex);
    for (Header& header : all) {
      auto [text, is_new] = cache.texts.try_emplace(*header.text, header.text);
      if (is_new) cache.bytes += header.text->size();
      header.text = text->second;
    }
    return all;
  }

  std::string Key(const std::vector<Header>& headers, uint32_t server) const {
    std::string key(1, static_cast<char>('0' + server));
    auto add = [&key](std::string_view text) {
      key += std::to_string(text.size()) + ":";
      key += text;
    };
    add(source_);
    add(program_.name);
    for (const std::string& option : options_) add(option);
    key += '|';
    for (const std::string& expression : program_.expressions) add(expression);
    key += '|';
    for (const Header& header : headers) {
      add(header.name);
      const std::string* text = header.text.get();
      key.append(reinterpret_cast<const char*>(&text), sizeof(text));
    }
    return key;
  }

  std::shared_ptr<const Outcome> Once(uint32_t server) {
    const std::vector<Header> headers = AllHeaders();
    std::string key = Key(headers, server);
    Cache& cache = TheCache();
    {
      std::lock_guard lock(cache.mutex);
      auto found = cache.outcomes.find(key);
      if (found != cache.outcomes.end()) return found->second;
    }
    auto outcome = std::make_shared<Outcome>();
    int status = Ask(headers, server, outcome.get());
    if (status != 0) return Alone(static_cast<nvrtcResult>(status), kNotHere);
    Remember(std::move(key), outcome);
    return outcome;
  }

  static void Remember(std::string key, std::shared_ptr<const Outcome> outcome) {
    uint64_t bytes = key.size() + outcome->log.size();
    for (const Image& image : outcome->images) bytes += image.bytes.size();
    Cache& cache = TheCache();
    std::lock_guard lock(cache.mutex);
    if (cache.bytes + bytes > kMaxCachedBytes) {
      cache.outcomes.clear();
      cache.texts.clear();
      cache.bytes = 0;
      return;  // a key names texts that are no longer kept
    }
    cache.bytes += bytes;
    cache.outcomes.emplace(std::move(key), std::move(outcome));
  }

  int Ask(const std::vector<Header>& headers, uint32_t server, Outcome* outcome) const {
    Call call(nvrtc::Function::nvrtcCompileProgram);
    thin::CallTexts texts(call);
    call.Value<uint32_t>(static_cast<uint32_t>(headers.size()));
    call.Value<uint32_t>(static_cast<uint32_t>(options_.size()));
    call.Value<uint32_t>(static_cast<uint32_t>(program_.expressions.size()));
    call.Value<uint32_t>(server);
    texts.Put(source_);
    texts.Put(program_.name);
    for (const Header& header : headers) texts.PutKept(header.text);
    for (const Header& header : headers) texts.Put(header.name);
    for (const std::string& option : options_) texts.Put(option);
    for (const std::string& expression : program_.expressions) texts.Put(expression);
    thin::LongAnswer answer;
    answer.Await(call);
    int status = call.Ask();
    if (status == 0) status = answer.Complete();
    return status != 0 ? status : Read(answer.bytes, outcome);
  }

  int Read(const std::string& bytes, Outcome* outcome) const {
    Reader in(std::as_bytes(std::span(bytes)));
    outcome->status = static_cast<nvrtcResult>(in.Get<int32_t>());
    const bool is_whole = in.Get<uint32_t>() != 0;
    outcome->log = in.GetString();
    outcome->images[kPtx].bytes.assign(1, 0);
    for (int kind = 0; is_whole && kind < kImageKinds; ++kind) {
      outcome->images[kind].status = static_cast<nvrtcResult>(in.Get<int32_t>());
      in.Get<uint32_t>();
      outcome->images[kind].bytes = in.GetString();
    }
    for (size_t i = 0; is_whole && i < program_.expressions.size(); ++i) {
      LoweredName& lowered = outcome->lowered[program_.expressions[i]];
      lowered.status = static_cast<nvrtcResult>(in.Get<int32_t>());
      in.Get<uint32_t>();
      lowered.name = in.GetString();
    }
    return in.Done() ? 0 : thin::kLibrary.internal;
  }

  const Program& program_;
  Includes includes_;
  std::string source_;
  std::vector<Header> own_;
  std::vector<std::string> options_;
};

}  // namespace

std::shared_ptr<const Outcome> Compile(const Program& program,
                                       const std::vector<std::string>& options) {
  static std::atomic<uint32_t> needed{0};
  if (thin::IsForked()) return Job::Alone(NVRTC_ERROR_INTERNAL_ERROR, Job::kNotHere);
  thin::Open();  // ahead of every lock: a child of a fork from here on knows that it is one
  const Options sorted = Sort(options);
  uint32_t server = needed.load() | (sorted.server_headers ? nvrtc::kServerHeaders : 0);
  std::shared_ptr<const Outcome> outcome = Job(program, sorted).Run(&server);
  needed.fetch_or(server);
  return outcome;
}

}  // namespace farcall::nvrtc_client
