// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/schema/schema_read.hpp"

#include <algorithm>

namespace softhca::configuration {
namespace {

/// Returns the range of a key, within the bounds that other keys of `section`, or the pools, set.
Range range_in(const Schema& table, const Key& key, const void* section, const PoolsConfig* pools) {
  Range range = range_of(key);
  if (key.most_key != nullptr)
    range.most = amount_in(*find_key(table, key.most_key), section) - key.below;
  if (key.least_key != nullptr) range.least = amount_in(*find_key(table, key.least_key), section);
  if (key.in_pool && pools != nullptr)
    range.most = amount_in(*find_key(schema_of<PoolsConfig>(), key.name), pools);
  return range;
}

void read_integer(Reader& reader, const Key& key, const Range& range, void* section) {
  const std::string hint =
      key.in_pool ? " (pools." + std::string(key.name) + ")" : std::string(key.hint);
  std::uint64_t amount = 0;
  if (reader.integer(key.name, amount, range.least, range.most, hint))
    set_amount(key, section, amount);
}

void read_boolean(Reader& reader, const Key& key, void* section) {
  bool given = amount_in(key, section) != 0;
  reader.boolean(key.name, given);
  set_amount(key, section, given ? 1 : 0);
}

void read_word(Reader& reader, const Key& key, void* section) {
  if (!reader.find(key.name)) return;
  std::string word(key.words[amount_in(key, section)]);
  reader.string(key.name, word);
  const auto found = std::find(key.words.begin(), key.words.end(), word);
  if (found != key.words.end())
    return set_amount(key, section, static_cast<std::uint64_t>(found - key.words.begin()));
  std::string known;
  for (const std::string_view& each : key.words) {
    if (!known.empty()) known += &each == &key.words.back() ? " or " : ", ";
    known += '"' + std::string(each) + '"';
  }
  reader.complain(key.name, "must be " + known);
}

void read_share(Reader& reader, const Key& key, void* section) {
  std::string text;
  reader.string(key.name, text);
  const Value* value = reader.find(key.name);
  if (value == nullptr || !value->string()) return;
  if (const auto share = parse_share(text))
    set_amount(key, section, share->tenths);
  else
    reader.complain(key.name, kShareForm);
}

void read_text(Reader& reader, const Key& key, void* section) {
  auto& target = *static_cast<std::string*>(key.at.reach(section));
  std::string given = target;
  reader.string(key.name, given);
  const Value* value = reader.find(key.name);
  if (value == nullptr || !value->string()) return;
  if (key.text.accepts == nullptr || key.text.accepts(given))
    target = given;
  else
    reader.complain(key.name, key.text.complaint);
}

/// Reads an address of a host. A key name that ends in 4 or 6, such as gateway4, requires that
/// family.
void read_host_address(Reader& reader, const Key& key, void* section) {
  if (!reader.find(key.name)) return;
  std::string text;
  reader.string(key.name, text);
  const std::string_view name = key.name;
  const bool ipv4_only = name.ends_with('4'), ipv6_only = name.ends_with('6');
  const auto gid = parse_address(text);
  if (gid && gid->is_unicast() && !(gid->is_ipv4() ? ipv6_only : ipv4_only))
    *static_cast<Gid*>(key.at.reach(section)) = *gid;
  else
    reader.complain(key.name, std::string("must be an ") +
                                  (ipv4_only   ? "IPv4 "
                                   : ipv6_only ? "IPv6 "
                                               : "") +
                                  "address of a host, without prefix length");
}

/// Returns the error for a text that is neither an address nor a range. The caller adds examples.
std::string not_of_hosts(const std::string& text) {
  return '"' + text + "\" is not the address of a host, nor a range of up to " +
         std::to_string(kMostOfRange) + " of them; write ";
}

void read_subnets(Reader& reader, const Key& key, void* section, Problems& problems) {
  auto& addresses = *static_cast<std::vector<InterfaceAddress>*>(key.at.reach(section));
  for (const Value* text : reader.strings(key.name)) {
    const auto given = parse_interface_addresses(*text->string());
    if (given.empty())
      problems.add(text->line, reader.path_of(key.name),
                   not_of_hosts(*text->string()) +
                       "\"10.0.0.1/24\", \"fe80::1/64\" or \"10.0.0.1-10.0.0.9/24\"");
    else if (text->string()->find('/') == std::string::npos)
      problems.add(text->line, reader.path_of(key.name),
                   "\"" + *text->string() + "\" lacks the prefix length of its subnet; write \"" +
                       *text->string() + (given[0].gid.is_ipv4() ? "/24\"" : "/64\"") +
                       " if that is its subnet");
    else
      addresses.insert(addresses.end(), given.begin(), given.end());
  }
}

void read_prefixes(Reader& reader, const Key& key, void* section, Problems& problems) {
  auto& prefixes = *static_cast<std::vector<AddressPrefix>*>(key.at.reach(section));
  for (const Value* text : reader.strings(key.name)) {
    if (const auto prefix = parse_interface_address(*text->string()))
      prefixes.push_back({prefix->gid, prefix->prefix});
    else
      problems.add(text->line, reader.path_of(key.name),
                   "\"" + *text->string() +
                       "\" is not an address; write \"10.0.0.1\", \"10.0.0.0/8\" or \"fd00::/64\"");
  }
}

void read_addresses(Reader& reader, const Key& key, void* section, Problems& problems) {
  auto& addresses = *static_cast<std::vector<Gid>*>(key.at.reach(section));
  for (const Value* text : reader.strings(key.name)) {
    const auto given = parse_addresses(*text->string());
    addresses.insert(addresses.end(), given.begin(), given.end());
    if (given.empty())
      problems.add(text->line, reader.path_of(key.name),
                   not_of_hosts(*text->string()) +
                       "\"10.0.0.1\", \"fe80::1\" or \"10.0.0.1-10.0.0.9\", without prefix "
                       "length");
  }
}

void read_names(Reader& reader, const Key& key, void* section, Problems& problems) {
  auto& names = *static_cast<std::vector<std::string>*>(key.at.reach(section));
  for (const Value* name : reader.strings(key.name)) {
    names.push_back(*name->string());
    if (key.text.accepts != nullptr && !key.text.accepts(names.back()))
      problems.add(name->line, reader.path_of(key.name), key.text.complaint);
    else if (names.back().empty())
      problems.add(name->line, reader.path_of(key.name), "holds an empty name");
  }
}

void read_numbers(Reader& reader, const Key& key, const Range& range, void* section) {
  const Value* value = reader.find(key.name);
  if (value == nullptr) return;
  auto& numbers = *static_cast<std::vector<std::uint8_t>*>(key.at.reach(section));
  const std::string wanted = "must be a list of whole numbers from " + std::to_string(range.least) +
                             " to " + std::to_string(range.most);
  const Array* array = value->array();
  if (array == nullptr) return reader.complain(key.name, wanted);
  for (const Value& entry : *array) {
    const auto* number = std::get_if<std::int64_t>(&entry.content);
    if (number == nullptr || *number < static_cast<std::int64_t>(range.least) ||
        *number > static_cast<std::int64_t>(range.most))
      return reader.complain(key.name, wanted);
    numbers.push_back(static_cast<std::uint8_t>(*number));
  }
}

void read_importances(Reader& reader, const Key& key, const Range& range, void* section) {
  const Value* value = reader.find(key.name);
  if (value == nullptr) return;
  auto& limits = *static_cast<Importances*>(key.at.reach(section));
  const std::string wanted = "must be " + std::to_string(limits.size()) + " whole numbers from " +
                             std::to_string(range.least) + " to " + std::to_string(range.most) +
                             ": the limit for each importance";
  const Array* array = value->array();
  if (array == nullptr || array->size() != limits.size()) return reader.complain(key.name, wanted);
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const auto* number = std::get_if<std::int64_t>(&(*array)[i].content);
    if (number == nullptr || *number < 0 || static_cast<std::uint64_t>(*number) > range.most)
      return reader.complain(key.name, wanted);
    limits[i] = static_cast<std::uint32_t>(*number);
  }
}

void read_table(Reader& reader, const Key& key, void* section, Problems& problems) {
  const Value* value = reader.find(key.name);
  if (value == nullptr) return;
  Reader inner(*value, reader.path_of(key.name), problems);
  read_keys(inner, key.table(), key.at.reach(section), problems);
  inner.finish();
}

}  // namespace

void read_key(Reader& reader, const Key& key, const Range& range, void* section,
              Problems& problems) {
  if (key.missing != nullptr && !reader.find(key.name))
    return reader.complain(key.name, key.missing);
  switch (key.at.type) {
    case Type::kBoolean:
      return read_boolean(reader, key, section);
    case Type::kInteger:
    case Type::kSeconds:
    case Type::kEveryImportance:
      return read_integer(reader, key, range, section);
    case Type::kFactor:
      return reader.number(key.name, *static_cast<double*>(key.at.reach(section)),
                           key.factors.least, key.factors.most);
    case Type::kShare:
      return read_share(reader, key, section);
    case Type::kWord:
      return read_word(reader, key, section);
    case Type::kText:
      return read_text(reader, key, section);
    case Type::kAddress:
      return read_host_address(reader, key, section);
    case Type::kAddresses:
      return read_addresses(reader, key, section, problems);
    case Type::kSubnets:
      return read_subnets(reader, key, section, problems);
    case Type::kPrefixes:
      return read_prefixes(reader, key, section, problems);
    case Type::kNames:
      return read_names(reader, key, section, problems);
    case Type::kNumbers:
      return read_numbers(reader, key, range, section);
    case Type::kImportances:
      return read_importances(reader, key, range, section);
    case Type::kTable:
      return read_table(reader, key, section, problems);
    case Type::kTvls:
      break;  // read together with the keys of each: Key::apart
  }
}

void read_keys(Reader& reader, const Schema& table, void* section, Problems& problems,
               const PoolsConfig* pools) {
  for (const Key& key : table.keys) reader.find(key.name);  // for the order in messages
  // Keys without bounds by other keys are read first: they may be bounds of others.
  for (const bool bounded : {false, true})
    for (const Key& key : table.keys)
      if (!key.apart && bounded == (key.most_key != nullptr || key.least_key != nullptr))
        read_key(reader, key, range_in(table, key, section, pools), section, problems);
  if (table.check != nullptr) table.check(reader, section);
}

}  // namespace softhca::configuration
