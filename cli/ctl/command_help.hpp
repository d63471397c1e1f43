// SPDX-License-Identifier: Apache-2.0

// The texts of --help and of the command help.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace softhca::cli {

/// Writes help that fits 80 columns.
class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

/// Returns "softhcactl tenant show".
std::string full_name(const CLI::App& app);
/// Returns "tenant show: "; empty for the root.
std::string place_of(const CLI::App& app);
/// Returns "softhcactl tenant show [OPTION...] NAME".
std::string usage_of(const CLI::App& app);
/// Returns a line for each command of this command.
std::string command_list(const CLI::App& app);
/// Prints the help of the command with these words. Throws CommandError(kUsage) if there is none.
void print_help(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace softhca::cli
