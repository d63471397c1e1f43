#include "daemon/resource/general_services_config.hpp"

namespace softhca::resource {
namespace {

constexpr std::uint32_t kFastest = 100'000'000;  ///< datagrams a second
constexpr std::uint32_t kLongest = 86'400'000;   ///< milliseconds
constexpr double kLeastPart = 0.01;

void read_threshold(Reader& reader, std::string_view key, std::optional<std::uint32_t>& target,
                    std::uint32_t least, std::string_view hint = "") {
  if (reader.find(key) == nullptr) return;
  std::uint32_t value = least;
  reader.integer(key, value, least, kMaxGeneralServicesBuffers, hint);
  target = value;
}

}  // namespace

GeneralServicesConfig read_general_services(const Value& value, const char* table,
                                            Problems& problems) {
  GeneralServicesConfig c;
  Reader reader(value, table, problems);
  reader.integer("buffers", c.buffers, 1, kMaxGeneralServicesBuffers);
  reader.integer("buffers_per_client", c.buffers_per_client, 1, c.buffers, " (buffers)");
  if (c.buffers_per_client > c.buffers)
    reader.complain("buffers",
                    "must be at least buffers_per_client, " + std::to_string(c.buffers_per_client));
  read_threshold(reader, "low_threshold", c.low_threshold, 0);
  read_threshold(reader, "high_threshold", c.high_threshold, c.low_threshold.value_or(0),
                 " (low_threshold)");
  reader.number("source_part", c.source_part, kLeastPart, 1);
  reader.integer("source_rate", c.source_rate, 0, kFastest);
  reader.integer("source_burst", c.source_burst, 1, kFastest);
  reader.number("new_sources_part", c.new_sources_part, kLeastPart, 1);
  reader.integer("new_sources_rate", c.new_sources_rate, 0, kFastest);
  reader.integer("new_sources_burst", c.new_sources_burst, 1, kFastest);
  reader.integer("probation_ms", c.probation_ms, 0, kLongest);
  reader.integer("forget_after_ms", c.forget_after_ms, 0, kLongest);
  reader.integer("window_ms", c.window_ms, 10, kLongest);
  reader.integer("raise_after", c.raise_after, 0, 8);
  reader.integer("lower_after", c.lower_after, 1, kLongest);
  reader.integer("raise_most", c.raise_most, 1, kMaxGeneralServicesBuffers);
  reader.number("engine_share", c.engine_share, kLeastPart, 1);
  reader.integer("tenant_clients", c.tenant_clients, 0, kMostPrograms);
  reader.integer("tenant_buffers", c.tenant_buffers, 0, kMaxGeneralServicesBuffers);
  reader.integer("send_rate", c.send_rate, 0, kFastest);
  reader.integer("send_burst", c.send_burst, 1, kFastest);
  reader.finish();
  return c;
}

}  // namespace softhca::resource
