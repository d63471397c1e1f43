// SPDX-License-Identifier: Apache-2.0

// Limits and numbers of a tenant's connections, for operators and metrics.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/roce/rdma_cm/connections/connection_admission.hpp"
#include "daemon/roce/rdma_cm/rdma_cm_environment.hpp"

namespace softhca::management {

struct ConnectionFigures {
  struct Limit {
    rdma_cm::Refusal refusal;  ///< of a request over the limit
    const char* key;           ///< in the configuration
    std::uint32_t limit = 0;
    std::optional<std::uint32_t> in_use;  ///< empty: the limit is not on a number of things
    std::uint64_t refused = 0;
  };
  std::string tenant;
  std::vector<Limit> limits;
  std::uint32_t admitted = 0;
  std::uint32_t most_admitted = 0;
  std::vector<rdma_cm::ConnectionAdmission::View> levels;
};

}  // namespace softhca::management
