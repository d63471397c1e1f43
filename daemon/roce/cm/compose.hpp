// SPDX-License-Identifier: Apache-2.0

// The messages that a connection sends.
#pragma once

#include "daemon/roce/cm/connection.hpp"
#include "daemon/roce/wire/cm_messages.hpp"

namespace softhca::management::cm {

/// True if the data fits the field.
template <std::size_t bytes>
bool fits(PrivateData data) {
  return data.size() <= bytes;
}

wire::Mad compose_req(const Connection& c, const ConnectParameters& p, std::uint64_t ca_guid);
wire::Mad compose_rep(const Connection& c, const AcceptParameters& p, std::uint64_t ca_guid);
wire::Mad compose_rtu(const Connection& c, PrivateData private_data);
/// Makes a REJ of the message that this state of the connection would answer.
wire::Mad compose_rej(const Connection& c, const RejectParameters& p);
/// Makes a REJ 4 (timeout) of a connection that gives up.
wire::Mad compose_rej_timeout(const Connection& c, std::uint64_t ca_guid);
wire::Mad compose_mra(const Connection& c, std::uint8_t service_timeout);
wire::Mad compose_dreq(const Connection& c, PrivateData private_data);
wire::Mad compose_drep(const Connection& c, PrivateData private_data);
wire::Mad compose_apr(const Connection& c, std::uint64_t transaction_id);
wire::Mad compose_sidr_req(const Connection& c, const SidrParameters& p);
wire::Mad compose_sidr_rep(const Connection& c, const SidrReplyParameters& p);

}  // namespace softhca::management::cm
