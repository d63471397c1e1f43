// SPDX-License-Identifier: Apache-2.0

// The command line of softhcad.
#pragma once

#include <optional>
#include <string>

#include "daemon/configuration/config_loader.hpp"

namespace softhca {

struct Options {
  std::string config_file;  ///< empty: the built-in configuration
  configuration::CommandLineSettings settings;
  bool check_config = false;
  bool watch_config = false;  ///< reload when a file of the configuration has changed
  /// Folder of this host with libibverbs/ and softhca/ of the provider, an absolute path.
  std::string libraries;
  std::optional<int> exit_code;  ///< of a program that ends now: after --help, or bad usage
};

/// Reads the command line. Prints what --help and --version ask for, and what is wrong.
Options read_options(int argc, char** argv);

}  // namespace softhca
