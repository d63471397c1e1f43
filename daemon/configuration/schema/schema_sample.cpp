// SPDX-License-Identifier: Apache-2.0

// Generates the sample configuration.
#include <algorithm>

#include "daemon/configuration/schema/schema.hpp"
#include "daemon/configuration/schema/schema_print.hpp"
#include "daemon/configuration/schema/wrap.hpp"
#include "daemon/configuration/tenant_amounts.hpp"

namespace softhca::configuration {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kRemarks = 30;  ///< column of the comment beside a key

constexpr const char* kSampleHead =
    "Configuration of softhcad. It shows the settings that softhcad has without a file: two "
    "tenants, a and b, and the defaults. A setting behind a `#` without a space is off, or its "
    "default depends on the machine. `softhcad --check-config --config FILE` names every "
    "mistake in a file with its line. In brackets: the range of a value (pool: the key of "
    "[pools] with this name). restart: a change needs one; a reload changes all else. set: "
    "`softhcactl set` changes it, too. otherwise: the value of a tenant that does not set the "
    "key. Bytes and bytes a second may have a unit: \"64K\", \"100M\", \"2G\", \"1T\" (powers "
    "of 1024), \"10Gbit\" (k, M, G, T: powers of 1000). A range of addresses: "
    "\"10.0.0.1-10.0.0.9\".";

std::string comment(const std::string& text) { return wrapped(text, "# ", kWidth); }

/// Returns the value as in a file. to_text() adds units, and omits the quotes of addresses.
std::string written(const Key& key, const void* section) {
  if (*key.sample != '\0') return key.sample;
  const void* value = key.at.look(section);
  std::string text;
  switch (key.at.type) {
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

/// Returns a bound as text, or the name of the key that sets it.
std::string bound(std::uint64_t value, const char* key, std::uint64_t below = 0) {
  if (key == nullptr) return std::to_string(value);
  return key + (below != 0 ? " - " + std::to_string(below) : "");
}

std::string range_text(const Key& key) {
  const Range range = range_of(key);
  const bool endless = range.most == std::numeric_limits<std::uint64_t>::max();
  const std::string least = bound(range.least, key.least_key);
  if (key.in_pool) return least + " to pool";
  if (endless && key.most_key == nullptr) return least + " or more";
  return least + " to " + bound(range.most, key.most_key, key.below);
}

/// Returns the values that the key takes; empty: its description says that.
std::string values_of(const Key& key) {
  switch (key.at.type) {
    case Type::kInteger:
    case Type::kSeconds:
    case Type::kNumbers:
    case Type::kTvls:
    case Type::kImportances:
    case Type::kEveryImportance:
      return range_text(key) + (*key.unit != '\0' ? std::string(" ") + key.unit : "");
    case Type::kWord: {
      std::string words;
      for (const std::string_view word : key.words)
        words += (words.empty() ? "" : ", ") + quoted(std::string(word));
      return words;
    }
    case Type::kFactor:
      return std::string(to_text(key.factors.least)) + " to " + to_text(key.factors.most);
    default:
      return "";
  }
}

/// Returns the description of a key, and in brackets what values it takes and how it can change.
/// `otherwise`: what a tenant has that does not give it, if that differs from what is shown.
std::string described(const Key& key, const std::string& otherwise = "") {
  std::string facts = key.octal ? "" : values_of(key);
  const auto add = [&](const std::string& fact) { facts += (facts.empty() ? "" : "; ") + fact; };
  // A table without a description has those of its keys.
  if (*key.refusal != '\0' && (*key.doc != '\0' || key.at.type != Type::kTable)) add("restart");
  if (key.set) add("set");
  if (!otherwise.empty()) add("otherwise " + otherwise);
  const std::string doc = key.doc;
  return facts.empty() ? doc : doc + (doc.empty() ? "" : " ") + '[' + facts + ']';
}

/// Returns the line of a key, with its description beside it if there is room, else above it.
std::string line_of(const Key& key, const std::string& setting, const std::string& otherwise = "") {
  const std::string doc = described(key, otherwise);
  if (doc.empty()) return setting + '\n';
  std::string beside = setting;
  beside.resize(std::max(setting.size() + 2, kRemarks), ' ');
  beside += "# " + doc;
  if (beside.size() <= kWidth) return beside + '\n';
  return comment(doc) + setting + '\n';
}

/// True if the key needs more than a line and gets an empty line before it.
bool stands_apart(const Key& key, const std::string& text) {
  return *key.lead != '\0' || (text.starts_with("# ") && text.find("\n# ") != std::string::npos);
}

/// The tables in braces with keys that have been described.
using Described = std::vector<const Schema*>;

/// Returns a comment that describes the keys of a table in braces; empty: an earlier one did.
std::string inner_keys_of(const Key& key, Described& before) {
  const Schema& table = key.table();
  if (std::ranges::find(before, &table) != before.end()) return "";
  before.push_back(&table);
  std::string out;
  for (const Key& inner : table.keys)
    if (const std::string doc = described(inner); !doc.empty())
      out += comment(std::string(inner.name) + ": " + doc);
  return out;
}

/// Returns what a tenant has that does not give the key, if the key need not be given and that is
/// not what is shown. `defaults` may be null.
std::string otherwise(const Key& key, const void* section, const void* defaults) {
  const bool must_be_given = key.missing != nullptr || key.at.type == Type::kAddresses;
  if (defaults == nullptr || must_be_given || key.shown != Shown::kOn ||
      key.at.same(section, defaults))
    return "";
  return key.at.type == Type::kTvls ? "1" : written(key, defaults);
}

/// `defaults`: a section without keys, if the one shown has others; else null.
std::string keys_of(const Schema& schema, const void* section, Described& described,
                    const void* defaults = nullptr) {
  const TvlConfig tvl_defaults;
  std::string out;
  for (const Key& key : schema.keys) {
    const std::string inner = key.at.type == Type::kTable ? inner_keys_of(key, described) : "";
    const std::string setting = std::string(key.name) + " = " + written(key, section);
    const std::string text =
        inner + line_of(key, prefix_of(key.shown) + setting, otherwise(key, section, defaults));
    if (!out.empty() && stands_apart(key, text)) out += '\n';
    out += comment(key.lead) + text;
    if (key.at.type == Type::kTvls)
      out += keys_of(schema_of<TvlConfig>(),
                     &static_cast<const std::vector<TvlConfig>*>(key.at.look(section))->front(),
                     described, &tvl_defaults);
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
std::string sample_section(const std::string& header, const S& values, Described& described,
                           const void* defaults = nullptr) {
  const Schema& schema = schema_of<S>();
  return '\n' + comment(schema.comment) + header + '\n' +
         keys_of(schema, &values, described, defaults);
}

/// Returns the section [shared_datagrams], which has the keys of [general_services].
std::string shared_datagrams(const Config& config) {
  const Key& first = schema_of<GeneralServicesConfig>().keys.front();
  return '\n' + comment(kSharedDatagrams) + "[shared_datagrams]\n" + first.name + " = " +
         written(first, &config.shared_datagrams) + '\n';
}

/// Returns a further tenant, with only the keys that differ from the defaults, and from what
/// follows from its share.
std::string another_tenant(const TenantConfig& tenant, const Config& config) {
  std::string out = "\n[[tenant]]\n";
  const auto differing = [&](const Schema& schema, const void* values, const void* defaults) {
    for (const Key& key : schema.keys)
      if (key.shown == Shown::kOn && !key.at.same(values, defaults))
        out += std::string(key.name) + " = " + written(key, values) + '\n';
  };
  TenantConfig defaults;
  const TenantAmounts amounts =
      amounts_of(tenant.share, tenant.workload, config.pools, tenant.tvls.size());
  give(defaults, amounts);
  differing(schema_of<TenantConfig>(), &tenant, &defaults);
  differing(schema_of<TvlConfig>(), &tenant.tvls.front(), &amounts.tvl);
  return out;
}

}  // namespace

std::string sample_configuration() {
  const Config config = default_config();
  const TenantConfig& tenant = config.tenants.front();
  std::string out = comment(kSampleHead);
  Described described{&schema_of<ConnectionsConfig>()};  // a section of its own
  for_each_section([&](const char* name, auto member) {
    if (std::string_view(name) == "device")
      out += sample_section("[connections]", ConnectionsConfig{}, described);
    out += std::string_view(name) == "shared_datagrams"
               ? shared_datagrams(config)
               : sample_section('[' + std::string(name) + ']', config.*member, described);
  });
  out += sample_section("#[[port]]", PortConfig{}, described);
  out += sample_section("#[[peer]]", PeerConfig{}, described);
  const TenantConfig tenant_defaults;
  out += sample_section("[[tenant]]", tenant, described, &tenant_defaults);
  const TvlConfig tvl;
  const TenantDevice device;
  const LevelConfig level;
  const SrqRule rule;
  out += alternative(schema_of<TenantDevice>(), "[[tenant.device]]", &device);
  out += alternative(schema_of<TvlConfig>(), "[[tenant.tvl]]", &tvl);
  out += alternative(schema_of<LevelConfig>(), "[[tenant.level]]", &level);
  out += alternative(schema_of<SrqRule>(), "[[tenant.srq_rule]]", &rule);
  for (std::size_t i = 1; i < config.tenants.size(); ++i)
    out += another_tenant(config.tenants[i], config);
  out += '\n' + comment(kTemplates) + "# [[template]]\n# name = \"container\"\n" +
         "# addresses = [\"198.18.1.1\", \"198.18.1.2\"]\n# vcbs = 64\n# pcbs = 128\n";
  return out;
}

}  // namespace softhca::configuration
