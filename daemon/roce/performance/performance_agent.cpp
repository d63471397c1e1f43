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
constexpr std::uint16_t kPortCounters = 0x0012;
constexpr std::uint16_t kPortCountersExtended = 0x001d;

/// CapabilityMask of ClassPortInfo.
constexpr std::uint16_t kAllPortSelect = 1 << 8;
constexpr std::uint16_t kExtendedWidth = 1 << 9;
constexpr std::uint16_t kTransmitWait = 1 << 12;
constexpr std::uint16_t kQueuePair1Dropped = 1 << 15;
/// Responses come within 4.096 us * 2^18, about a second.
constexpr std::uint32_t kResponseTime = 18;

/// Position of a counter in an attribute.
struct Field {
  std::size_t offset;
  std::size_t bytes;
  std::uint64_t PortCounters::*counter;
  std::uint64_t unit = 1;  ///< bytes are counted in words of 4
};

/// The omitted counters stay 0: they count events of an InfiniBand link (16.1.3.5).
constexpr Field kCounters[] = {
    {7, 1, &PortCounters::link_downed},
    {8, 2, &PortCounters::receive_errors},
    {14, 2, &PortCounters::transmit_discards},
    {16, 1, &PortCounters::transmit_constraint_errors},
    {17, 1, &PortCounters::receive_constraint_errors},
    {20, 2, &PortCounters::queue_pair_1_dropped},
    {24, 4, &PortCounters::transmitted_bytes, 4},
    {28, 4, &PortCounters::received_bytes, 4},
    {32, 4, &PortCounters::transmitted_packets},
    {36, 4, &PortCounters::received_packets},
    {40, 4, &PortCounters::transmit_waits},
};
/// LocalLinkIntegrityErrors in the upper half of the byte, ExcessiveBufferOverrunErrors in the
/// lower.
constexpr std::size_t kOverrunErrors = 19;
constexpr std::uint64_t kMostOverrunErrors = 15;

/// 16.1.4.11
constexpr Field kExtendedCounters[] = {
    {8, 8, &PortCounters::transmitted_bytes, 4},   {16, 8, &PortCounters::received_bytes, 4},
    {24, 8, &PortCounters::transmitted_packets},   {32, 8, &PortCounters::received_packets},
    {40, 8, &PortCounters::transmitted_unicast},   {48, 8, &PortCounters::received_unicast},
    {56, 8, &PortCounters::transmitted_multicast}, {64, 8, &PortCounters::received_multicast},
};

/// Stores big-endian. A counter too small for the value stops at its maximum (16.1.3.5).
void store_saturated(std::byte* to, std::size_t bytes, std::uint64_t value) {
  if (bytes < 8) value = std::min(value, (std::uint64_t{1} << (8 * bytes)) - 1);
  for (std::size_t i = bytes; i-- > 0; value >>= 8) to[i] = static_cast<std::byte>(value & 0xff);
}

void store(std::byte* attribute, std::span<const Field> fields, const PortCounters& counters) {
  for (const Field& f : fields)
    store_saturated(attribute + f.offset, f.bytes, counters.*f.counter / f.unit);
}

/// Stores ClassPortInfo without traps and redirection (13.4.8.1).
void store_class_port_info(std::byte* attribute) {
  attribute[0] = std::byte{wire::kMadBaseVersion};
  attribute[1] = std::byte{kClassVersion};
  store_be(attribute + 2,
           std::uint16_t{kAllPortSelect | kExtendedWidth | kTransmitWait | kQueuePair1Dropped});
  store_be(attribute + 4, kResponseTime);
}

void store_port_counters(std::byte* attribute, const PortCounters& counters) {
  store(attribute, kCounters, counters);
  attribute[kOverrunErrors] =
      static_cast<std::byte>(std::min(counters.buffer_overruns, kMostOverrunErrors));
}

/// Makes the checks of 13.4.7, in the order of its codes.
std::uint16_t check(const wire::MadHeader& header, std::uint8_t port_select, std::uint8_t port) {
  if (header.class_version != kClassVersion) return MadStatus::kBadVersion;
  if (header.method != MadMethod::kGet && header.method != MadMethod::kSet)
    return MadStatus::kMethodNotSupported;
  const std::uint16_t id = header.attribute_id;
  const bool has_port = id == kPortCounters || id == kPortCountersExtended;
  if (header.method == MadMethod::kSet || !(has_port || id == kClassPortInfo))
    return MadStatus::kAttributeNotSupported;
  const bool port_fits = !has_port || port_select == port || port_select == kAllPorts;
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
                                std::uint8_t port, const PortCounters& counters) {
  auto header = wire::decode_mad_header(request);
  if (!header || header->management_class != wire::ManagementClass::kPerformance ||
      !is_answered(header->method))
    return std::nullopt;
  const auto port_select = std::to_integer<std::uint8_t>(request[kAttributeOffset + kPortSelect]);
  header->status = check(*header, port_select, port);
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
  if (header->attribute_id == kPortCounters)
    store_port_counters(attribute, counters);
  else
    store(attribute, kExtendedCounters, counters);
  return response;
}

}  // namespace softhca::management
