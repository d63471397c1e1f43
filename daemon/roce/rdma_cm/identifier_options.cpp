// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/identifier_options.hpp"

#include <cerrno>

namespace softhca::management::rdma_cm {

namespace {

constexpr std::uint8_t kLongestAckTimeout = 31;

/// Returns false if the value does not have the size of T.
template <class T>
bool read_value(Body value, T& to) {
  if (value.size() != sizeof to) return false;
  std::memcpy(&to, value.data(), sizeof to);
  return true;
}

}  // namespace

int IdentifierOptions::set_option(const ChannelCommand& command) {
  rdma_ucm_set_option body;
  if (!read_body(command.body, body)) return EINVAL;
  if (command.body.size() - sizeof body < body.optlen) return EINVAL;
  const Body value = command.body.subspan(sizeof body, body.optlen);
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_of(command.channel.id, body.id, id)) return error;
  if (body.level == RDMA_OPTION_ID) return set_id_option(*id, body.optname, value);
  if (body.level == RDMA_OPTION_IB && body.optname == RDMA_OPTION_IB_PATH)
    return routes_.set_path(*id, value);
  return ENOSYS;
}

int IdentifierOptions::set_id_option(Identifier& id, std::uint32_t name, Body value) {
  std::uint8_t byte = 0;
  std::int32_t flag = 0;
  switch (name) {
    case RDMA_OPTION_ID_TOS:
      if (!read_value(value, byte)) return EINVAL;
      id.options.traffic_class = byte;
      return 0;
    case RDMA_OPTION_ID_REUSEADDR:
      if (!read_value(value, flag)) return EINVAL;
      if (id.state != IdentifierState::kIdle && (flag == 0 || id.state == IdentifierState::kListen))
        return EINVAL;
      id.options.reuse_address = flag != 0;
      ports_.claim_changed(id);
      return 0;
    case RDMA_OPTION_ID_AFONLY:
      if (!read_value(value, flag)) return EINVAL;
      if (id.state != IdentifierState::kIdle && id.state != IdentifierState::kBound) return EINVAL;
      id.options.af_only = flag != 0;
      ports_.claim_changed(id);
      return 0;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      if (!read_value(value, byte)) return EINVAL;
      if (id.is_datagram() || byte > kLongestAckTimeout) return EINVAL;
      id.options.ack_timeout = byte;
      return 0;
    default:
      return ENOSYS;
  }
}

}  // namespace softhca::management::rdma_cm
