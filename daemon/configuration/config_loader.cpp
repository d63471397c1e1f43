// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/config_loader.hpp"

#include <cerrno>

#include "daemon/configuration/schema/schema.hpp"

namespace softhca::configuration {
namespace {

/// Puts the value of an option into `value`, under the rule of the key that it replaces.
template <typename Section>
Outcome replace(const std::optional<std::string>& option, const char* name, const char* key,
                std::string& value) {
  if (!option) return {};
  const TextRule& rule = find_key(schema_of<Section>(), key)->text;
  if (!rule.accepts(*option)) return Error{name + (" " + *option) + ": " + rule.complaint, EINVAL};
  value = *option;
  return {};
}

}  // namespace

ConfigLoader::ConfigLoader(std::string file, CommandLineSettings settings)
    : file_(std::move(file)), settings_(std::move(settings)) {}

Expected<Config> ConfigLoader::load() const {
  auto config = file_.empty() ? Expected<Config>(default_config()) : load_config(file_);
  if (!config) return config;
  DaemonConfig& daemon = config->daemon;
  if (const auto replaced = replace<DaemonConfig>(settings_.runtime_dir, "--runtime-dir",
                                                  "runtime_dir", daemon.runtime_dir);
      !replaced)
    return replaced.error();
  if (const auto replaced =
          replace<DaemonConfig>(settings_.log_level, "--log-level", "log_level", daemon.log_level);
      !replaced)
    return replaced.error();
  if (const auto replaced =
          replace<MetricsConfig>(settings_.metrics_credentials, "--metrics-credentials",
                                 "credentials_file", config->metrics.credentials_file);
      !replaced)
    return replaced.error();
  if (!settings_.metrics) return config;
  config->metrics.chosen = true;
  if (*settings_.metrics == "none") {
    config->metrics.address.clear();
  } else if (const auto replaced = replace<MetricsConfig>(settings_.metrics, "--metrics", "address",
                                                          config->metrics.address);
             !replaced) {
    return replaced.error();
  }
  return config;
}

}  // namespace softhca::configuration
