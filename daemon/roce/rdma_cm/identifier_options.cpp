// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/identifier_options.hpp"

#include <cerrno>

namespace softhca::management::rdma_cm {

namespace {

constexpr std::uint8_t kLongestAckTimeout = 31;

/// Returns 0, or EINVAL if the value does not have the size of T.
template <class T>
int read_value(const ChannelCommand& command, const char* name, Body value, T& to) {
  if (value.size() != sizeof to)
    return command.refuse(EINVAL, "%s: optlen %zu, must be %zu", name, value.size(), sizeof to);
  std::memcpy(&to, value.data(), sizeof to);
  return 0;
}

int refuse_unknown(const ChannelCommand& command, std::uint32_t level, std::uint32_t name) {
  return command.refuse(ENOSYS, "no such option: level %u, optname %u", level, name);
}

}  // namespace

int IdentifierOptions::set_option(const ChannelCommand& command) {
  rdma_ucm_set_option body;
  if (const int error = command.read(body)) return error;
  if (command.body.size() - sizeof body < body.optlen)
    return command.refuse(EINVAL, "optlen %u, but only %zu bytes follow", body.optlen,
                          command.body.size() - sizeof body);
  const Body value = command.body.subspan(sizeof body, body.optlen);
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_of(command, body.id, id)) return error;
  if (body.level == RDMA_OPTION_ID) return set_id_option(command, *id, body.optname, value);
  if (body.level == RDMA_OPTION_IB && body.optname == RDMA_OPTION_IB_PATH)
    return routes_.set_path(command, *id, value);
  return refuse_unknown(command, body.level, body.optname);
}

int IdentifierOptions::set_id_option(const ChannelCommand& command, Identifier& id,
                                     std::uint32_t name, Body value) {
  using State = IdentifierState;
  std::uint8_t byte = 0;
  std::int32_t flag = 0;
  switch (name) {
    case RDMA_OPTION_ID_TOS:
      if (const int error = read_value(command, "RDMA_OPTION_ID_TOS", value, byte)) return error;
      id.options.traffic_class = byte;
      return 0;
    case RDMA_OPTION_ID_REUSEADDR:
      if (const int error = read_value(command, "RDMA_OPTION_ID_REUSEADDR", value, flag))
        return error;
      if (id.state == State::kListen)
        return command.refuse(EINVAL, "RDMA_OPTION_ID_REUSEADDR of an identifier in state listen");
      if (flag == 0)
        if (const int error = command.check_state(id, {State::kIdle})) return error;
      id.options.reuse_address = flag != 0;
      ports_.claim_changed(id);
      return 0;
    case RDMA_OPTION_ID_AFONLY:
      if (const int error = read_value(command, "RDMA_OPTION_ID_AFONLY", value, flag)) return error;
      if (const int error = command.check_state(id, {State::kIdle, State::kBound})) return error;
      id.options.af_only = flag != 0;
      ports_.claim_changed(id);
      return 0;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      if (const int error = read_value(command, "RDMA_OPTION_ID_ACK_TIMEOUT", value, byte))
        return error;
      if (id.is_datagram())
        return command.refuse(
            EINVAL, "RDMA_OPTION_ID_ACK_TIMEOUT of an identifier that is not of RDMA_PS_TCP");
      if (byte > kLongestAckTimeout)
        return command.refuse(EINVAL, "RDMA_OPTION_ID_ACK_TIMEOUT %u, at most %u", byte,
                              kLongestAckTimeout);
      id.options.ack_timeout = byte;
      return 0;
    default:
      return refuse_unknown(command, RDMA_OPTION_ID, name);
  }
}

}  // namespace softhca::management::rdma_cm
