// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/dpdk/device_args.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>

namespace softhca::port {
namespace {

constexpr std::uint32_t kLeastFrameRoom = 256;
constexpr std::uint32_t kMostFrameRoom = 65536;

Error bad(std::string_view text, const std::string& why) {
  return {"port device \"" + std::string(text) + "\": " + why, EINVAL};
}

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t v = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (failed != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return v;
}

bool is_hex(std::string_view s) {
  return !s.empty() && s.find_first_not_of("0123456789abcdefABCDEF") == s.npos;
}

std::string_view room_key(const DeviceArgs& args) {
  if (args.is("net_af_packet")) return "framesz";
  if (args.is("net_memif")) return "bsize";
  return {};
}

void set_defaults(DeviceArgs& args) {
  if (args.is("net_af_packet")) {
    args.set_default("qpairs", "1");
    args.set_default("framesz", std::to_string(kDefaultFrameRoom));
    args.set_default("blocksz", std::to_string(8 * args.frame_room()));
    args.set_default("framecnt", "2048");
  }
  if (args.is("net_memif")) {
    args.set_default("bsize", std::to_string(kDefaultFrameRoom));
    args.set_default("rsize", "10");
    if (args.option("socket")) args.set_default("socket-abstract", "no");
  }
}

}  // namespace

bool DeviceArgs::is_pci() const {
  std::string_view s = name;
  if (std::count(s.begin(), s.end(), ':') == 2) {
    if (!is_hex(s.substr(0, s.find(':')))) return false;
    s.remove_prefix(s.find(':') + 1);
  }
  const std::size_t colon = s.find(':');
  const std::size_t dot = s.find('.');
  return colon != s.npos && dot != s.npos && colon < dot && is_hex(s.substr(0, colon)) &&
         is_hex(s.substr(colon + 1, dot - colon - 1)) && is_hex(s.substr(dot + 1));
}

std::optional<std::string> DeviceArgs::option(std::string_view key) const {
  for (const auto& [k, v] : options)
    if (k == key) return v;
  return std::nullopt;
}

void DeviceArgs::set_default(std::string_view key, std::string_view value) {
  if (!option(key)) options.emplace_back(key, value);
}

std::string DeviceArgs::text() const {
  std::string all = name;
  for (const auto& [k, v] : options) all += "," + k + (v.empty() ? "" : "=" + v);
  return all;
}

std::uint32_t DeviceArgs::frame_room() const {
  const std::string_view key = room_key(*this);
  const auto given = key.empty() ? std::nullopt : option(key);
  return given ? number(*given).value_or(0) : kDefaultFrameRoom;
}

Expected<DeviceArgs> parse_device(std::string_view text) {
  DeviceArgs args;
  if (text.ends_with(',')) return bad(text, "remove the comma at the end");
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (part.empty()) return bad(text, "remove the empty part between commas");
    const std::size_t equals = part.find('=');
    if (args.name.empty() && args.options.empty() && equals == part.npos)
      args.name = part;
    else
      args.options.emplace_back(part.substr(0, equals),
                                equals == part.npos ? "" : part.substr(equals + 1));
  }
  const auto iface = args.option("iface");
  if (args.name.empty() && iface) args.name = "net_af_packet_" + *iface;
  if (args.name.empty())
    return bad(text, "give iface=NAME, a DPDK device such as net_memif0,..., or a PCI address");
  if (args.is("net_af_packet") && (!iface || iface->empty()))
    return bad(text, "net_af_packet needs iface=NAME");
  if (args.is_pci() && std::count(args.name.begin(), args.name.end(), ':') == 1)
    args.name = "0000:" + args.name;  // DPDK names devices with their domain
  set_defaults(args);
  if (args.frame_room() < kLeastFrameRoom || args.frame_room() > kMostFrameRoom)
    return bad(text, std::string(room_key(args)) + " must be a number from 256 to 65536");
  return args;
}

}  // namespace softhca::port
