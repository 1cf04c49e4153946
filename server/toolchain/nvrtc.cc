// SPDX-License-Identifier: Apache-2.0
// nvrtcCompileProgram for a client, whose program is all in the record (client-shim/nvrtc/). The
// source is hostile: it names files, so the thread that compiles opens none but NVRTC's own and
// CUDA's headers.
#include "toolkit/nvrtc.h"

#include <dlfcn.h>
#include <nvrtc.h>

#include <algorithm>
#include <filesystem>

#include "generated/proto/nvrtc_call.h"
#include "proto/library/toolchain.h"
#include "server/library/library_text.h"
#include "server/state/session.h"
#include "server/toolchain/compiler_options.h"
#include "server/toolchain/confined_job.h"
#include "server/toolchain/toolchain.h"

namespace farcall::server {

namespace {

namespace fs = std::filesystem;
using farcall::nvrtc::Function;
using Texts = std::vector<std::shared_ptr<const std::string>>;

#define FARCALL_NVRTC(name) call.Of<decltype(&::name)>(static_cast<uint16_t>(Function::name))

// CUDA's headers beside this NVRTC: a toolkit's, or NVIDIA's packages'. What the client has comes
// with its program; these are for containers that have none.
struct HeaderFolders {
  std::vector<std::string> cuda, cccl;
};
HeaderFolders FindHeaders(const fs::path& library) {
  HeaderFolders folders;
  for (const char* to : {"../include", "../../include", "../../../include",
                         "../../cuda_runtime/include", "../../cuda_cccl/include"}) {
    std::error_code error;
    const fs::path folder = fs::weakly_canonical(library / to, error);
    if (fs::exists(folder / "cuda_fp16.h", error)) folders.cuda.push_back(folder.string());
    for (const fs::path& cccl : {folder / "cccl", folder})
      if (fs::exists(cccl / "cuda/std/version", error)) folders.cccl.push_back(cccl.string());
  }
  return folders;
}

std::vector<std::string> FoldersToRead(const std::string& library, const HeaderFolders& headers) {
  std::vector<std::string> folders = {library};
  folders.insert(folders.end(), headers.cuda.begin(), headers.cuda.end());
  folders.insert(folders.end(), headers.cccl.begin(), headers.cccl.end());
  return folders;
}

struct Program {
  std::shared_ptr<const std::string> source, name;
  Texts headers, header_names, options, expressions;
  uint32_t flags = 0;
};

bool ReadProgram(LibraryCall& call, Program* program) {
  const auto headers = call.Value<uint32_t>();
  const auto options = call.Value<uint32_t>();
  const auto expressions = call.Value<uint32_t>();
  program->flags = call.Value<uint32_t>();
  program->source = GetText(call);
  program->name = GetText(call);
  program->headers = GetTexts(call, headers);
  program->header_names = GetTexts(call, headers);
  program->options = GetTexts(call, options);
  program->expressions = GetTexts(call, expressions);
  return call.Ready();
}

std::vector<const char*> Pointers(const Texts& texts) {
  std::vector<const char*> pointers;
  for (const auto& text : texts) pointers.push_back(text->c_str());
  return pointers;
}

using SizeOf = nvrtcResult (*)(nvrtcProgram, size_t*);
using Get = nvrtcResult (*)(nvrtcProgram, char*);

// {i32 status, u32 0, bytes}; `instead`: for an image that this device could not load.
void PutImage(Builder& answer, nvrtcProgram program, SizeOf size_of, Get get,
              const std::string* instead = nullptr, std::string* copy = nullptr) {
  std::string image;
  size_t bytes = 0;
  nvrtcResult status = NVRTC_ERROR_INVALID_PROGRAM;  // an older NVRTC has no such image
  if (size_of != nullptr && get != nullptr) {
    status = size_of(program, &bytes);
    if (status == NVRTC_SUCCESS) {
      image.resize(bytes);
      status = bytes == 0 ? status : get(program, image.data());
    }
  }
  if (instead != nullptr) {
    image = *instead;
    status = NVRTC_SUCCESS;
  }
  answer.Put<int32_t>(status);
  answer.Put<uint32_t>(0);
  answer.PutString(status == NVRTC_SUCCESS ? image : "");
  if (copy != nullptr) *copy = std::move(image);
}

class Job {
 public:
  Job(LibraryCall& call, const Program& program) : call_(call), program_(program) {}

  void Run() {
    LibraryCall& call = call_;
    auto create = FARCALL_NVRTC(nvrtcCreateProgram);
    auto destroy = FARCALL_NVRTC(nvrtcDestroyProgram);
    if (!ChooseOptions() || create == nullptr || destroy == nullptr) return;
    const std::string library = FolderOfFunction(reinterpret_cast<void*>(create));
    const HeaderFolders headers = FindHeaders(library);
    LoadBuiltins(library);
    AddFolders(headers.cuda, farcall::nvrtc::kServerHeaders);
    AddFolders(headers.cccl, farcall::nvrtc::kServerCccl);
    Status confined =
        RunConfined(FoldersToRead(library, headers), call_.base().session.options().trust_tenants,
                    [&] { CreateAndCompile(create, destroy); });
    if (!confined.ok())
      AnswerAlone(NVRTC_ERROR_INTERNAL_ERROR, "farcall: " + confined.message() + "\n");
  }

 private:
  template <typename Create, typename Destroy>
  void CreateAndCompile(Create create, Destroy destroy) {
    nvrtcProgram made = nullptr;
    nvrtcResult status =
        create(&made, program_.source->c_str(), program_.name->c_str(),
               static_cast<int>(program_.headers.size()), Pointers(program_.headers).data(),
               Pointers(program_.header_names).data());
    if (status != NVRTC_SUCCESS) return AnswerAlone(status, "");
    Compile(made);
    destroy(&made);
  }

  bool ChooseOptions() {
    const std::string refused =
        RefusedOption(Compiler::kNvrtc, program_.options, program_.header_names);
    if (!refused.empty()) {
      AnswerAlone(NVRTC_ERROR_INVALID_OPTION, "farcall: " + refused + "\n");
      return false;
    }
    for (const auto& option : program_.options) {
      options_.push_back(*option);
      to_ptx_ |= call_.base().session.prefers_ptx() && AskForPtx(&options_.back());
    }
    return true;
  }

  void AddFolders(const std::vector<std::string>& folders, uint32_t flag) {
    if ((program_.flags & flag) == 0) return;
    for (const std::string& folder : folders) options_.push_back("-I" + folder);
  }

  void Compile(nvrtcProgram made) {
    LibraryCall& call = call_;
    auto add = FARCALL_NVRTC(nvrtcAddNameExpression);
    nvrtcResult status = NVRTC_SUCCESS;
    for (const auto& expression : program_.expressions)
      if (add != nullptr && status == NVRTC_SUCCESS) status = add(made, expression->c_str());
    StopWithSession(made);
    std::vector<const char*> options;
    for (const std::string& option : options_) options.push_back(option.c_str());
    auto compile = FARCALL_NVRTC(nvrtcCompileProgram);
    if (status == NVRTC_SUCCESS && compile != nullptr)
      status = compile(made, static_cast<int>(options.size()), options.data());
    Answer(made, status);
  }

  // A source that never ends must not hold the worker. NVRTC 12.8 and newer ask.
  void StopWithSession(nvrtcProgram made) {
    LibraryCall& call = call_;
    auto set = FARCALL_NVRTC(nvrtcSetFlowCallback);
    call.status = 0;
    if (set == nullptr) return;
    set(
        made,
        [](void* session, void*) { return static_cast<Session*>(session)->leaving() ? 1 : 0; },
        &call.base().session);
  }

  void AnswerAlone(nvrtcResult status, const std::string& log) {
    Builder answer;
    answer.Put<int32_t>(status);
    answer.Put<uint32_t>(0);
    answer.PutString(log);
    AnswerWith(call_, answer);
  }

  void Answer(nvrtcProgram made, nvrtcResult status) {
    LibraryCall& call = call_;
    Builder answer;
    answer.Put<int32_t>(status);
    answer.Put<uint32_t>(1);  // all of it follows
    answer.PutString(Log(made));
    std::string ptx;
    PutImage(answer, made, FARCALL_NVRTC(nvrtcGetPTXSize), FARCALL_NVRTC(nvrtcGetPTX), nullptr,
             &ptx);
    PutImage(answer, made, FARCALL_NVRTC(nvrtcGetCUBINSize), FARCALL_NVRTC(nvrtcGetCUBIN),
             to_ptx_ && status == NVRTC_SUCCESS ? &ptx : nullptr);
    PutImage(answer, made, FARCALL_NVRTC(nvrtcGetLTOIRSize), FARCALL_NVRTC(nvrtcGetLTOIR));
    PutImage(answer, made, FARCALL_NVRTC(nvrtcGetOptiXIRSize), FARCALL_NVRTC(nvrtcGetOptiXIR));
    auto lowered = FARCALL_NVRTC(nvrtcGetLoweredName);
    for (const auto& expression : program_.expressions) {
      const char* name = nullptr;
      nvrtcResult found = lowered == nullptr ? NVRTC_ERROR_INTERNAL_ERROR
                                             : lowered(made, expression->c_str(), &name);
      answer.Put<int32_t>(found);
      answer.Put<uint32_t>(0);
      answer.PutString(found == NVRTC_SUCCESS && name != nullptr ? name : "");
    }
    call.status = 0;  // what an older NVRTC lacks is in the answer
    AnswerWith(call, answer);
  }

  std::string Log(nvrtcProgram made) {
    LibraryCall& call = call_;
    auto size_of = FARCALL_NVRTC(nvrtcGetProgramLogSize);
    auto get = FARCALL_NVRTC(nvrtcGetProgramLog);
    size_t bytes = 0;
    if (size_of == nullptr || get == nullptr || size_of(made, &bytes) != NVRTC_SUCCESS) return "";
    std::string log(bytes, 0);
    if (bytes != 0) get(made, log.data());
    while (!log.empty() && log.back() == 0) log.pop_back();
    return log;
  }

  LibraryCall& call_;
  const Program& program_;
  std::vector<std::string> options_;
  bool to_ptx_ = false;
};

}  // namespace

void Serve_nvrtcCompileProgram(LibraryCall& call) {
  Program program;
  if (ReadProgram(call, &program)) Job(call, program).Run();
  AnswerFailure(call);
}

void Serve_nvrtcGetSupportedArchs(LibraryCall& call) {
  auto count = FARCALL_NVRTC(nvrtcGetNumSupportedArchs);
  auto get = FARCALL_NVRTC(nvrtcGetSupportedArchs);
  if (!call.Ready()) return AnswerFailure(call, 1);
  int archs = 0;
  call.status = count(&archs);
  std::vector<int> numbers(static_cast<size_t>(std::max(archs, 0)));
  if (call.status == NVRTC_SUCCESS && !numbers.empty()) call.status = get(numbers.data());
  call.PutOutput(numbers.data(), numbers.size() * sizeof(int));
}

int64_t NvrtcVersion(void* library) {
  auto get = reinterpret_cast<decltype(&::nvrtcVersion)>(dlsym(library, "nvrtcVersion"));
  int major = 0, minor = 0;
  if (get == nullptr || get(&major, &minor) != NVRTC_SUCCESS) return 0;
  return int64_t{major} << 20 | int64_t{minor} << 10;
}

}  // namespace farcall::server
