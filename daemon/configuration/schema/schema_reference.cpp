// Generates the reference of the configuration.
#include <algorithm>

#include "daemon/configuration/schema/schema.hpp"
#include "daemon/configuration/schema/schema_print.hpp"
#include "daemon/configuration/schema/wrap.hpp"

namespace softhca::configuration {
namespace {

constexpr const char* kReferenceHead =
    "Every key of the configuration file, made from the tables in "
    "`daemon/configuration/schema/sections_*.cpp` "
    "by `tools/generate-configuration`. [softhca-full.toml](../config/softhca-full.toml) is a file "
    "with all of them. A change takes [a reload](reload.md), while programs run, or a restart of "
    "the daemon: a reload that would change such a key is refused. Those with `set` can also be "
    "changed with `softhcactl set`, until the next reload. Amounts of bytes and of bytes a second "
    "are numbers, or texts with a unit: `\"64K\"`, `\"100M\"`, `\"2G\"`, `\"1T\"` (powers of "
    "1024), "
    "`\"10Gbit\"` (k, M, G, T: powers of 1000). A range of addresses is its first and last: "
    "`\"10.0.0.1-10.0.0.9\"`.";

/// Returns the text with markup characters escaped.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '<' ? "&lt;" : c == '|' ? "\\|" : std::string(1, c);
  return out;
}

std::string paragraph(const std::string& text) { return wrapped(plain(text), "", 100) + '\n'; }

std::string code(const std::string& text) { return '`' + text + '`'; }

/// Returns a bound as text, or the name of the key that sets it.
std::string bound(std::uint64_t value, const char* key, std::uint64_t below = 0) {
  if (key == nullptr) return std::to_string(value);
  return code(key) + (below != 0 ? " - " + std::to_string(below) : "");
}

std::string range_text(const Key& key) {
  const Range range = range_of(key);
  const bool endless = range.most == std::numeric_limits<std::uint64_t>::max();
  const std::string least = bound(range.least, key.least_key);
  if (key.in_pool) return least + " to the pool";
  if (endless && key.most_key == nullptr) return least + " or more";
  return least + " to " + bound(range.most, key.most_key, key.below);
}

std::string values_of(const Key& key) {
  std::string text;
  switch (key.at.type) {
    case Type::kBoolean:
      return "`true`, `false`";
    case Type::kWord:
      for (const std::string_view word : key.words)
        text += (text.empty() ? "" : ", ") + code('"' + std::string(word) + '"');
      return text;
    case Type::kFactor:
      return std::string(to_text(key.factors.least)) + " to " + to_text(key.factors.most);
    case Type::kText:
      return "text";
    case Type::kAddress:
      return "address";
    case Type::kAddresses:
      return "list of addresses or ranges";
    case Type::kSubnets:
      return "list of addresses or ranges, with prefix lengths";
    case Type::kPrefixes:
      return "list of addresses with or without prefix lengths";
    case Type::kNames:
      return key.text.accepts != nullptr ? "list of texts" : "list of names or numbers";
    case Type::kNumbers:
      return "list of " + range_text(key);
    case Type::kImportances:
      return "8 times " + range_text(key);
    case Type::kTable:
      return "table";
    default:
      return key.octal ? "octal, 0o0 to 0o777" : range_text(key);
  }
}

std::string default_of(const Key& key, const void* section) {
  if (key.missing != nullptr || key.at.type == Type::kAddresses) return "must be given";
  if (key.in_pool) return "an equal share";
  if (key.is_alias) return "";
  if (key.at.type == Type::kTvls) return "1";
  if (key.at.look(section) == nullptr || key.at.type == Type::kSubnets) return "none";
  if (key.at.type == Type::kPrefixes) return "any";
  if (key.at.type == Type::kTable) return "its own";
  if (key.at.type == Type::kText && to_text(key, section) == "\"\"") return "none";
  if (key.shown != Shown::kOn && key.at.type != Type::kWord && !key.set)
    return key.at.type == Type::kNames ? "none" : "of the machine";
  if (key.at.type == Type::kInteger && *key.sample != '\0' && !key.set) return code(key.sample);
  return code(to_text(key, section));
}

std::string row(const Key& key, const void* section) {
  const bool is_set = key.set.has_value();
  return "| " + code(key.name) + " | " + values_of(key) +
         (*key.unit != '\0' && !key.in_pool ? std::string(" ") + key.unit : "") + " | " +
         default_of(key, section) + " | " + (*key.refusal == '\0' ? "reload" : "restart") + " | " +
         (is_set ? "set" : "") + " | " + key.doc + " |\n";
}

std::string rows_of(const Schema& schema, const void* section) {
  constexpr const char* kColumns =
      "| key | values | default | takes a | `set` | meaning |\n| --- | --- | --- | --- | --- | --- "
      "|\n";
  std::string out;
  bool in_table = false;
  for (const Key& key : schema.keys) {
    if (*key.lead != '\0') {
      out += (in_table ? "\n" : "") + paragraph(key.lead);
      in_table = false;
    }
    if (!in_table) out += kColumns;
    in_table = true;
    out += row(key, section);
  }
  return out;
}

template <class S>
std::string described_section(const std::string& header, const S& values = {}) {
  const Schema& schema = schema_of<S>();
  return "\n## " + header + "\n\n" + (*schema.comment != '\0' ? paragraph(schema.comment) : "") +
         rows_of(schema, &values);
}

}  // namespace

std::string configuration_reference() {
  std::string out = "# Configuration\n\n" + wrapped(kReferenceHead, "", 100);
  const Config defaults = default_config();
  for_each_section([&](const std::string& name, auto member) {
    if (name == "device") out += described_section<ConnectionsConfig>("[connections]");
    if (name == "shared_datagrams")
      out += "\n## [shared_datagrams]\n\n" + wrapped(kSharedDatagrams, "", 100);
    else
      out += described_section('[' + name + ']', defaults.*member);
  });
  out += described_section<PortConfig>("[[port]]");
  out += described_section<FaultConfig>("fault, of a port");
  out += described_section<CaptureConfig>("capture, of a port");
  out += described_section<PeerConfig>("[[peer]]");
  out += described_section<TenantConfig>("[[tenant]]");
  out += described_section<TvlConfig>("[[tenant.tvl]]");
  out += described_section<LevelConfig>("[[tenant.level]]");
  out += "\n## [[template]]\n\n" + wrapped(kTemplates, "", 100);
  out += described_section<SocketConfig>("socket and control, of [admin], a tenant or a level");
  out += described_section<SentLimits>("rate, of a tenant");
  out += described_section<InboundLimits>("inbound_rate, of a tenant");
  out += described_section<ServedLimits>("served_rate, of a tenant");
  out += described_section<SrqPolicy>("srq, of a tenant");
  out += described_section<SrqRule>("[[tenant.srq_rule]]");
  return out;
}

}  // namespace softhca::configuration
