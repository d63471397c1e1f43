// End-to-end flow control: how many messages the peer has receive work requests for (InfiniBand
// specification, volume 1, 9.7.7.2).
#pragma once

#include "daemon/base/types.hpp"
#include "daemon/transport/codes.hpp"
#include "daemon/transport/segment.hpp"
#include "daemon/transport/send_queue.hpp"
#include "daemon/wire/headers.hpp"

namespace softhca::transport {

class EndToEndCredits {
 public:
  /// The peer has said nothing: there is no limit.
  void reset() { *this = EndToEndCredits(); }

  /// `h` has an AETH of an acknowledgement. The limit only grows: an older acknowledgement says
  /// nothing new (9.7.7.2.5).
  void update(const wire::Headers& h) {
    if (h.syndrome == wire::kSyndromeNoCreditLimit) {
      limited_ = false;
      return;
    }
    const Psn permitted = Psn(h.msn) + decode_credits(h.syndrome);
    if (!limited_ || permitted.is_after(last_permitted_)) last_permitted_ = permitted;
    limited_ = true;
  }

  /// The peer has a receive work request for it, or it needs none.
  bool permit(const RequestSlot& slot) const {
    return !limited_ || !draws_receive(slot.request.kind) ||
           !slot.sequence.is_after(last_permitted_);
  }

 private:
  bool limited_ = false;  ///< the peer counts its receives
  Psn last_permitted_;    ///< LSN: SSN up to which it has receives
};

}  // namespace softhca::transport
