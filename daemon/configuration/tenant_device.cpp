// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/tenant_device.hpp"

#include <charconv>

namespace softhca::configuration {
namespace {

constexpr std::string_view kDecimal = "0123456789";

bool is_hexadecimal(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

/// True if `text` has the form: an 'x' stands for a hexadecimal digit in lower case, any other
/// character for itself.
bool has_form(std::string_view text, std::string_view form) {
  if (text.size() != form.size()) return false;
  for (std::size_t i = 0; i < form.size(); ++i)
    if (form[i] == 'x' ? !is_hexadecimal(text[i]) : text[i] != form[i]) return false;
  return true;
}

}  // namespace

std::optional<std::uint64_t> parse_guid(std::string_view text) {
  if (!has_form(text, "xxxx:xxxx:xxxx:xxxx")) return std::nullopt;
  std::uint64_t guid = 0;
  for (std::size_t at = 0; at < text.size(); at += 5) {
    std::uint16_t part = 0;
    std::from_chars(text.data() + at, text.data() + at + 4, part, 16);
    guid = guid << 16 | part;
  }
  return guid != 0 ? std::optional(guid) : std::nullopt;
}

bool is_pci_address(std::string_view text) {
  constexpr std::size_t kSlot = 8, kFunction = 11;
  return has_form(text, "xxxx:xx:xx.x") && text[kSlot] <= '1' && text[kFunction] <= '7';
}

std::string default_device_name(std::string_view first, std::size_t index) {
  if (index == 0) return std::string(first);
  const std::size_t digits = first.find_last_not_of(kDecimal) + 1;
  std::uint64_t number = 0;
  std::from_chars(first.data() + digits, first.data() + first.size(), number);
  return std::string(first.substr(0, digits)) + std::to_string(number + index);
}

}  // namespace softhca::configuration
