// SPDX-License-Identifier: Apache-2.0
// What the backend API answered in earlier runs: that a descriptor was finalised, and what was
// asked of it, by the tree of attributes that it was made of.
#include "client-shim/cudnn/backend.h"
#include "client-shim/thin/kept.h"
#include "proto/codec.h"

namespace farcall::thin {

namespace {

template <typename T>
void Append(std::string* print, const T& value) {
  print->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

// Handles are of this run; addresses are, too, and what holds some is not kept.
std::string PrintOf(int32_t type, const std::vector<BackendStep>& steps) {
  std::string print;
  Append(&print, type);
  for (const BackendStep& step : steps) {
    if (step.type == CUDNN_TYPE_VOID_PTR) return "";
    Append(&print, step.attribute);
    Append(&print, step.type);
    Append(&print, step.count);
    print.push_back(step.is_null ? 1 : 0);
    AppendPart(&print, step.bytes);
    for (const BackendContentRef& named : step.contents) {
      if (named == nullptr || named->print.empty()) return "";
      AppendPart(&print, named->print);
    }
    if (step.type == CUDNN_TYPE_BACKEND_DESCRIPTOR && step.contents.size() != step.ids.size())
      return "";
  }
  return print;
}

std::string PrintOfMade(const BackendContent& asked, const std::string& question, size_t index) {
  if (asked.print.empty()) return "";
  std::string print = "made";
  AppendPart(&print, asked.print);
  AppendPart(&print, question);
  Append(&print, index);
  return print;
}

bool FindKeptAnswer(const BackendContent& asked, const std::string& question, BackendAnswer* answer,
                    size_t* made) {
  std::string kept;
  if (asked.print.empty()) return false;
  if (!FindKept(Kept::kAsked, PrintOfMade(asked, question, 0), &kept)) return false;
  Reader in(std::as_bytes(std::span(kept)));
  BackendAnswer found;
  found.count = in.Get<int64_t>();
  *made = static_cast<size_t>(in.Get<uint64_t>());
  found.bytes = in.GetString();
  if (!in.Done()) return false;
  *answer = std::move(found);
  return true;
}

// Refusals are not: the next library may take it, and few programs ask what is refused.
void KeepAnswer(const BackendContent& asked, const std::string& question,
                const BackendAnswer& answer) {
  if (answer.status != 0 || asked.print.empty()) return;
  Builder out;
  out.Put<int64_t>(answer.count);
  out.Put<uint64_t>(answer.made.size());
  out.PutString(answer.bytes);
  Keep(Kept::kAsked, PrintOfMade(asked, question, 0),
       {reinterpret_cast<const char*>(out.bytes().data()), out.bytes().size()});
}

}  // namespace farcall::thin
