// SPDX-License-Identifier: Apache-2.0
// nvJitLinkComplete for a client, whose inputs are all in the record (client-shim/nvjitlink/).
#include "toolkit/nvjitlink.h"

#include <dlfcn.h>

#include <algorithm>

#include "generated/proto/nvjitlink_call.h"
#include "server/library/library_text.h"
#include "server/state/session.h"
#include "server/toolchain/compiler_options.h"
#include "server/toolchain/confined_job.h"
#include "server/toolchain/toolchain.h"

namespace farcall::server {

namespace {

using farcall::nvjitlink::Function;
using Texts = std::vector<std::shared_ptr<const std::string>>;

#define FARCALL_LINK(name) call.Of<decltype(&::name)>(static_cast<uint16_t>(Function::name))

struct Input {
  nvJitLinkInputType type;
  std::shared_ptr<const std::string> data, name;
};

std::vector<const char*> Pointers(const Texts& texts) {
  std::vector<const char*> pointers;
  pointers.reserve(texts.size() + 1);  // never null: that is an error of its own
  for (const auto& text : texts) pointers.push_back(text->c_str());
  return pointers;
}

// An archive without its members, which lie in files beside it.
bool IsThinArchive(const std::string& data) {
  return data.starts_with("!<thin>");
}

bool Has(const Texts& options, const char* wanted) {
  return std::any_of(options.begin(), options.end(),
                     [&](const auto& option) { return *option == wanted; });
}

// {i32 status, u32 0, bytes} of what the two functions tell.
template <typename SizeOf, typename Get, typename Element>
std::string Fetch(nvJitLinkHandle handle, SizeOf size_of, Get get, Element*,
                  nvJitLinkResult* status) {
  size_t bytes = 0;
  *status = NVJITLINK_ERROR_INTERNAL;
  if (size_of == nullptr || get == nullptr) return "";
  *status = size_of(handle, &bytes);
  std::string found(*status == NVJITLINK_SUCCESS ? bytes : 0, 0);
  if (!found.empty()) *status = get(handle, reinterpret_cast<Element*>(found.data()));
  return *status == NVJITLINK_SUCCESS ? found : "";
}

void PutPart(Builder& answer, nvJitLinkResult status, const std::string& bytes) {
  answer.Put<int32_t>(status);
  answer.Put<uint32_t>(0);
  answer.PutString(bytes);
}

void PutLogs(LibraryCall& call, nvJitLinkHandle handle, Builder& answer) {
  nvJitLinkResult got;
  char* text = nullptr;
  answer.PutString(Fetch(handle, FARCALL_LINK(nvJitLinkGetErrorLogSize),
                         FARCALL_LINK(nvJitLinkGetErrorLog), text, &got));
  answer.PutString(Fetch(handle, FARCALL_LINK(nvJitLinkGetInfoLogSize),
                         FARCALL_LINK(nvJitLinkGetInfoLog), text, &got));
}

// In the place of the library's answer.
void PutRefusal(Builder& answer, nvJitLinkResult status, const std::string& why) {
  answer.Put<int32_t>(status);
  answer.Put<uint32_t>(0);
  answer.PutString(why.empty() ? "" : "farcall: " + why + "\n");
  answer.PutString("");
}

class Link {
 public:
  Link(LibraryCall& call, Texts options, std::vector<Input> inputs)
      : call_(call), options_(std::move(options)), inputs_(std::move(inputs)) {
    // A device that takes PTX alone: link-time optimisation can stop there.
    wants_ptx_ = Has(options_, "-ptx");
    is_lto_ = Has(options_, "-lto");
    to_ptx_ = call_.base().session.prefers_ptx() && !wants_ptx_;
    if (to_ptx_ && is_lto_) options_.push_back(std::make_shared<const std::string>("-ptx"));
  }

  void Run() {
    for (const Input& input : inputs_) {
      if (IsThinArchive(*input.data)) {
        return AnswerAlone(
            NVJITLINK_ERROR_INVALID_INPUT,
            "input '" + *input.name + "' is refused: a thin archive names files of the server");
      }
    }
    if (to_ptx_ && !is_lto_) return PassOn();
    LibraryCall& call = call_;
    auto create = FARCALL_LINK(nvJitLinkCreate);
    auto destroy = FARCALL_LINK(nvJitLinkDestroy);
    if (create == nullptr || destroy == nullptr) return;
    Status confined = RunConfined({FolderOfFunction(reinterpret_cast<void*>(create))},
                                  call.base().session.options().trust_tenants,
                                  [&] { CreateAndLink(create, destroy); });
    if (!confined.ok()) AnswerAlone(NVJITLINK_ERROR_INTERNAL, confined.message());
  }

 private:
  template <typename Create, typename Destroy>
  void CreateAndLink(Create create, Destroy destroy) {
    LibraryCall& call = call_;
    nvJitLinkHandle handle = nullptr;
    std::vector<const char*> options = Pointers(options_);
    nvJitLinkResult status = create(&handle, static_cast<uint32_t>(options.size()), options.data());
    if (status != NVJITLINK_SUCCESS) return AnswerAlone(status, "");
    auto add = FARCALL_LINK(nvJitLinkAddData);
    for (const Input& input : inputs_) {
      if (status != NVJITLINK_SUCCESS || add == nullptr) break;
      status = add(handle, input.type, input.data->data(), input.data->size(),
                   input.name->empty() ? nullptr : input.name->c_str());
    }
    auto complete = FARCALL_LINK(nvJitLinkComplete);
    if (status == NVJITLINK_SUCCESS && complete != nullptr) status = complete(handle);
    Answer(handle, status);
    destroy(&handle);
  }

  // What is one module already needs no linking; a second would need the linker of machine code.
  void PassOn() {
    if (inputs_.size() != 1 ||
        (inputs_[0].type != NVJITLINK_INPUT_PTX && inputs_[0].type != NVJITLINK_INPUT_FATBIN)) {
      return AnswerAlone(NVJITLINK_ERROR_INTERNAL,
                         "this server's device takes PTX only: it can be handed one PTX "
                         "or fat binary, or what -lto makes, but not " +
                             std::to_string(inputs_.size()) + " linked to machine code");
    }
    Builder answer;
    answer.Put<int32_t>(NVJITLINK_SUCCESS);
    answer.Put<uint32_t>(1);
    answer.PutString("");
    answer.PutString("");
    PutPart(answer, NVJITLINK_SUCCESS, *inputs_[0].data);
    PutPart(answer, NVJITLINK_ERROR_INVALID_INPUT, "");
    AnswerWith(call_, answer);
  }

  void AnswerAlone(nvJitLinkResult status, const std::string& why) {
    Builder answer;
    PutRefusal(answer, status, why);
    AnswerWith(call_, answer);
  }

  void Answer(nvJitLinkHandle handle, nvJitLinkResult status) {
    LibraryCall& call = call_;
    Builder answer;
    answer.Put<int32_t>(status);
    answer.Put<uint32_t>(1);
    PutLogs(call, handle, answer);
    char* text = nullptr;
    nvJitLinkResult has_cubin, has_ptx;
    std::string ptx = Fetch(handle, FARCALL_LINK(nvJitLinkGetLinkedPtxSize),
                            FARCALL_LINK(nvJitLinkGetLinkedPtx), text, &has_ptx);
    std::string cubin = Fetch(handle, FARCALL_LINK(nvJitLinkGetLinkedCubinSize),
                              FARCALL_LINK(nvJitLinkGetLinkedCubin), text, &has_cubin);
    if (to_ptx_ && has_ptx == NVJITLINK_SUCCESS) {
      cubin = ptx;
      has_cubin = NVJITLINK_SUCCESS;
    }
    PutPart(answer, has_cubin, cubin);
    PutPart(answer, has_ptx, ptx);
    call.status = 0;
    AnswerWith(call, answer);
  }

  LibraryCall& call_;
  Texts options_;
  std::vector<Input> inputs_;
  bool wants_ptx_ = false, is_lto_ = false, to_ptx_ = false;
};

}  // namespace

void Serve_nvJitLinkCreate(LibraryCall& call) {
  const auto count = call.Value<uint32_t>();
  Texts options = GetTexts(call, count);
  auto create = FARCALL_LINK(nvJitLinkCreate);
  auto destroy = FARCALL_LINK(nvJitLinkDestroy);
  if (!call.Ready()) return AnswerFailure(call);
  Builder answer;
  const std::string refused = RefusedOption(Compiler::kNvJitLink, options, {});
  if (!refused.empty()) {
    PutRefusal(answer, NVJITLINK_ERROR_UNRECOGNIZED_OPTION, refused);
    return AnswerWith(call, answer);
  }
  Status confined = RunConfined(
      {FolderOfFunction(reinterpret_cast<void*>(create))},
      call.base().session.options().trust_tenants, [&] {
        nvJitLinkHandle handle = nullptr;
        answer.Put<int32_t>(create(&handle, count, Pointers(options).data()));
        answer.Put<uint32_t>(0);
        PutLogs(call, handle, answer);  // one whose options are refused has a handle that says why
        if (handle != nullptr) destroy(&handle);
        call.status = 0;
      });
  if (!confined.ok()) PutRefusal(answer, NVJITLINK_ERROR_INTERNAL, confined.message());
  AnswerWith(call, answer);
}

void Serve_nvJitLinkComplete(LibraryCall& call) {
  constexpr size_t kInputBytes = 24;
  const auto options = call.Value<uint32_t>();
  const auto count = call.Value<uint32_t>();
  Texts texts = GetTexts(call, options);
  if (count > call.base().in.remaining_bytes() / kInputBytes)
    return call.base().Reject("more inputs than the record has room for");
  std::vector<Input> inputs(count);
  for (Input& input : inputs) {
    input.type = static_cast<nvJitLinkInputType>(call.Value<uint32_t>());
    input.data = GetText(call);
    input.name = GetText(call);
  }
  if (call.Ready()) {
    const std::string refused = RefusedOption(Compiler::kNvJitLink, texts, {});
    Builder answer;
    if (refused.empty()) {
      Link(call, std::move(texts), std::move(inputs)).Run();
    } else {
      PutRefusal(answer, NVJITLINK_ERROR_UNRECOGNIZED_OPTION, refused);
      AnswerWith(call, answer);
    }
  }
  AnswerFailure(call);
}

int64_t NvJitLinkVersion(void* library) {
  auto get = reinterpret_cast<decltype(&::nvJitLinkVersion)>(dlsym(library, "nvJitLinkVersion"));
  unsigned major = 0, minor = 0;
  if (get == nullptr || get(&major, &minor) != NVJITLINK_SUCCESS) return 0;
  return int64_t{major} << 20 | int64_t{minor} << 10;
}

}  // namespace farcall::server
