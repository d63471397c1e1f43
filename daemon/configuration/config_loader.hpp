// SPDX-License-Identifier: Apache-2.0

// Loads the configuration: the file, or what is built in, under the options of the command line.
#pragma once

#include <optional>
#include <string>

#include "daemon/base/expected.hpp"
#include "daemon/configuration/config.hpp"

namespace softhca::configuration {

/// Options that replace keys of the file, at the start and at each reload.
struct CommandLineSettings {
  std::optional<std::string> runtime_dir;
  std::optional<std::string> metrics;              ///< an address; "none": no endpoint
  std::optional<std::string> metrics_credentials;  ///< a file
  std::optional<std::string> log_level;
};

class ConfigLoader {
 public:
  /// `file` empty: the built-in configuration.
  ConfigLoader(std::string file = {}, CommandLineSettings settings = {});

  /// Returns the name of the file, or what stands for it in messages.
  std::string name() const { return file_.empty() ? "built-in configuration" : file_; }
  /// Loads the configuration as load_config() does. Errors name the option or the key.
  Expected<Config> load() const;

 private:
  std::string file_;
  CommandLineSettings settings_;
};

}  // namespace softhca::configuration
