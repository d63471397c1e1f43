// Prints a document that is generated from the schema. tools/generate-configuration runs it.
#include <cstdio>
#include <string_view>

#include "daemon/configuration/schema/schema_print.hpp"

int main(int argc, char** argv) {
  const std::string_view document = argc == 2 ? argv[1] : "";
  if (document != "sample" && document != "reference") {
    std::fputs("usage: print-configuration sample|reference\n", stderr);
    return 2;
  }
  const std::string text = document == "sample" ? softhca::configuration::sample_configuration()
                                                : softhca::configuration::configuration_reference();
  return std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? 1 : 0;
}
