#include "daemon/resource/srq_config.hpp"

#include <algorithm>
#include <sstream>
#include <string_view>

namespace softhca::resource {
namespace {

constexpr std::uint32_t kMostBuffers = 65536;  ///< as many buffers as a queue can have
constexpr std::array<std::string_view, 2> kLimitKinds = {"soft", "hard"};
constexpr std::array<std::string_view, 4> kExceeds = {"raise", "replenish", "drop-message",
                                                      "drop-connection"};

/// The place of the key's word in `words`.
template <class E, std::size_t N>
void read_word(Reader& reader, const char* key, const std::array<std::string_view, N>& words,
               E& target, const char* wanted) {
  std::string word(words[static_cast<std::size_t>(target)]);
  reader.string(key, word);
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) return reader.complain(key, wanted);
  target = static_cast<E>(found - words.begin());
}

void read_table(Reader& reader, std::array<std::uint32_t, 8>& limits) {
  const Value* value = reader.find("limits");
  if (value == nullptr) return;
  const char* const wanted =
      "must be 8 whole numbers from 0 to 65536: the limit for each importance";
  const Array* array = value->array();
  if (array == nullptr || array->size() != limits.size()) return reader.complain("limits", wanted);
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const auto* number = std::get_if<std::int64_t>(&(*array)[i].content);
    if (number == nullptr || *number < 0 || *number > kMostBuffers)
      return reader.complain("limits", wanted);
    limits[i] = static_cast<std::uint32_t>(*number);
  }
}

}  // namespace

SrqConfig read_srq(const Value& value, Problems& problems) {
  SrqConfig config;
  Reader reader(value, "tenant.srq", problems);
  std::uint32_t limit = 0;
  reader.integer("limit", limit, 0, kMostBuffers);
  config.limits.fill(limit);
  if (reader.find("limit") && reader.find("limits"))
    reader.complain("limits", "is given besides limit; give one of them");
  read_table(reader, config.limits);
  read_word(reader, "kind", kLimitKinds, config.kind, "must be \"soft\" or \"hard\"");
  read_word(reader, "on_exceed", kExceeds, config.on_exceed,
            "must be \"raise\", \"replenish\", \"drop-message\" or \"drop-connection\"");
  reader.boolean("statistical", config.statistical);
  reader.number("overcommit", config.overcommit, 1, 1000);
  reader.integer("watermark", config.watermark, 0, kMostBuffers);
  if (config.statistical && std::all_of(config.limits.begin(), config.limits.end(),
                                        [](std::uint32_t l) { return l == 0; }))
    reader.complain("statistical", "needs a limit to begin with; give limit or limits");
  reader.finish();
  return config;
}

std::string describe(const SrqConfig& config) {
  std::ostringstream out;
  out << "{ limits = [";
  for (std::size_t i = 0; i < config.limits.size(); ++i)
    out << (i == 0 ? "" : ", ") << config.limits[i];
  out << "], kind = \"" << kLimitKinds[static_cast<std::size_t>(config.kind)]
      << "\", on_exceed = \"" << kExceeds[static_cast<std::size_t>(config.on_exceed)]
      << "\", statistical = " << (config.statistical ? "true" : "false")
      << ", overcommit = " << config.overcommit << ", watermark = " << config.watermark << " }";
  return out.str();
}

}  // namespace softhca::resource
