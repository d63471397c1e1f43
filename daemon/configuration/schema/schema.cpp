// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/schema/schema.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "daemon/configuration/schema/wrap.hpp"

namespace softhca::configuration {
namespace {

std::string written(const std::string& text) { return quoted(text); }
std::string written(const Gid& gid) { return to_string(gid); }
std::string written(const InterfaceAddress& address) {
  return to_string(address.gid) + '/' + std::to_string(address.prefix);
}
std::string written(const AddressPrefix& prefix) {
  return to_string(prefix.address) + '/' + std::to_string(prefix.length);
}
std::string written(std::uint32_t value) { return std::to_string(value); }

template <class List>
std::string written_list(const List& values) {
  std::string text = "[";
  for (const auto& value : values) text += (text.size() > 1 ? ", " : "") + written(value);
  return text + "]";
}

std::string octal(std::uint64_t value) {
  std::ostringstream text;
  text << "0o" << std::oct << value;
  return text.str();
}

}  // namespace

const Key* find_key(const Schema& table, std::string_view name) {
  const auto found = std::find_if(table.keys.begin(), table.keys.end(),
                                  [&](const Key& key) { return key.name == name; });
  return found != table.keys.end() ? &*found : nullptr;
}

Range range_of(const Key& key) {
  switch (key.at.type) {
    case Type::kBoolean:
      return {0, 1};
    case Type::kShare:
      return {0, kWhole.tenths};
    case Type::kWord:
      return {0, key.words.size() - 1};
    case Type::kFactor:
      return {static_cast<std::uint64_t>(key.factors.least * 1000),
              static_cast<std::uint64_t>(key.factors.most * 1000)};
    default:
      return {key.range.least, std::min(key.range.most, key.at.greatest)};
  }
}

std::uint64_t amount_in(const Key& key, const void* section) {
  const void* value = key.at.look(section);
  return value != nullptr ? key.at.amount(value) : 0;
}

void set_amount(const Key& key, void* section, std::uint64_t amount) {
  key.at.set(key.at.reach(section), amount);
}

std::string to_text(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

std::string to_text(const std::vector<std::string>& values) { return written_list(values); }

std::string to_text(const std::vector<std::uint8_t>& values) { return written_list(values); }

std::string to_text(const Key& key, const void* section) {
  const void* value = key.at.look(section);
  if (value == nullptr) return "none";
  const auto amount = [&] { return std::to_string(key.at.amount(value)); };
  switch (key.at.type) {
    case Type::kBoolean:
      return key.at.amount(value) != 0 ? "true" : "false";
    case Type::kInteger:
    case Type::kEveryImportance:
      return key.octal ? octal(key.at.amount(value)) : amount();
    case Type::kFactor:
      return to_text(*static_cast<const double*>(value));
    case Type::kShare:
      return quoted(to_text(*static_cast<const Share*>(value)));
    case Type::kWord:
      return quoted(std::string(key.words[key.at.amount(value)]));
    case Type::kText:
      return quoted(*static_cast<const std::string*>(value));
    case Type::kSeconds:
      return amount() + " s";
    case Type::kAddress:
      return to_string(*static_cast<const Gid*>(value));
    case Type::kAddresses:
      return written_list(*static_cast<const std::vector<Gid>*>(value));
    case Type::kSubnets:
      return written_list(*static_cast<const std::vector<InterfaceAddress>*>(value));
    case Type::kPrefixes:
      return written_list(*static_cast<const std::vector<AddressPrefix>*>(value));
    case Type::kNames:
      return written_list(*static_cast<const std::vector<std::string>*>(value));
    case Type::kNumbers:
      return to_text(*static_cast<const std::vector<std::uint8_t>*>(value));
    case Type::kImportances:
      return written_list(*static_cast<const Importances*>(value));
    case Type::kTvls:
      return std::to_string(static_cast<const std::vector<TvlConfig>*>(value)->size());
    case Type::kTable:
      break;
  }
  return to_text(key.table(), value);
}

std::string to_text(const Schema& table, const void* section) {
  std::string text;
  for (const Key& key : table.keys) {
    if (key.is_alias || key.at.look(section) == nullptr) continue;
    text += (text.empty() ? "" : ", ") + std::string(key.name) + " = " + to_text(key, section);
  }
  return "{ " + text + " }";
}

}  // namespace softhca::configuration
