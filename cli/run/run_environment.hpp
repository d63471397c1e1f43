// SPDX-License-Identifier: Apache-2.0

// The environment by which a program finds the device of a tenant.
#pragma once

#include <filesystem>
#include <string>

#include "cli/run_places.hpp"

namespace softhca::cli {

void set_variable(const std::string& name, const std::string& value);

/// Sets the variables of this process. Returns why the dynamic linker cannot preload the library;
/// empty: the variables are set.
std::string set_device_variables(const std::filesystem::path& runtime_directory,
                                 const std::string& tenant, const Libraries& libraries);

/// Replaces this process by the command, which is searched in $PATH. Returns, after a message, the
/// exit code for a program that cannot be run.
int become(const std::vector<std::string>& command);

}  // namespace softhca::cli
