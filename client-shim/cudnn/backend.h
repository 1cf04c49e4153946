// SPDX-License-Identifier: Apache-2.0
// cuDNN's backend descriptors: attributes are the client's; finalising asks the server once for
// each distinct tree of them, and what is asked of the result is asked once
// (proto/library/cudnn_backend.h).
#pragma once

#include <cudnn.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "client-shim/thin/call.h"
#include "generated/proto/cudnn_call.h"
#include "proto/library/cudnn_backend.h"

namespace farcall::thin {

struct BackendContent;
using BackendContentRef = std::shared_ptr<BackendContent>;

// One attribute as it was set.
struct BackendStep {
  int32_t attribute = 0;
  int32_t type = 0;
  int64_t count = 0;
  bool is_null = false;
  std::string bytes;                        // of the elements that are no objects
  std::vector<uint64_t> ids;                // of those that are, on the wire
  std::vector<BackendContentRef> contents;  // which they are, so that they live as long
  std::vector<void*> handles;               // as the program named them
};

// What the library answered to one question about a finalised descriptor.
struct BackendAnswer {
  int status = 0;
  int64_t count = 0;
  std::string bytes;
  std::string text;
  std::vector<BackendContentRef> made;
};

// What programs did with a descriptor after it was finalised, or after it was got from another:
// with the next of its kind the same is asked ahead, in the record that makes it (backend_next.cc).
struct Habit {
  // a question
  int32_t attribute = 0;
  int32_t type = 0;
  int64_t requested = 0;
  BackendForm form = kBackendCount;
  std::vector<int32_t> types;                  // of the descriptors that it fills
  std::map<size_t, std::list<Habit>> of_made;  // by their index; a finalization's has 0 alone
  // or the finalization of another of this type, whose steps name this one alone
  bool finalizes = false;
  std::vector<BackendStep> steps;
};
using Habits = std::list<Habit>;

// A finalised descriptor of the server's; shared by all of the program's that are set alike.
struct BackendContent {
  BackendContent() = default;
  BackendContent(const BackendContent&) = delete;
  ~BackendContent();

  client::LibraryObject* object = nullptr;  // null: the server refused it
  int status = 0;
  std::string text;  // why
  int32_t type = 0;
  std::vector<BackendStep> steps;
  std::string print;  // thin/kept.h
  // Of tensors below that a variant pack holds by value: their bytes by unique id.
  std::map<int64_t, uint64_t> by_value;
  std::atomic<bool> has_run{false};
  Habits* habits = nullptr;  // where what is asked of it is noted; null: nowhere
  std::mutex mutex;
  std::map<std::string, BackendAnswer> answers;
};

// What the program's descriptor points to.
struct Backend final : State {
  Backend() { is_handle = false; }
  client::LibraryObject* object = nullptr;
  int32_t type = 0;
  bool finalized = false;
  std::vector<BackendStep> steps;
  BackendContentRef content;  // once it is finalised; a variant pack has none
};

Backend* FindBackend(cudnnBackendDescriptor_t descriptor);
void SetLastError(const std::string& text);
const std::string& LastError();

// All that is known of descriptors of the backend API.
struct BackendContents {
  std::mutex mutex;
  std::unordered_map<std::string, BackendContentRef> by_key;
  std::unordered_map<std::string, int> probes;
  std::map<int32_t, Habits> habits;       // by the type of what is finalised
  std::unordered_set<std::string> plain;  // kinds of which one was accepted
};
BackendContents& TheBackendContents();
std::string KeyOf(int32_t type, const std::vector<BackendStep>& steps);
std::string QuestionKey(int32_t attribute, int32_t type, int64_t requested, BackendForm form,
                        const std::vector<int32_t>& types);
// What the library says of a descriptor, and not what became of the device or the session.
bool IsVerdict(int status);
// Scalars by value, its own and those of what it names.
void NoteByValue(BackendContent* content);
client::LibraryObject* NewBackendSlot();

// ---- what comes next; under the lock of TheBackendContents
Habit* NoteQuestion(Habits* habits, Habit question);  // null: too many, or noted nowhere
void NoteFinalize(int32_t type, const std::vector<BackendStep>& steps);

// Tensors and convolutions whose sizes alone differ from one that the library took, and are
// ordinary: these it takes as well. "": it has to be asked.
std::string PlainKind(int32_t type, const std::vector<BackendStep>& steps);

// A record's expectations: Put before it is sent, Take its answers afterwards.
class Nexts {
 public:
  // Of what `content` becomes, named so.
  Nexts(const BackendContentRef& content, uint64_t name);
  Nexts(const Nexts&) = delete;
  ~Nexts();
  bool empty() const { return nexts_.empty(); }
  void Put(Call& call) const;
  void Take(const std::string& answers);

 private:
  struct Next {
    const Habit* habit = nullptr;
    BackendContentRef of;
    uint64_t of_name = 0;
    std::vector<client::LibraryObject*> slots;
    std::vector<BackendContentRef> made;  // what they become, if they do
  };
  void AddAll(Habits& habits, const BackendContentRef& of, uint64_t name, int depth);
  void AddQuestion(Habit& habit, const BackendContentRef& of, uint64_t name, int depth);
  void AddFinalize(Habit& habit, const BackendContentRef& of, uint64_t name, int depth);
  void TakeQuestion(Next& next, BackendAnswer answer);
  void TakeFinalize(Next& next, BackendAnswer answer);

  std::vector<Next> nexts_;
};

// ---- what is known from earlier runs: backend_kept.cc
std::string PrintOf(int32_t type, const std::vector<BackendStep>& steps);
// Of the descriptor that a question about another filled.
std::string PrintOfMade(const BackendContent& asked, const std::string& question, size_t index);
// False: nothing is kept. `made`: how many descriptors it filled.
bool FindKeptAnswer(const BackendContent& asked, const std::string& question, BackendAnswer* answer,
                    size_t* made);
void KeepAnswer(const BackendContent& asked, const std::string& question,
                const BackendAnswer& answer);

// Into a record.
void PutStep(Call& call, const BackendStep& step);
// The content of these attributes: asked once. `out` is null if the server refuses.
int FinalizeContent(int32_t type, const std::vector<BackendStep>& steps, BackendContentRef* out);
// Whether such a descriptor takes that, as far as the library says before it is finalised.
int ProbeStep(int32_t type, const BackendStep& step);
// Asked once; `types`: of the descriptors that the program wants filled.
BackendAnswer AskContent(const BackendContentRef& content, int32_t attribute, int32_t type,
                         int64_t requested, BackendForm form, const std::vector<int32_t>& types);

}  // namespace farcall::thin
