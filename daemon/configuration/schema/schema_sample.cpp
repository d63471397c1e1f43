// Generates the sample configuration.
#include <algorithm>

#include "daemon/configuration/schema/schema.hpp"
#include "daemon/configuration/schema/schema_print.hpp"
#include "daemon/configuration/schema/wrap.hpp"

namespace softhca::configuration {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kRemarks = 30;  ///< column of the comment beside a key

constexpr const char* kSampleHead =
    "Configuration of softhcad. Settings shown are those that hold without a file, with its two "
    "tenants, a and b; one behind a `#` without a space is off, or its default depends on the "
    "machine. `softhcad --check-config --config FILE` names every mistake in a file with its line. "
    "docs/configuration.md has the ranges, and what a tenant has that leaves a key out.";

std::string comment(const std::string& text) { return wrapped(text, "# ", kWidth); }

/// Returns the value as in a file. to_text() adds units, and omits the quotes of addresses.
std::string written(const Key& key, const void* section) {
  if (*key.sample != '\0') return key.sample;
  const void* value = key.at.look(section);
  std::string text;
  switch (key.at.type) {
    case Type::kMicroseconds:
    case Type::kSeconds:
      return std::to_string(key.at.amount(value));
    case Type::kAddresses:
      for (const Gid& gid : *static_cast<const std::vector<Gid>*>(value))
        text += (text.empty() ? "" : ", ") + quoted(to_string(gid));
      return '[' + text + ']';
    case Type::kTable:
      for (const Key& inner : key.table().keys)
        if (const std::string given = to_text(inner, value); given != "\"\"")
          text += (text.empty() ? "" : ", ") + std::string(inner.name) + " = " + given;
      return "{ " + text + " }";
    default:
      return to_text(key, section);
  }
}

const char* prefix_of(Shown shown) {
  switch (shown) {
    case Shown::kOn:
      break;
    case Shown::kOff:
      return "#";
    case Shown::kAlternative:
      return "# ";
  }
  return "";
}

/// Returns the line of a key, with its description beside it if there is room, else above it.
std::string line_of(const Key& key, const std::string& setting) {
  if (*key.doc == '\0') return setting + '\n';
  std::string beside = setting;
  beside.resize(std::max(setting.size() + 2, kRemarks), ' ');
  beside += std::string("# ") + key.doc;
  if (beside.size() <= kWidth) return beside + '\n';
  return comment(key.doc) + setting + '\n';
}

/// True if the key needs more than a line and gets an empty line before it.
bool stands_apart(const Key& key, const std::string& text) {
  return *key.lead != '\0' || (text.starts_with("# ") && text.find("\n# ") != std::string::npos);
}

std::string keys_of(const Schema& schema, const void* section) {
  std::string out;
  for (const Key& key : schema.keys) {
    const std::string text =
        line_of(key, prefix_of(key.shown) + std::string(key.name) + " = " + written(key, section));
    if (!out.empty() && stands_apart(key, text)) out += '\n';
    out += comment(key.lead) + text;
    if (key.at.type == Type::kTvls)
      out += keys_of(schema_of<TvlConfig>(),
                     &static_cast<const std::vector<TvlConfig>*>(key.at.look(section))->front());
  }
  return out;
}

/// Returns a table that is commented out in the sample.
std::string alternative(const Schema& schema, const std::string& header, const void* section) {
  std::string out = '\n' + comment(schema.comment) + "# " + header + '\n';
  for (const Key& key : schema.keys)
    out += line_of(key, std::string("# ") + key.name + " = " + written(key, section));
  return out;
}

template <class S>
std::string sample_section(const std::string& name, const S& values) {
  const Schema& schema = schema_of<S>();
  return '\n' + comment(schema.comment) + '[' + name + "]\n" + keys_of(schema, &values);
}

/// Returns the section [shared_datagrams], which has the keys of [general_services].
std::string shared_datagrams(const Config& config) {
  const Key& first = schema_of<GeneralServicesConfig>().keys.front();
  return '\n' + comment(kSharedDatagrams) + "[shared_datagrams]\n" + first.name + " = " +
         written(first, &config.shared_datagrams) + '\n';
}

/// Returns a further tenant, with only the keys that differ from the defaults.
std::string another_tenant(const TenantConfig& tenant) {
  std::string out = "\n[[tenant]]\n";
  const auto differing = [&](const Schema& schema, const void* values, const void* defaults) {
    for (const Key& key : schema.keys)
      if (key.shown == Shown::kOn && !key.at.same(values, defaults))
        out += std::string(key.name) + " = " + written(key, values) + '\n';
  };
  const TenantConfig defaults;
  const TvlConfig tvl;
  differing(schema_of<TenantConfig>(), &tenant, &defaults);
  differing(schema_of<TvlConfig>(), &tenant.tvls.front(), &tvl);
  return out;
}

}  // namespace

std::string sample_configuration() {
  const Config config = default_config();
  const TenantConfig& tenant = config.tenants.front();
  std::string out = comment(kSampleHead);
  for_each_section([&](const char* name, auto member) {
    if (std::string_view(name) == "device")
      out += sample_section("connections", ConnectionsConfig{});
    out += std::string_view(name) == "shared_datagrams" ? shared_datagrams(config)
                                                        : sample_section(name, config.*member);
  });
  const PortConfig port;
  out += '\n' + comment(schema_of<PortConfig>().comment) + "#[[port]]\n" +
         keys_of(schema_of<PortConfig>(), &port);
  const PeerConfig peer;
  out += '\n' + comment(schema_of<PeerConfig>().comment) + "#[[peer]]\n" +
         keys_of(schema_of<PeerConfig>(), &peer);
  out += '\n' + comment(schema_of<TenantConfig>().comment) + "[[tenant]]\n" +
         keys_of(schema_of<TenantConfig>(), &tenant);
  const TvlConfig tvl;
  const LevelConfig level;
  const SrqRule rule;
  out += alternative(schema_of<TvlConfig>(), "[[tenant.tvl]]", &tvl);
  out += alternative(schema_of<LevelConfig>(), "[[tenant.level]]", &level);
  out += alternative(schema_of<SrqRule>(), "[[tenant.srq_rule]]", &rule);
  for (std::size_t i = 1; i < config.tenants.size(); ++i) out += another_tenant(config.tenants[i]);
  out += '\n' + comment(kTemplates) + "# [[template]]\n# name = \"container\"\n" +
         "# addresses = [\"198.18.1.1\", \"198.18.1.2\"]\n# vcbs = 64\n# pcbs = 128\n";
  return out;
}

}  // namespace softhca::configuration
