// SPDX-License-Identifier: Apache-2.0

// The keys of [[tenant.device]].
#include <array>

#include "daemon/configuration/schema/schema.hpp"
#include "daemon/configuration/schema/text_rules.hpp"

namespace softhca::configuration {
namespace {

using D = TenantDevice;

constexpr auto kRateWords = [] {
  std::array<std::string_view, std::size(kPortRates)> words;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = kPortRates[i].word;
  return words;
}();

constexpr Key kKeys[] = {
    {.name = "name",
     .at = at<&D::name>,
     .text = kSafeName,
     .refusal = kTenantDevice,
     .doc = "default: that of [device], counted up from device to device",
     .sample = "\"mlx5_0\""},
    {.name = "addresses",
     .at = at<&D::addresses>,
     .doc = "its GIDs; a tenant with several devices lists its addresses here alone",
     .sample = "[\"198.18.0.1\"]"},
    {.name = "rate",
     .at = at<&D::rate>,
     .words = kRateWords,
     .refusal = kTenantDevice,
     .doc = "What its port reports: active_speed and active_width. It limits nothing."},
    {.name = "guid",
     .at = at<&D::guid>,
     .text = {[](std::string_view text) { return parse_guid(text).has_value(); },
              "must be like \"0200:5eff:fe10:0001\", and not 0"},
     .refusal = kTenantDevice,
     .doc = "default: derived from the host, the tenant and, except for the first device, its name",
     .sample = "\"0200:5eff:fe10:0001\""},
    {.name = "pci",
     .at = at<&D::pci>,
     .text = {is_pci_address,
              "must be a PCI address as in /sys/bus/pci/devices, such as \"0000:3b:00.0\""},
     .refusal = kTenantDevice,
     .doc = "PCI address under which programs find it; default: not on a PCI bus",
     .sample = "\"0000:3b:00.0\""},
    {.name = "numa",
     .at = at<&D::numa>,
     .range = {0, 1023},
     .refusal = kTenantDevice,
     .doc = "NUMA node that it reports; default: none, all processors are near",
     .sample = "0"},
};
constexpr Schema kTable{
    .comment =
        "Devices of the tenant, at most 16, for programs that look for several adapters. Without "
        "it the tenant has one device. The devices share all that the tenant is guaranteed and "
        "all its limits. A reload changes their addresses; for another change remove the tenant "
        "first, or restart the daemon.",
    .keys = kKeys};

}  // namespace

template <>
const Schema& schema_of<TenantDevice>() {
  return kTable;
}

}  // namespace softhca::configuration
