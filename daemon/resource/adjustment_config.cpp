#include "daemon/resource/adjustment_config.hpp"

#include <cstdint>

namespace softhca::resource {
namespace {

// Use is looked at once a second, in four parts of the time.
constexpr std::uint64_t kShortest = 4;
constexpr std::uint64_t kLongest = 86'400;

}  // namespace

AdjustmentConfig read_adjustment(const Value& value, Problems& problems) {
  AdjustmentConfig config;
  Reader reader(value, "adjustment", problems);
  reader.boolean("automatic", config.automatic);
  auto idle = static_cast<std::uint64_t>(config.idle.count());
  reader.integer("idle_s", idle, kShortest, kLongest);
  config.idle = std::chrono::seconds(idle);
  reader.number("keep", config.keep, 0, 1);
  reader.finish();
  return config;
}

}  // namespace softhca::resource
