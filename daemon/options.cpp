// SPDX-License-Identifier: Apache-2.0

#include "daemon/options.hpp"

#include <CLI/CLI.hpp>

namespace softhca {
namespace {

constexpr int kExitUsage = 2;

}  // namespace

Options read_options(int argc, char** argv) {
  Options options;
  CLI::App app{"softhcad: software RDMA adapter (RoCE v2)"};
  app.add_option("-c,--config", options.config_file,
                 "configuration file (TOML); without it: tenants a and b, loopback only");
  app.add_flag("--check-config", options.check_config, "check the configuration and exit");
  app.add_option("-d,--runtime-dir", options.settings.runtime_dir,
                 "directory of sockets and device trees, instead of daemon.runtime_dir");
  app.add_option("--metrics", options.settings.metrics,
                 "address of the metrics, instead of metrics.address, or none");
  app.add_option("--log-level", options.settings.log_level,
                 "trace, debug, info, warning, error, critical or off, instead of "
                 "daemon.log_level");
  app.set_version_flag("--version", SOFTHCA_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    options.exit_code = app.exit(error) == 0 ? 0 : kExitUsage;  // --help and --version throw, too
  }
  return options;
}

}  // namespace softhca
