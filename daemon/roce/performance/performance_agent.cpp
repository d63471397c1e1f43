// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/performance/performance_agent.hpp"

#include <algorithm>

#include "daemon/base/endian.hpp"

namespace softhca::management {

namespace {

using wire::MadMethod;
using wire::MadStatus;

constexpr std::uint8_t kClassVersion = 1;
/// Offset of the attribute, after 40 reserved bytes (16.1.2).
constexpr std::size_t kAttributeOffset = 64;
constexpr std::size_t kPortSelect = 1;
constexpr std::uint8_t kAllPorts = 0xff;

constexpr std::uint16_t kClassPortInfo = 0x0001;
constexpr std::uint16_t kPortCountersId = 0x0012;
constexpr std::uint16_t kPortCountersExtendedId = 0x001d;

/// CapabilityMask of ClassPortInfo.
constexpr std::uint16_t kAllPortSelect = 1 << 8;
constexpr std::uint16_t kExtendedWidth = 1 << 9;
constexpr std::uint16_t kTransmitWait = 1 << 12;
constexpr std::uint16_t kQueuePair1Dropped = 1 << 15;
/// Responses come within 4.096 us * 2^18, about a second.
constexpr std::uint32_t kResponseTime = 18;

/// LocalLinkIntegrityErrors in the upper half of the byte, ExcessiveBufferOverrunErrors in the
/// lower.
constexpr std::size_t kOverrunErrors = 19;
constexpr std::uint64_t kMostOverrunErrors = 15;

/// Stores big-endian. A counter too small for the value stops at its maximum (16.1.3.5). REQUIRES:
/// bytes < 8.
void store_saturated(std::byte* to, std::size_t bytes, std::uint64_t value) {
  value = std::min(value, (std::uint64_t{1} << (8 * bytes)) - 1);
  for (std::size_t i = bytes; i-- > 0; value >>= 8) to[i] = static_cast<std::byte>(value & 0xff);
}

/// Stores ClassPortInfo without traps and redirection (13.4.8.1).
void store_class_port_info(std::byte* attribute) {
  attribute[0] = std::byte{wire::kMadBaseVersion};
  attribute[1] = std::byte{kClassVersion};
  store_be(attribute + 2,
           std::uint16_t{kAllPortSelect | kExtendedWidth | kTransmitWait | kQueuePair1Dropped});
  store_be(attribute + 4, kResponseTime);
}

/// The counters without a place stay 0.
void store_port_counters(std::byte* attribute, const PmaCounters& counters) {
  for (const PmaCounter& c : kPmaCounters)
    store_saturated(attribute + c.offset, c.bytes, c.value(counters));
  attribute[kOverrunErrors] =
      static_cast<std::byte>(std::min(counters.buffer_overruns, kMostOverrunErrors));
}

void store_extended(std::byte* attribute, const PmaCounters& counters) {
  for (const PmaCounter& c : kPmaCounters)
    if (c.extended != 0) store_be(attribute + c.extended, c.value(counters));
}

/// Makes the checks of 13.4.7, in the order of its codes.
std::uint16_t check(const wire::MadHeader& header, std::uint8_t port_select, std::uint8_t ports) {
  if (header.class_version != kClassVersion) return MadStatus::kBadVersion;
  if (header.method != MadMethod::kGet && header.method != MadMethod::kSet)
    return MadStatus::kMethodNotSupported;
  const std::uint16_t id = header.attribute_id;
  const bool has_port = id == kPortCountersId || id == kPortCountersExtendedId;
  if (header.method == MadMethod::kSet || !(has_port || id == kClassPortInfo))
    return MadStatus::kAttributeNotSupported;
  const bool port_fits =
      !has_port || (port_select != 0 && port_select <= ports) || port_select == kAllPorts;
  return header.attribute_modifier == 0 && port_fits ? MadStatus::kOk : MadStatus::kInvalidField;
}

/// True if the method gets a response. Notices and responses get none: two agents would answer each
/// other forever.
bool is_answered(MadMethod method) {
  return !wire::is_response(method) && method != MadMethod::kSendMessage &&
         method != MadMethod::kTrap && method != MadMethod::kTrapRepress;
}

}  // namespace

std::optional<wire::Mad> answer(std::span<const std::byte, wire::kMadBytes> request,
                                std::uint8_t ports, const PmaCounters& counters) {
  auto header = wire::decode_mad_header(request);
  if (!header || header->management_class != wire::ManagementClass::kPerformance ||
      !is_answered(header->method))
    return std::nullopt;
  const auto port_select = std::to_integer<std::uint8_t>(request[kAttributeOffset + kPortSelect]);
  header->status = check(*header, port_select, ports);
  header->method = MadMethod::kGetResponse;
  wire::Mad response{};
  wire::encode(*header, response);
  std::byte* attribute = &response[kAttributeOffset];
  if (header->status != MadStatus::kOk) {
    std::ranges::copy(request.subspan<kAttributeOffset>(), attribute);
    return response;
  }
  if (header->attribute_id == kClassPortInfo) {
    store_class_port_info(attribute);
    return response;
  }
  attribute[kPortSelect] = std::byte{port_select};
  if (header->attribute_id == kPortCountersId)
    store_port_counters(attribute, counters);
  else
    store_extended(attribute, counters);
  return response;
}

}  // namespace softhca::management
