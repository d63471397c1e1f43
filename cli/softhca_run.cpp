// SPDX-License-Identifier: Apache-2.0

// softhca-run: runs a program so that its libibverbs finds the device of a softhca tenant.
#include <getopt.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cli/installed_libibverbs.hpp"
#include "cli/run_places.hpp"

namespace {

using namespace softhca::cli;

constexpr int kUsageError = 125;  // as env, nice and timeout have it
constexpr int kCannotRun = 126;
constexpr int kNotFound = 127;

constexpr char kHelp[] =
    R"(Usage: softhca-run [OPTION]... PROGRAM [ARGUMENT]...

Runs PROGRAM, which may be any that uses libibverbs, with the RDMA device of a softhca tenant.

  -t, --tenant NAME      the tenant; default: $SOFTHCA_TENANT, or the only one open to you
  -l, --level NAME       the level to ask for; default: $SOFTHCA_LEVEL. The tenant must have it.
                         Rules for your user, groups or cgroup come first. Without a rule or
                         this option, the daemon chooses the tenant's default level
  -d, --runtime-dir DIR  where softhcad keeps its sockets and device trees; default:
                         $SOFTHCA_RUNTIME_DIR or $RUNTIME_DIRECTORY, or the first of
                         /run/softhca, $XDG_RUNTIME_DIR/softhca and /tmp/softhca-UID where
                         a daemon serves a tenant open to you
  -h, --help             prints this text
  -V, --version          prints the version

softhca-run sets SYSFS_PATH, SOFTHCA_SYSFS, SOFTHCA_TENANT and SOFTHCA_RUNTIME_DIR for PROGRAM. It
adds the provider at the front of IBV_DRIVERS and RDMAV_DRIVERS, and a library at the end of
LD_PRELOAD. PROGRAM may set LD_PRELOAD for another program: this one gets the library, too. If the
path of softhca has a space, softhca-run also adds a folder at the front of LD_LIBRARY_PATH.
Exit code: that of PROGRAM; 125 if softhca-run fails, 126 if PROGRAM cannot be run, 127 if it is not found.

Example: softhca-run --tenant a ibv_devinfo
)";

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "softhca-run: %s\n", message.c_str());
  std::exit(kUsageError);
}

template <typename Value>
Value or_fail(const Found<Value>& found) {
  if (const auto* failure = std::get_if<Failure>(&found)) fail(failure->message);
  return std::get<Value>(found);
}

struct Options {
  std::string tenant;
  std::string level;
  std::string runtime_directory;
  char** command;
};

Options parse(int argc, char** argv) {
  static const option kLong[] = {
      {"tenant", required_argument, nullptr, 't'},      {"level", required_argument, nullptr, 'l'},
      {"runtime-dir", required_argument, nullptr, 'd'}, {"help", no_argument, nullptr, 'h'},
      {"version", no_argument, nullptr, 'V'},           {nullptr, 0, nullptr, 0}};
  Options options{};
  // '+': the first word that is not an option is the program, and all words after it belong to it.
  for (int letter; (letter = getopt_long(argc, argv, "+t:l:d:hV", kLong, nullptr)) != -1;) {
    switch (letter) {
      case 't':
        options.tenant = optarg;
        break;
      case 'l':
        options.level = optarg;
        break;
      case 'd':
        options.runtime_directory = optarg;
        break;
      case 'h':
        std::fputs(kHelp, stdout);
        std::exit(0);
      case 'V':
        std::puts(SOFTHCA_VERSION);
        std::exit(0);
      default:
        std::fputs("Try 'softhca-run --help'.\n", stderr);
        std::exit(kUsageError);
    }
  }
  options.command = argv + optind;
  if (*options.command == nullptr) fail("no program given; try 'softhca-run --help'");
  return options;
}

void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

std::string in_front_of(const char* name, const std::string& value) {
  const char* before = std::getenv(name);
  return before == nullptr || *before == '\0' ? value : value + ":" + before;
}

std::string behind(const char* name, const std::string& value) {
  const char* before = std::getenv(name);
  return before == nullptr || *before == '\0' ? value : before + (":" + value);
}

void set_environment(const std::filesystem::path& runtime_directory, const std::string& tenant,
                     const Libraries& libraries) {
  std::string preload = libraries.preload.string();
  if (preload.find_first_of(":;") != std::string::npos)
    fail("the dynamic linker cannot preload " + preload +
         ": its path has a colon or semicolon; install softhca in another folder");
  if (preload.find(' ') != std::string::npos) {
    // In LD_PRELOAD a space ends a name; in LD_LIBRARY_PATH it does not end a folder (ld.so(8)).
    set("LD_LIBRARY_PATH",
        in_front_of("LD_LIBRARY_PATH", libraries.preload.parent_path().string()));
    preload = libraries.preload.filename();
  }
  const std::string tree = (runtime_directory / tenant / "sysfs").string();
  set("SYSFS_PATH", tree);
  set("SOFTHCA_SYSFS", tree);
  set("SOFTHCA_TENANT", tenant);
  set("SOFTHCA_RUNTIME_DIR", runtime_directory.string());
  // The runtimes of sanitizers must come first in LD_PRELOAD.
  set("LD_PRELOAD", behind("LD_PRELOAD", preload));
  // libibverbs reads IBV_DRIVERS only if RDMAV_DRIVERS is not set.
  const char* drivers = std::getenv("RDMAV_DRIVERS") != nullptr ? "RDMAV_DRIVERS" : "IBV_DRIVERS";
  const std::string list = in_front_of(drivers, libraries.provider.string());
  set("RDMAV_DRIVERS", list);
  set("IBV_DRIVERS", list);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const auto runtime_directory = or_fail(find_runtime_directory(options.runtime_directory));
  const auto tenant = or_fail(find_tenant(runtime_directory, options.tenant));
  const auto libraries = or_fail(find_libraries());
  // Only a warning, because a program may have another libibverbs, or need none.
  const std::string warning = why_no_provider(libraries.interfaces);
  if (!warning.empty()) std::fprintf(stderr, "softhca-run: warning: %s\n", warning.c_str());
  set_environment(runtime_directory, tenant, libraries);
  if (!options.level.empty()) set("SOFTHCA_LEVEL", options.level);
  ::execvp(options.command[0], options.command);
  const int error = errno;
  std::fprintf(stderr, "softhca-run: %s: %s\n", options.command[0], std::strerror(error));
  return error == ENOENT ? kNotFound : kCannotRun;
}
