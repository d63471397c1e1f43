// SPDX-License-Identifier: Apache-2.0

// The daemon's end of an event channel of rdma_cm, for tests of the provider: numbers for
// identifiers, events that the test queues.
#pragma once

#include <linux/types.h>
#include <netinet/in.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <sys/socket.h>

#include <linux/socket.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "abi/control.hpp"

/// What librdmacm and the kernel share; librdmacm's own header has the same names for some of it.
namespace softhca::provider::test::kernel {
#include <rdma/rdma_user_cm.h>
}

namespace softhca::provider::test {

class FakeEventChannel {
 public:
  explicit FakeEventChannel(std::uint32_t number);
  ~FakeEventChannel();
  FakeEventChannel(const FakeEventChannel&) = delete;

  std::uint32_t number() const { return number_; }
  /// The identifier made last, by whichever channel.
  static std::uint32_t last_id();
  /// The end for the program, which is the caller's to close.
  int take_program_end();
  void hang_up();

  void post(const kernel::rdma_ucm_event_resp& event);

  /// Carries out a command: 0 and the response, or an errno value. `from`: the channel that it
  /// names. `emptied`: the queue that the response speaks of has become empty.
  int carry_out(std::uint32_t command, std::span<const std::byte> body, FakeEventChannel* from,
                std::vector<std::byte>& response, bool& emptied);

 private:
  int next_event(std::vector<std::byte>& response, bool& emptied);
  bool take_over(std::uint32_t id, FakeEventChannel& from);

  std::uint32_t number_;
  int ends_[2];
  std::deque<kernel::rdma_ucm_event_resp> events_;
  std::map<std::uint32_t, std::uint32_t> reported_;  ///< events, by identifier
};

}  // namespace softhca::provider::test
