// SPDX-License-Identifier: Apache-2.0

// End-to-end flow control: for how many messages the peer has receive work requests (InfiniBand
// specification, volume 1, 9.7.7.2).
#pragma once

#include "daemon/base/types.hpp"
#include "daemon/roce/transport/codes.hpp"
#include "daemon/roce/transport/segment.hpp"
#include "daemon/roce/transport/send_queue.hpp"
#include "daemon/roce/wire/headers.hpp"

namespace softhca::transport {

class EndToEndCredits {
 public:
  /// Removes the limit: the peer has not reported its receives yet.
  void reset() { *this = EndToEndCredits(); }

  /// Updates the limit from an acknowledgement with an AETH. The limit only grows, since an older
  /// acknowledgement carries no news (9.7.7.2.5).
  void update(const wire::Headers& h) {
    if (h.syndrome == wire::kSyndromeNoCreditLimit) {
      limited_ = false;
      return;
    }
    const Psn permitted = Psn(h.msn) + decode_credits(h.syndrome);
    if (!limited_ || permitted.is_after(last_permitted_)) last_permitted_ = permitted;
    limited_ = true;
  }

  /// True if the peer has a receive work request for the request, or it needs none.
  bool permit(const RequestSlot& slot) const {
    return !limited_ || !draws_receive(slot.request.kind) ||
           !slot.sequence.is_after(last_permitted_);
  }

 private:
  bool limited_ = false;  ///< the peer reports its receives
  Psn last_permitted_;    ///< LSN: last SSN for which it has a receive
};

}  // namespace softhca::transport
