// SPDX-License-Identifier: Apache-2.0

// Prints the sample configuration. tools/generate-configuration runs it.
#include <cstdio>

#include "daemon/configuration/schema/schema_print.hpp"

int main() {
  const std::string text = softhca::configuration::sample_configuration();
  return std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? 1 : 0;
}
