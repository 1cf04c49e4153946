// SPDX-License-Identifier: Apache-2.0
// A tenant's sources, options and inputs against a canary: a file of the server's that a compiler
// could quote in its log. With Landlock, and on a kernel that has none.
#include <gtest/gtest.h>
#include <stddef.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>

#include "generated/proto/nvjitlink_call.h"
#include "generated/proto/nvrtc_call.h"
#include "tests/security/tenant_client.h"
#include "tests/tools/hide_landlock.h"

namespace farcall::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kCanary[] = "farcall_canary_that_no_tenant_reads";
constexpr char kKernel[] = "extern \"C\" __global__ void put(int* x) { *x = 1; }\n";
constexpr char kPtx[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry put() { ret; }\n";

class TenantCompilers : public ::testing::Test {
 protected:
  TenantCompilers() {
    std::string pattern = (fs::temp_directory_path() / "farcall-canary-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    canary_ = folder_ + "/canary.h";
    std::ofstream(canary_) << "--" << kCanary << "\n" << kCanary << " " << kCanary << ";\n";
    fs::permissions(folder_, fs::perms::all);
  }
  ~TenantCompilers() override { fs::remove_all(folder_); }

  void Serve(bool has_landlock, std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {"--device", "cpu"});
    std::thread([&] {
      if (has_landlock || test::HideLandlock())
        server_ = std::make_unique<ServerProcess>(flags, false);
    }).join();
    ASSERT_NE(server_, nullptr);
    ASSERT_TRUE(client_.Connect(server_->url()).ok()) << server_->ready();
  }

  RawReply Ask(const Builder& body) { return client_.Ask(SessionCall::kLibrary, body, 0); }

  RawReply Compile(const std::string& source, const std::vector<std::string>& options) {
    Builder body = LibraryRecord(LibraryId::kNvrtc, nvrtc::Function::nvrtcCompileProgram);
    body.Put<uint32_t>(0);
    body.Put<uint32_t>(static_cast<uint32_t>(options.size()));
    body.Put<uint32_t>(0);
    body.Put<uint32_t>(0);
    PutText(body, source);
    PutText(body, "tenant.cu");
    for (const std::string& option : options) PutText(body, option);
    return Ask(body);
  }

  RawReply LinkCreate(const std::vector<std::string>& options) {
    Builder body = LibraryRecord(LibraryId::kNvjitlink, nvjitlink::Function::nvJitLinkCreate);
    body.Put<uint32_t>(static_cast<uint32_t>(options.size()));
    for (const std::string& option : options) PutText(body, option);
    return Ask(body);
  }

  RawReply Link(const std::vector<std::string>& options, uint32_t type, const std::string& input) {
    Builder body = LibraryRecord(LibraryId::kNvjitlink, nvjitlink::Function::nvJitLinkComplete);
    body.Put<uint32_t>(static_cast<uint32_t>(options.size()));
    body.Put<uint32_t>(1);
    for (const std::string& option : options) PutText(body, option);
    body.Put<uint32_t>(type);
    PutText(body, input);
    PutText(body, "input");
    return Ask(body);
  }

  // By every option that names a file, to every compiler.
  void TryAll() {
    for (const std::string& option : Options()) {
      for (const std::vector<std::string>& options : {std::vector<std::string>{option},
                                                      {"-arch=sm_75", option},
                                                      {option, canary_},
                                                      {"-arch=sm_75", "-lto", option}}) {
        Look(Compile(kKernel, options), option + " to NVRTC");
        Look(LinkCreate(options), option + " to nvJitLinkCreate");
        Look(Link(options, kPtxInput, kPtx), option + " to nvJitLinkComplete");
      }
    }
    for (const std::string& source :
         {"#include \"" + canary_ + "\"\n", "#include <" + canary_ + ">\n",
          "#define NAME <" + canary_ + ">\n#include NAME\n",
          "#pragma push_macro(\"x\")\n#include_next \"" + canary_ + "\"\n",
          "__device__ void f() { asm(\".include \\\"" + canary_ + "\\\"\"); }\n",
          "#if __has_include(\"" + canary_ + "\")\n#error " + kCanary + "\n#endif\n"})
      Look(Compile(source + kKernel, {}), source);
    const std::string archive = "!<thin>\n" + canary_ + "/\n";
    for (uint32_t type = 0; type <= 10; ++type) {
      Look(Link({"-arch=sm_75"}, type, archive), "a thin archive");
      Look(Link({"-arch=sm_75"}, type, canary_), "a path in the place of an input");
    }
  }

  std::vector<std::string> Options() const {
    std::vector<std::string> all;
    for (const char* name :
         {"--options-file",   "-optf",    "-I",        "--include-path", "-include",
          "--pre-include",    "-isystem", "--use-pch", "--pch-dir",      "-Xptxas",
          "--ptxas-options",  "-Xnvvm",   "-Xcicc",    "-Xlinker",       "--time",
          "--system-include", "-L",       "-l",        "--input-file",   "-variables-used"}) {
      for (const std::string& value :
           {canary_, folder_, "--options-file=" + canary_, "@" + canary_, "-optf," + canary_}) {
        all.push_back(std::string(name) + "=" + value);
        all.push_back(std::string(name) + value);
      }
    }
    all.insert(all.end(), {"@" + canary_, canary_, "-Xptxas=-v,--options-file=" + canary_});
    return all;
  }

  void Look(const RawReply& reply, const std::string& how) {
    ASSERT_TRUE(reply.arrived) << how;
    // What the tenant itself sent holds the canary's name, never its text; the last source's
    // `#error` would say it as well if the file were there.
    EXPECT_EQ(TextOf(reply).find(kCanary), std::string::npos) << how << ":\n" << TextOf(reply);
  }

  static constexpr uint32_t kPtxInput = 2;  // NVJITLINK_INPUT_PTX
  std::string folder_, canary_;
  std::unique_ptr<ServerProcess> server_;
  RawClient client_;
};

TEST_F(TenantCompilers, ReadNoFileOfTheServers) {
  if (syscall(444, nullptr, 0, 1) <= 0)  // landlock_create_ruleset: its version
    GTEST_SKIP() << "this kernel has no Landlock";
  Serve(true);
  const RawReply sound = Compile(kKernel, {"-arch=compute_75"});
  if (TextOf(sound).find(".entry") == std::string::npos)
    GTEST_SKIP() << "no NVRTC here: " << TextOf(sound);
  TryAll();
}

TEST_F(TenantCompilers, WithoutLandlockNothingIsCompiledAndTheKernelIsNamed) {
  Serve(false);
  const std::string said = TextOf(Compile(kKernel, {"-arch=compute_75"}));
  utsname kernel{};
  uname(&kernel);
  EXPECT_EQ(said.find(".entry"), std::string::npos) << said;
  EXPECT_NE(said.find(kernel.release), std::string::npos) << said;
  EXPECT_NE(said.find("--trust-tenants"), std::string::npos) << said;
  TryAll();
}

// Options and archives are refused whatever the kernel; sources may read where tenants are trusted.
TEST_F(TenantCompilers, WhereTenantsAreTrustedOptionsAreRefusedNevertheless) {
  Serve(false, {"--trust-tenants"});
  for (const std::string& option : Options()) {
    Look(Compile(kKernel, {option}), option);
    Look(LinkCreate({"-arch=sm_75", option}), option);
    Look(Link({"-arch=sm_75", option}, kPtxInput, kPtx), option);
  }
}

}  // namespace
}  // namespace farcall::testing
