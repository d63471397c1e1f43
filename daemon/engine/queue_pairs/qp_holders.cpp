// SPDX-License-Identifier: Apache-2.0

// The processes that have an XRC target open.
#include "daemon/engine/queue_pairs/qp_lifecycle.hpp"
#include "daemon/engine/records/costs.hpp"

namespace softhca::engine {

void QpLifecycle::share(QueuePair& qp, const QpHolder& holder) {
  AsyncEvents::add_holder(qp, holder);
}

void QpLifecycle::unshare(QueuePair& qp, const QpHolder& holder) {
  parts_.cpu.charge(qp, kRemoveCost);
  parts_.events.forget(*holder.session, holder.user_handle);
  if (holder != QpHolder{qp.session, qp.user_handle})
    return parts_.events.remove_holder(*qp.holders, holder);
  const QpHolder heir = parts_.events.take_heir(*qp.holders);
  queue_pairs_.hand_over(qp, *heir.session);
  qp.user_handle = heir.user_handle;
  parts_.cpu.remove(qp);
  levels_.leave(qp);
  levels_.join(qp);  // joins the heir's level: the former level may be removed next
  parts_.cpu.make_ready(qp);
}

}  // namespace softhca::engine
