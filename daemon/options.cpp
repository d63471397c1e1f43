// SPDX-License-Identifier: Apache-2.0

#include "daemon/options.hpp"

#include <CLI/CLI.hpp>
#include <filesystem>

namespace softhca {
namespace {

constexpr int kExitUsage = 2;

/// Returns the folder of libraries beside the daemon's program, as packages have it.
std::string installed_libraries() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return program.parent_path() / ".." / SOFTHCA_LIBDIR;
}

}  // namespace

Options read_options(int argc, char** argv) {
  Options options;
  CLI::App app{"softhcad: software RDMA adapter (RoCE v2)"};
  CLI::Option* config =
      app.add_option("-c,--config", options.config_file,
                     "configuration file (TOML); without it:\ntenants a and b, loopback only");
  app.add_flag("--check-config", options.check_config, "check the configuration and exit");
  app.add_flag("--watch-config", options.watch_config,
               "reload when the configuration file or a\npeer's key file has changed")
      ->needs(config);
  app.add_option("-d,--runtime-dir", options.settings.runtime_dir,
                 "directory of sockets and device trees,\ninstead of daemon.runtime_dir");
  app.add_option("--metrics", options.settings.metrics,
                 "address of the metrics, instead of\nmetrics.address, or none");
  app.add_option("--metrics-credentials", options.settings.metrics_credentials,
                 "file with the token of scrapers,\ninstead of metrics.credentials_file");
  app.add_option(
         "--libraries", options.libraries,
         "folder of this host with libibverbs/ and\nsofthca/ of the provider, for cdi.json,\n"
         "instead of where its package has them")
      ->check(CLI::ExistingDirectory);
  app.add_option("--log-level", options.settings.log_level,
                 "trace, debug, info, warning, error,\ncritical or off, instead of "
                 "daemon.log_level");
  app.set_version_flag("--version", SOFTHCA_VERSION);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("softhcad: ") + error.what() + "; try 'softhcad --help'\n";
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    options.exit_code = app.exit(error) == 0 ? 0 : kExitUsage;  // --help and --version throw, too
  }
  if (options.libraries.empty()) options.libraries = installed_libraries();
  options.libraries = std::filesystem::absolute(options.libraries).lexically_normal();
  return options;
}

}  // namespace softhca
