// SPDX-License-Identifier: Apache-2.0

// softhca-run, with runtime directories made up for the purpose, and the packaged libibverbs.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "daemon/base/unique_fd.hpp"

namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code;
  std::string output;  ///< standard output and error
};

class Run : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/softhca-run-XXXXXX";
    root_ = ::mkdtemp(name);
    for (const char* variable : {"SOFTHCA_RUNTIME_DIR", "SOFTHCA_TENANT", "RUNTIME_DIRECTORY",
                                 "XDG_RUNTIME_DIR", "LD_PRELOAD", "IBV_DRIVERS", "RDMAV_DRIVERS"}) {
      ::unsetenv(variable);
    }
  }
  static void SetUpTestSuite() { ::setenv("PATH", "/usr/bin:/bin", 1); }
  void TearDown() override { fs::remove_all(root_); }

  /// A build tree in `there`, with the provider under this name.
  void copy_to(const fs::path& there, const std::string& provider) {
    const fs::path built = fs::path(SOFTHCA_RUN).parent_path().parent_path();
    fs::create_directories(there / "libverbs-provider/preload");
    fs::create_directories(there / "cli");
    for (const char* file : {"cli/softhca-run", "libverbs-provider/preload/libsofthca-preload.so"})
      fs::copy_file(built / file, there / file);
    fs::copy_file(built / "libverbs-provider/libsofthca-rdmav34.so",
                  there / "libverbs-provider" / provider);
  }
  void write(const fs::path& path, const char* text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  }
  void add_tenant(const std::string& name) {
    const fs::path tree = root_ / name / "sysfs" / "class";
    write(tree / "infiniband_verbs/abi_version", "6");
    write(tree / "infiniband_verbs/softhca0/ibdev", "softhca0");
    write(tree / "infiniband_verbs/softhca0/dev", "1:3");
    fs::create_directories(root_ / name / "sysfs/devices/softhca/softhca0");
    write(tree / "infiniband_verbs/softhca0/abi_version", "1");
    write(tree / "infiniband/softhca0/node_type", "1: CA");
    write(tree / "infiniband/softhca0/node_guid", "0211:22ff:fe33:4455");
    write(tree / "infiniband/softhca0/softhca_socket", (root_ / name / "socket").c_str());
    listen_at(root_ / name / "socket");
  }
  /// In the daemon's place: what has no listener counts as dead.
  void listen_at(const fs::path& path) {
    sockets_.emplace_back(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.string().copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(sockets_.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof address),
              0);
    ASSERT_EQ(::listen(sockets_.back().get(), 16), 0);
  }
  /// With --runtime-dir.
  Outcome run(const std::string& arguments) {
    return shell(std::string(SOFTHCA_RUN) + " --runtime-dir " + root_.string() + " " + arguments);
  }
  Outcome shell(const std::string& command) {
    FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
    Outcome outcome{};
    std::array<char, 512> text;
    while (std::fgets(text.data(), text.size(), pipe) != nullptr) outcome.output += text.data();
    outcome.code = WEXITSTATUS(::pclose(pipe));
    return outcome;
  }

  fs::path root_;
  std::vector<softhca::UniqueFd> sockets_;
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(Run, SetsTheEnvironment) {
  add_tenant("red");
  const Outcome outcome = run("env");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  const std::string tree = (root_ / "red/sysfs").string();
  EXPECT_TRUE(contains(outcome.output, "\nSYSFS_PATH=" + tree + "\n")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "SOFTHCA_SYSFS=" + tree + "\n"));
  EXPECT_TRUE(contains(outcome.output, "SOFTHCA_TENANT=red\n"));
  EXPECT_TRUE(contains(outcome.output, "/libsofthca-preload.so\n"));
  EXPECT_TRUE(contains(outcome.output, "IBV_DRIVERS=/"));
  EXPECT_TRUE(contains(outcome.output, "/libsofthca\n"));
}

TEST_F(Run, WorksFromAFolderWithASpaceInItsName) {
  add_tenant("red");
  const fs::path there = root_ / "my copy";
  copy_to(there, "libsofthca-rdmav34.so");
  const Outcome outcome = shell("'" + (there / "cli/softhca-run").string() + "' --runtime-dir " +
                                root_.string() + " grep -l libsofthca-preload /proc/self/maps");
  EXPECT_EQ(outcome.output, "/proc/self/maps\n");
}

TEST_F(Run, SaysThatThereIsNoProviderForTheInstalledLibrary) {
  if (shell("command -v ibv_devices").code != 0) GTEST_SKIP() << "no libibverbs here";
  add_tenant("red");
  copy_to(root_ / "copy", "libsofthca-rdmav7.so");
  const Outcome outcome = shell((root_ / "copy/cli/softhca-run").string() + " --runtime-dir " +
                                root_.string() + " -t red echo ran");
  EXPECT_TRUE(contains(outcome.output, "libibverbs.so.1")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "softhca has those for 7:")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "\nran\n")) << outcome.output;
  EXPECT_EQ(run("-t red echo ran").output, "ran\n");
}

TEST_F(Run, DaemonSpeaksOtherVersions_SaysSoAndDoesNotStartTheProgram) {
  add_tenant("red");
  const fs::path protocol = root_ / "red/sysfs/class/infiniband/softhca0/softhca_protocol";
  write(protocol, "1000 1002");
  const Outcome outcome = run("-t red echo ran");
  EXPECT_EQ(outcome.code, 125);
  EXPECT_TRUE(contains(outcome.output, "softhca-run: tenant red: the provider speaks protocol"))
      << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "the daemon 1000 to 1002; upgrade the provider"));
  EXPECT_FALSE(contains(outcome.output, "ran\n"));
  write(protocol, "1 1002");
  EXPECT_EQ(run("-t red echo ran").output, "ran\n");
  write(protocol, "nonsense");
  EXPECT_EQ(run("-t red echo ran").output, "ran\n") << "the provider asks the daemon itself";
}

constexpr char kPreloaded[] = "grep -o -m 1 libsofthca-preload.so /proc/self/maps";

TEST_F(Run, ProgramWithAnLdPreloadOfItsOwn_KeepsTheLibrary) {
  add_tenant("red");
  const std::string preloaded = kPreloaded;
  for (const std::string& command :
       {"python3 -c 'import os; os.environ[\"LD_PRELOAD\"] = \"libm.so.6\"; os.system(\"" +
            preloaded + "\")'",
        "env LD_PRELOAD=libm.so.6 " + preloaded, "sh -c 'LD_PRELOAD=libm.so.6 " + preloaded + "'",
        "sh -c 'LD_PRELOAD=libm.so.6 exec " + preloaded + "'",
        "python3 -c 'import os; os.environ[\"LD_PRELOAD\"] = \"libm.so.6\"; "
        "os.execlp(\"env\", \"env\", *\"" +
            preloaded + "\".split())'",
        "python3 -c 'import subprocess; subprocess.run(\"" + preloaded +
            "\".split(), env={**__import__(\"os\").environ, \"LD_PRELOAD\": \"libm.so.6\"})'",
        "python3 -c 'import os; os.posix_spawnp(\"grep\", \"" + preloaded +
            "\".split(), {**os.environ, \"LD_PRELOAD\": \"libm.so.6\"}); os.wait()'"}) {
    EXPECT_EQ(run(command).output, "libsofthca-preload.so\n") << command;
  }
  const std::string both = run("env LD_PRELOAD=libm.so.6 sh -c 'echo $LD_PRELOAD'").output;
  EXPECT_TRUE(both.starts_with("libm.so.6:/")) << both;
  EXPECT_EQ(run("env LD_PRELOAD= " + preloaded).output, "") << "it wants none";
  EXPECT_EQ(run("env -u LD_PRELOAD " + preloaded).output, "") << "likewise";
  EXPECT_EQ(run("env -u SOFTHCA_SYSFS LD_PRELOAD=libm.so.6 " + preloaded).output, "")
      << "it wants no device";
}

TEST_F(Run, ProgramInAFolderWithASpace_KeepsTheLibrary) {
  add_tenant("red");
  const fs::path there = root_ / "my copy";
  copy_to(there, "libsofthca-rdmav34.so");
  const Outcome outcome = shell("'" + (there / "cli/softhca-run").string() + "' --runtime-dir " +
                                root_.string() + " env LD_PRELOAD=libm.so.6 " + kPreloaded);
  EXPECT_EQ(outcome.output, "libsofthca-preload.so\n");
}

TEST_F(Run, ProgramWithAddressSanitizer_FindsTheDevice) {
  add_tenant("red");
  const std::string program = SANITIZED_PROGRAM;
  EXPECT_EQ(run(program).output, "1: CA\n");
  EXPECT_EQ(run("env ASAN_OPTIONS=abort_on_error=1 " + program).output, "1: CA\n");
  EXPECT_EQ(run("sh -c " + program).output, "1: CA\n");
  const std::string runtime = shell("ldd " + program + " | grep -o '/[^ ]*asan[^ ]*'").output;
  ASSERT_FALSE(runtime.empty());
  ::setenv("LD_PRELOAD", runtime.substr(0, runtime.find('\n')).c_str(), 1);
  const std::string given =
      run("env ASAN_OPTIONS=verify_asan_link_order=1:detect_leaks=0 " + program).output;
  ::unsetenv("LD_PRELOAD");
  EXPECT_EQ(given, "1: CA\n") << "preloaded, the runtime comes first";
}

TEST_F(Run, PutsItselfInFrontOfWhatWasThere) {
  add_tenant("red");
  ::setenv("IBV_DRIVERS", "mine", 1);
  Outcome outcome = run("env");
  EXPECT_TRUE(contains(outcome.output, "\nIBV_DRIVERS=/")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "/libsofthca:mine\n"));
  ::setenv("RDMAV_DRIVERS", "theirs", 1);
  outcome = run("env");
  EXPECT_TRUE(contains(outcome.output, "/libsofthca:theirs\n")) << outcome.output;
}

TEST_F(Run, PassesArgumentsOnUnchanged) {
  add_tenant("red");
  const Outcome outcome = run("printf '%s|' --tenant x -h -- '' 'a b'");
  EXPECT_EQ(outcome.output, "--tenant|x|-h|--||a b|");
  EXPECT_EQ(run("-- printf -- -h").output, "-h");
}

TEST_F(Run, PassesTheExitCodeOn) {
  add_tenant("red");
  EXPECT_EQ(run("sh -c 'exit 42'").code, 42);
  const Outcome missing = run("softhca-no-such-program");
  EXPECT_EQ(missing.code, 127);
  EXPECT_TRUE(contains(missing.output, "softhca-no-such-program: No such file")) << missing.output;
  EXPECT_EQ(run(root_.string()).code, 126);
}

TEST_F(Run, ChoosesTheTenant) {
  EXPECT_EQ(run("true").code, 125);
  EXPECT_TRUE(contains(run("true").output, "no tenant in " + root_.string()));
  add_tenant("red");
  add_tenant("blue");
  write(root_ / "not-a-tenant/file", "");
  EXPECT_TRUE(contains(run("env").output, "SOFTHCA_TENANT=blue\n")) << "the first by name";
  EXPECT_TRUE(contains(run("-t blue env").output, "SOFTHCA_TENANT=blue\n"));
  ::setenv("SOFTHCA_TENANT", "red", 1);
  EXPECT_TRUE(contains(run("env").output, "SOFTHCA_TENANT=red\n"));
  EXPECT_TRUE(contains(run("--tenant=blue env").output, "SOFTHCA_TENANT=blue\n"));
  for (const char* wrong : {"green", ".", "..", "red/../blue", "not-a-tenant"}) {
    const Outcome outcome = run(std::string("-t ") + wrong + " true");
    EXPECT_EQ(outcome.code, 125) << wrong;
    EXPECT_TRUE(contains(outcome.output, "blue, red")) << outcome.output;
  }
}

TEST_F(Run, ChoosesTheRuntimeDirectory) {
  add_tenant("red");
  const std::string program = std::string(SOFTHCA_RUN) + " ";
  ::setenv("RUNTIME_DIRECTORY", (root_.string() + ":/elsewhere").c_str(), 1);
  EXPECT_TRUE(contains(shell(program + "env").output, "SOFTHCA_TENANT=red\n"));
  ::setenv("SOFTHCA_RUNTIME_DIR", "/nonexistent", 1);
  const Outcome outcome = shell(program + "env");
  EXPECT_EQ(outcome.code, 125);
  EXPECT_TRUE(contains(outcome.output, "no runtime directory /nonexistent")) << outcome.output;
  EXPECT_EQ(run("true").code, 0);
}

TEST_F(Run, ExplainsItself) {
  const Outcome help = shell(std::string(SOFTHCA_RUN) + " --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_TRUE(contains(help.output, "--tenant"));
  EXPECT_EQ(shell(SOFTHCA_RUN).code, 125);
  EXPECT_EQ(shell(std::string(SOFTHCA_RUN) + " --bogus").code, 125);
}

TEST_F(Run, WrongOptions_AreNamed) {
  const std::pair<const char*, const char*> wrong[] = {
      {"--hosts 2 true", "--hosts needs --daemon"},
      {"--loss 1% true", "--loss needs --daemon"},
      {"--daemon --loss 1% true", "--loss needs --hosts 2"},
      {"--daemon --hosts 2 --loss 3 true", "--loss 3: expected a probability"},
      {"--daemon --hosts 3 true", "--hosts 3: expected a number from 1 to 2"},
      {"--daemon --tenants 27 true", "--tenants 27: expected a number from 1 to 26"},
      {"--daemon --tenants a true", "--tenants a: expected a number from 1 to 26"},
      {"--daemon --tenants 2 --hosts 2 true", "leave --tenants out"},
      {"--daemon --config x --hosts 2 true", "leave --tenants and --hosts out"},
      {"--daemon --runtime-dir /tmp true", "leave it or --daemon out"},
      {"--daemon", "no program given"}};
  for (const auto& [arguments, message] : wrong) {
    const Outcome outcome = shell(std::string(SOFTHCA_RUN) + " " + arguments);
    EXPECT_EQ(outcome.code, 125) << arguments;
    EXPECT_TRUE(contains(outcome.output, message)) << arguments << ": " << outcome.output;
  }
}

TEST_F(Run, LinkOfAPrivateDaemon_RunsAProgramAsItsTenant) {
  const fs::path folder = root_;
  root_ /= "run";
  add_tenant("red");
  add_tenant("blue");
  fs::create_directories(folder / "as");
  fs::create_symlink(SOFTHCA_RUN, folder / "as/red");
  const Outcome outcome = shell((folder / "as/red").string() + " env -u HOME");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(contains(outcome.output, "SOFTHCA_TENANT=red\n")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "SOFTHCA_RUNTIME_DIR=" + root_.string() + "\n"));
  // A program of the one tenant may start one of the other.
  ::setenv("SOFTHCA_TENANT", "blue", 1);
  const Outcome again = shell((folder / "as/red").string() + " " + (folder / "as/red").string() +
                              " sh -c 'echo $IBV_DRIVERS'");
  EXPECT_FALSE(contains(again.output, ":")) << again.output;
  EXPECT_EQ(shell((folder / "as/red").string()).code, 125) << "without a program";
  root_ = folder;
}

TEST_F(Run, TheDistributionsLibraryListsTheDevice) {
  if (shell("command -v ibv_devices").code != 0) GTEST_SKIP() << "no ibv_devices here";
  add_tenant("red");
  const Outcome outcome = run("ibv_devices");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(contains(outcome.output, "softhca0")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "021122fffe334455")) << outcome.output;
}

TEST_F(Run, ProgramsThatReadSysThemselvesSeeTheDevice) {
  add_tenant("red");
  EXPECT_EQ(run("ls /sys/class/infiniband").output, "softhca0\n");
  EXPECT_EQ(run("cat /sys/class/infiniband/softhca0/node_type").output, "1: CA\n");
  EXPECT_EQ(run("stat -c %t:%T /dev/infiniband/softhca0").output, "1:3\n");
}

}  // namespace
