#include "daemon/resource/rate_config.hpp"

#include <sstream>

namespace softhca::resource {
namespace {

constexpr std::uint64_t kMostPerSecond = std::uint64_t{1} << 50;

}  // namespace

RateConfig read_rate(const Value& value, Problems& problems) {
  RateConfig config;
  Reader reader(value, "tenant.rate", problems);
  reader.integer("bytes_per_second", config.bytes_per_second, 0, kMostPerSecond);
  reader.integer("burst_bytes", config.burst_bytes, 1, kMostPerSecond);
  reader.integer("messages_per_second", config.messages_per_second, 0, kMostPerSecond);
  reader.integer("burst_messages", config.burst_messages, 1, kMostPerSecond);
  reader.finish();
  return config;
}

std::string describe(const RateConfig& config) {
  std::ostringstream out;
  out << "{ bytes_per_second = " << config.bytes_per_second
      << ", burst_bytes = " << config.burst_bytes
      << ", messages_per_second = " << config.messages_per_second
      << ", burst_messages = " << config.burst_messages << " }";
  return out.str();
}

}  // namespace softhca::resource
