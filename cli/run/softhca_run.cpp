// SPDX-License-Identifier: Apache-2.0

// softhca-run: runs a program so that its libibverbs finds the device of a softhca tenant.
#include <sys/auxv.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cli/run/installed_libibverbs.hpp"
#include "cli/run/run_daemon.hpp"
#include "cli/run/run_environment.hpp"
#include "cli/run/run_guest.hpp"
#include "cli/run/run_options.hpp"
#include "cli/run/run_private.hpp"
#include "cli/run_places.hpp"

namespace {

using namespace softhca::cli;

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "softhca-run: %s\n", message.c_str());
  std::exit(kRunFailed);
}

template <typename Value>
Value or_fail(const Found<Value>& found) {
  if (const auto* failure = std::get_if<Failure>(&found)) fail(failure->message);
  return std::get<Value>(found);
}

/// The options of the command line; or, for a link of a private daemon, what the link stands for.
RunOptions options_of(int argc, char** argv) {
  const auto* path = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  const auto link = path != nullptr ? tenant_of_link(path) : std::nullopt;
  if (!link) return or_fail(parse_run_options(argc, argv));
  if (argc < 2) fail("no program given to " + link->as.string());
  return {.tenant = link->name,
          .level = "",
          .runtime_directory = link->runtime_dir,
          .with_daemon = false,
          .daemons = {},
          .guest = {},
          .command = {argv + 1, argv + argc}};
}

}  // namespace

int main(int argc, char** argv) {
  const RunOptions options = options_of(argc, argv);
  if (options.guest.is_given) {
    const auto directory = or_fail(find_runtime_directory(options.runtime_directory));
    return run_guest(options, directory, or_fail(find_tenant(directory, options.tenant)));
  }
  const auto libraries = or_fail(find_libraries());
  // Only a warning, because a program may have another libibverbs, or need none.
  const std::string warning = why_no_provider(libraries.interfaces);
  if (!warning.empty()) std::fprintf(stderr, "softhca-run: warning: %s\n", warning.c_str());
  if (!options.level.empty()) set_variable("SOFTHCA_LEVEL", options.level);
  if (options.with_daemon) {
    char* const last = argv[argc - 1];
    return run_with_daemons(options, libraries, {argv[0], last + std::strlen(last)});
  }
  const auto runtime_directory = or_fail(find_runtime_directory(options.runtime_directory));
  const auto tenant = or_fail(find_tenant(runtime_directory, options.tenant));
  const std::string refusal = why_not_served(runtime_directory / tenant);
  if (!refusal.empty()) fail(refusal);
  const std::string problem = set_device_variables(runtime_directory, tenant, libraries);
  if (!problem.empty()) fail(problem);
  return become(options.command);
}
