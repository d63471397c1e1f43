// SPDX-License-Identifier: Apache-2.0

// Writes JSON values as YAML in block style. Strings that a parser could take for something else
// are in double quotes, where YAML has the escapes of JSON.
#include <algorithm>
#include <cctype>
#include <string>

#include "cli/ctl/ctl_output.hpp"

namespace softhca::cli {
namespace {

constexpr std::size_t kYamlIndent = 2;

/// True if every parser reads the text without quotes as this string. YAML 1.1 has more words for
/// booleans than 1.2.
bool is_plain(const std::string& text) {
  const auto is_letter = [](unsigned char c) { return c < 0x80 && std::isalpha(c) != 0; };
  if (text.empty() || text.back() == ' ' || !is_letter(static_cast<unsigned char>(text[0])))
    return false;
  for (const char c : text)
    if (!is_letter(static_cast<unsigned char>(c)) && (c < '0' || c > '9') &&
        std::string_view(" _-./()").find(c) == std::string_view::npos)
      return false;
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* const word : {"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
    if (lower == word) return false;
  return true;
}

/// True for characters that YAML wants escaped where JSON does not: those that do not print, and
/// those that end a line.
bool is_special(unsigned code) {
  return (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 || code == 0xfeff ||
         code == 0xfffe || code == 0xffff;
}

/// Returns a JSON string, which is valid UTF-8, as a string of YAML.
std::string escaped(const std::string& json) {
  std::string out;
  for (std::size_t i = 0; i < json.size();) {
    const auto first = static_cast<unsigned char>(json[i]);
    const std::size_t size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    unsigned code = size == 1 ? first : first & (0xffu >> (size + 1));
    for (std::size_t k = 1; k < size; ++k)
      code = code << 6 | (static_cast<unsigned char>(json[i + k]) & 0x3fu);
    char text[8];
    std::snprintf(text, sizeof text, "\\u%04x", code & 0xffffu);
    out += is_special(code) ? text : json.substr(i, size);
    i += size;
  }
  return out;
}

std::string string_text(const std::string& text) {
  if (is_plain(text)) return text;
  return escaped(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string scalar_text(const Json& value) {
  if (value.is_string()) return string_text(value.get_ref<const std::string&>());
  std::string text = value.dump();
  // YAML 1.1 has no number with an exponent but without a point.
  if (value.is_number_float() && text.find('.') == std::string::npos)
    if (const auto exponent = text.find('e'); exponent != std::string::npos)
      text.insert(exponent, ".0");
  return text;
}

bool is_block(const Json& value) { return value.is_structured() && !value.empty(); }

void write_block(std::string& out, const Json& value, std::size_t indent);

/// Writes what follows "key:".
void write_member(std::string& out, const Json& value, std::size_t indent) {
  if (!is_block(value)) {
    out += " " + scalar_text(value) + "\n";
    return;
  }
  out += "\n";
  write_block(out, value, indent);
}

void write_block(std::string& out, const Json& value, std::size_t indent) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      out.append(indent, ' ') += string_text(key) + ":";
      write_member(out, member, indent + kYamlIndent);
    }
    return;
  }
  for (const Json& entry : value) {
    out.append(indent, ' ') += "-";
    if (!is_block(entry)) {
      out += " " + scalar_text(entry) + "\n";
      continue;
    }
    // The first line of the entry stands behind the dash.
    std::string block;
    write_block(block, entry, indent + kYamlIndent);
    out += " " + block.substr(indent + kYamlIndent);
  }
}

}  // namespace

std::string yaml_text(const Json& document) {
  if (!is_block(document)) return scalar_text(document) + "\n";
  std::string out;
  write_block(out, document, 0);
  return out;
}

}  // namespace softhca::cli
