// SPDX-License-Identifier: Apache-2.0
// The life of a program and all that is known of it here: only compiling it leaves the client.
#include "client-shim/nvrtc/program.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "client-shim/core/report/fork_lock.h"
#include "client-shim/thin/call.h"
#include "client-shim/thin/forked.h"
#include "generated/proto/nvrtc_call.h"

#define NVRTC_ENTRY extern "C" __attribute__((visibility("default"))) nvrtcResult

namespace farcall::nvrtc_client {

namespace {

struct Programs {
  client::ForkLock mutex;  // of this, and of the outcome in each
  std::unordered_map<nvrtcProgram, std::shared_ptr<Program>> live;
};
// Never destroyed: handlers of exit may still use it.
Programs& ThePrograms() {
  static auto* programs = new Programs;
  return *programs;
}

nvrtcProgram AddProgram(std::shared_ptr<Program> program) {
  auto handle = reinterpret_cast<nvrtcProgram>(program.get());
  Programs& programs = ThePrograms();
  std::lock_guard lock(programs.mutex);
  programs.live.emplace(handle, std::move(program));
  return handle;
}

std::shared_ptr<const Outcome> OutcomeOf(Program& program) {
  std::lock_guard lock(ThePrograms().mutex);
  return program.outcome;
}

const Image& ImageOf(const Outcome* outcome, ImageKind kind) {
  // PTX is text: nothing is its terminator.
  static const auto* kNoText = new Image{NVRTC_SUCCESS, std::string(1, 0)};
  static const auto* kNone = new Image;
  if (outcome != nullptr) return outcome->images[kind];
  return kind == kPtx ? *kNoText : *kNone;
}

nvrtcResult TellSize(nvrtcProgram handle, ImageKind kind, size_t* bytes) {
  std::shared_ptr<Program> program = FindProgram(handle);
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (bytes == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  std::shared_ptr<const Outcome> outcome = OutcomeOf(*program);
  const Image& image = ImageOf(outcome.get(), kind);
  if (image.status == NVRTC_SUCCESS) *bytes = image.bytes.size();
  return image.status;
}

nvrtcResult Tell(nvrtcProgram handle, ImageKind kind, char* to) {
  std::shared_ptr<Program> program = FindProgram(handle);
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (to == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  std::shared_ptr<const Outcome> outcome = OutcomeOf(*program);
  const Image& image = ImageOf(outcome.get(), kind);
  if (image.status == NVRTC_SUCCESS) std::copy(image.bytes.begin(), image.bytes.end(), to);
  return image.status;
}

// Asked once: what the server's NVRTC compiles for.
struct Archs {
  nvrtcResult status;
  std::vector<int> numbers;
};
const Archs& SupportedArchs() {
  static std::mutex* mutex = new std::mutex;
  static const Archs* archs = nullptr;
  static const auto* kNone = new Archs{NVRTC_ERROR_INTERNAL_ERROR, {}};
  if (thin::Open() != 0) return *kNone;  // also in a child, where the lock may be nobody's
  std::lock_guard lock(*mutex);
  if (archs != nullptr) return *archs;
  std::string bytes;
  thin::Call call(nvrtc::Function::nvrtcGetSupportedArchs);
  call.OutText(&bytes);
  int status = call.Ask();
  if (status != 0) return *kNone;
  auto* found = new Archs{NVRTC_SUCCESS, std::vector<int>(bytes.size() / sizeof(int))};
  std::memcpy(found->numbers.data(), bytes.data(), found->numbers.size() * sizeof(int));
  archs = found;
  return *archs;
}

}  // namespace

std::shared_ptr<Program> FindProgram(nvrtcProgram handle) {
  Programs& programs = ThePrograms();
  std::lock_guard lock(programs.mutex);
  auto found = programs.live.find(handle);
  return found == programs.live.end() ? nullptr : found->second;
}

}  // namespace farcall::nvrtc_client

using namespace farcall::nvrtc_client;

extern "C" __attribute__((visibility("default"))) const char* nvrtcGetErrorString(
    nvrtcResult result) {
  static const char* const kNames[] = {"NVRTC_SUCCESS",
                                       "NVRTC_ERROR_OUT_OF_MEMORY",
                                       "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
                                       "NVRTC_ERROR_INVALID_INPUT",
                                       "NVRTC_ERROR_INVALID_PROGRAM",
                                       "NVRTC_ERROR_INVALID_OPTION",
                                       "NVRTC_ERROR_COMPILATION",
                                       "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
                                       "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
                                       "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
                                       "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
                                       "NVRTC_ERROR_INTERNAL_ERROR",
                                       "NVRTC_ERROR_TIME_FILE_WRITE_FAILED",
                                       "NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED",
                                       "NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED",
                                       "NVRTC_ERROR_PCH_CREATE",
                                       "NVRTC_ERROR_CANCELLED",
                                       "NVRTC_ERROR_TIME_TRACE_FILE_WRITE_FAILED"};
  const auto code = static_cast<size_t>(result);
  return code < std::size(kNames) ? kNames[code] : "NVRTC_ERROR unknown";
}

NVRTC_ENTRY nvrtcVersion(int* major, int* minor) {
  if (major == nullptr || minor == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  *major = farcall::thin::VersionPart(0);
  *minor = farcall::thin::VersionPart(1);
  return NVRTC_SUCCESS;
}

NVRTC_ENTRY nvrtcGetNumSupportedArchs(int* count) {
  if (count == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  const auto& archs = SupportedArchs();
  *count = static_cast<int>(archs.numbers.size());
  return archs.status;
}

NVRTC_ENTRY nvrtcGetSupportedArchs(int* numbers) {
  if (numbers == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  const auto& archs = SupportedArchs();
  std::memcpy(numbers, archs.numbers.data(), archs.numbers.size() * sizeof(int));
  return archs.status;
}

NVRTC_ENTRY nvrtcCreateProgram(nvrtcProgram* handle, const char* source, const char* name,
                               int headers, const char* const* texts, const char* const* names) {
  if (handle == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (source == nullptr || headers < 0 || (headers > 0 && (texts == nullptr || names == nullptr)))
    return NVRTC_ERROR_INVALID_INPUT;
  auto program = std::make_shared<Program>();
  program->source = source;
  program->name = name == nullptr || *name == 0 ? "default_program" : name;
  for (int i = 0; i < headers; ++i) {
    if (texts[i] == nullptr || names[i] == nullptr) return NVRTC_ERROR_INVALID_INPUT;
    program->headers.push_back({names[i], std::make_shared<const std::string>(texts[i])});
  }
  *handle = AddProgram(std::move(program));
  return NVRTC_SUCCESS;
}

NVRTC_ENTRY nvrtcDestroyProgram(nvrtcProgram* handle) {
  if (handle == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  Programs& programs = ThePrograms();
  std::lock_guard lock(programs.mutex);
  if (programs.live.erase(*handle) == 0) return NVRTC_ERROR_INVALID_PROGRAM;
  *handle = nullptr;
  return NVRTC_SUCCESS;
}

NVRTC_ENTRY nvrtcCompileProgram(nvrtcProgram handle, int count, const char* const* given) {
  std::shared_ptr<Program> program = FindProgram(handle);
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (count < 0) return NVRTC_ERROR_INVALID_INPUT;
  std::vector<std::string> options;
  for (int i = 0; i < count; ++i) {
    if (given == nullptr || given[i] == nullptr) return NVRTC_ERROR_INVALID_OPTION;
    options.emplace_back(given[i]);
  }
  // NVRTC asks this now and then; here it is asked before the program leaves, and cannot be while
  // the server compiles.
  if (program->flow != nullptr && program->flow(program->flow_payload, nullptr) != 0)
    return NVRTC_ERROR_CANCELLED;
  std::shared_ptr<const Outcome> outcome = Compile(*program, options);
  std::lock_guard lock(ThePrograms().mutex);
  program->outcome = outcome;
  return outcome->status;
}

NVRTC_ENTRY nvrtcGetPTXSize(nvrtcProgram program, size_t* bytes) {
  return TellSize(program, kPtx, bytes);
}
NVRTC_ENTRY nvrtcGetPTX(nvrtcProgram program, char* to) {
  return Tell(program, kPtx, to);
}
NVRTC_ENTRY nvrtcGetCUBINSize(nvrtcProgram program, size_t* bytes) {
  return TellSize(program, kCubin, bytes);
}
NVRTC_ENTRY nvrtcGetCUBIN(nvrtcProgram program, char* to) {
  return Tell(program, kCubin, to);
}
NVRTC_ENTRY nvrtcGetLTOIRSize(nvrtcProgram program, size_t* bytes) {
  return TellSize(program, kLtoIr, bytes);
}
NVRTC_ENTRY nvrtcGetLTOIR(nvrtcProgram program, char* to) {
  return Tell(program, kLtoIr, to);
}
NVRTC_ENTRY nvrtcGetOptiXIRSize(nvrtcProgram program, size_t* bytes) {
  return TellSize(program, kOptixIr, bytes);
}
NVRTC_ENTRY nvrtcGetOptiXIR(nvrtcProgram program, char* to) {
  return Tell(program, kOptixIr, to);
}

NVRTC_ENTRY nvrtcGetProgramLogSize(nvrtcProgram handle, size_t* bytes) {
  std::shared_ptr<Program> program = FindProgram(handle);
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (bytes == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  std::shared_ptr<const Outcome> outcome = OutcomeOf(*program);
  *bytes = (outcome == nullptr ? 0 : outcome->log.size()) + 1;
  return NVRTC_SUCCESS;
}

NVRTC_ENTRY nvrtcGetProgramLog(nvrtcProgram handle, char* to) {
  std::shared_ptr<Program> program = FindProgram(handle);
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (to == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  std::shared_ptr<const Outcome> outcome = OutcomeOf(*program);
  const std::string_view log = outcome == nullptr ? std::string_view() : outcome->log;
  *std::copy(log.begin(), log.end(), to) = '\0';
  return NVRTC_SUCCESS;
}

NVRTC_ENTRY nvrtcAddNameExpression(nvrtcProgram handle, const char* expression) {
  std::shared_ptr<Program> program = FindProgram(handle);
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (expression == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  if (OutcomeOf(*program) != nullptr) return NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION;
  program->expressions.emplace_back(expression);
  return NVRTC_SUCCESS;
}

// The name lives as long as the program.
NVRTC_ENTRY nvrtcGetLoweredName(nvrtcProgram handle, const char* expression, const char** name) {
  std::shared_ptr<Program> program = FindProgram(handle);
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (expression == nullptr || name == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  std::shared_ptr<const Outcome> outcome = OutcomeOf(*program);
  if (outcome == nullptr) return NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION;
  auto found = outcome->lowered.find(expression);
  if (found == outcome->lowered.end()) return NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
  if (found->second.status == NVRTC_SUCCESS) *name = found->second.name.c_str();
  return found->second.status;
}

NVRTC_ENTRY nvrtcSetFlowCallback(nvrtcProgram handle, int (*callback)(void*, void*),
                                 void* payload) {
  std::shared_ptr<Program> program = FindProgram(handle);
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  program->flow = callback;
  program->flow_payload = payload;
  return NVRTC_SUCCESS;
}

// Precompiled headers would be files of the machine that compiles: none is made, and the heap that
// they would lie in is a number here.
namespace {
std::atomic<size_t> g_pch_heap_bytes{256u << 20};
}  // namespace

NVRTC_ENTRY nvrtcGetPCHHeapSize(size_t* bytes) {
  if (bytes == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  *bytes = g_pch_heap_bytes.load();
  return NVRTC_SUCCESS;
}
NVRTC_ENTRY nvrtcSetPCHHeapSize(size_t bytes) {
  g_pch_heap_bytes.store(bytes);
  return NVRTC_SUCCESS;
}
NVRTC_ENTRY nvrtcGetPCHCreateStatus(nvrtcProgram handle) {
  return FindProgram(handle) == nullptr ? NVRTC_ERROR_INVALID_PROGRAM
                                        : NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED;
}
NVRTC_ENTRY nvrtcGetPCHHeapSizeRequired(nvrtcProgram handle, size_t*) {
  return nvrtcGetPCHCreateStatus(handle);
}
