// SPDX-License-Identifier: Apache-2.0

#include "cli/run/run_environment.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace softhca::cli {
namespace {

constexpr int kCannotRun = 126;
constexpr int kNotFound = 127;

/// Returns the list in the variable with `value` at one end. A list that has it stays as it is, for
/// example that of a program that another softhca-run started.
std::string with(const char* name, const std::string& value, bool in_front) {
  const char* before = std::getenv(name);
  if (before == nullptr || *before == '\0') return value;
  const std::string list = before;
  if ((":" + list + ":").find(":" + value + ":") != std::string::npos) return list;
  return in_front ? value + ":" + list : list + ":" + value;
}

std::string in_front_of(const char* name, const std::string& value) {
  return with(name, value, true);
}

std::string behind(const char* name, const std::string& value) { return with(name, value, false); }

}  // namespace

void set_variable(const std::string& name, const std::string& value) {
  ::setenv(name.c_str(), value.c_str(), 1);
}

std::string set_device_variables(const std::filesystem::path& runtime_directory,
                                 const std::string& tenant, const Libraries& libraries) {
  std::string preload = libraries.preload.string();
  if (preload.find_first_of(":;") != std::string::npos)
    return "the dynamic linker cannot preload " + preload +
           ": its path has a colon or semicolon; install softhca in another folder";
  if (preload.find(' ') != std::string::npos) {
    // In LD_PRELOAD a space ends a name; in LD_LIBRARY_PATH it does not end a folder (ld.so(8)).
    set_variable("LD_LIBRARY_PATH",
                 in_front_of("LD_LIBRARY_PATH", libraries.preload.parent_path().string()));
    preload = libraries.preload.filename();
  }
  const std::string tree = (runtime_directory / tenant / "sysfs").string();
  set_variable("SYSFS_PATH", tree);
  set_variable("SOFTHCA_SYSFS", tree);
  set_variable("SOFTHCA_TENANT", tenant);
  set_variable("SOFTHCA_RUNTIME_DIR", runtime_directory.string());
  // The runtimes of sanitizers must come first in LD_PRELOAD.
  set_variable("LD_PRELOAD", behind("LD_PRELOAD", preload));
  // libibverbs reads IBV_DRIVERS only if RDMAV_DRIVERS is not set.
  const char* drivers = std::getenv("RDMAV_DRIVERS") != nullptr ? "RDMAV_DRIVERS" : "IBV_DRIVERS";
  const std::string list = in_front_of(drivers, libraries.provider.string());
  set_variable("RDMAV_DRIVERS", list);
  set_variable("IBV_DRIVERS", list);
  return "";
}

int become(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  const int error = errno;
  std::fprintf(stderr, "softhca-run: %s: %s\n", words[0], std::strerror(error));
  return error == ENOENT ? kNotFound : kCannotRun;
}

}  // namespace softhca::cli
