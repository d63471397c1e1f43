// SPDX-License-Identifier: Apache-2.0

// The text of a configuration file: it is a configuration, or there is a line for every mistake.
#include "daemon/configuration/config.hpp"

#include <string>

#include "daemon/configuration/resource_manager/reload_plan.hpp"
#include "daemon/configuration/resource_manager/resource_manager.hpp"
#include "tests/fuzz/input.hpp"

namespace softhca::configuration {
namespace {

using fuzz::require;

void check_problems(const std::string& message) {
  require(!message.empty(), "an error says what is wrong");
  for (std::size_t at = 0; at < message.size();) {
    require(message.compare(at, 5, "file:") == 0, "each line names the file");
    const std::size_t end = message.find('\n', at);
    at = end == std::string::npos ? message.size() : end + 1;
  }
}

void check_good(const Config& config) {
  require(!config.tenants.empty(), "there are tenants");
  require(plan_reload(config, config).empty(), "nothing differs from itself");
  for (const Config& other : {default_config(), config}) {
    (void)plan_reload(config, other).texts();
    (void)plan_reload(other, config).texts();
    (void)check_room(config, other, {});
  }
}

}  // namespace
}  // namespace softhca::configuration

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace softhca::configuration;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto config = parse_config(text, "file");
  if (config)
    check_good(*config);
  else
    check_problems(config.error().message);
  return 0;
}
