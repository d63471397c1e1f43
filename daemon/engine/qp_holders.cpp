// The processes that hold an XRC target open.
#include <algorithm>

#include "daemon/engine/qp_lifecycle.hpp"

namespace softhca::engine {

void QpLifecycle::share(QueuePair& qp, const QpHolder& holder) {
  qp.other_holders.push_back(holder);
}

void QpLifecycle::unshare(QueuePair& qp, const QpHolder& holder) {
  parts_.events.forget(*holder.session, holder.user_handle);
  if (holder == QpHolder{qp.session, qp.user_handle}) {
    const QpHolder heir = qp.other_holders.front();
    qp.other_holders.erase(qp.other_holders.begin());
    queue_pairs_.hand_over(qp, *heir.session);
    qp.user_handle = heir.user_handle;
    parts_.cpu.remove(qp);
    levels_.leave(qp);
    levels_.join(qp);  // of the heir's level: the former one may be gone next
    parts_.cpu.make_ready(qp);
    return;
  }
  const auto found = std::find(qp.other_holders.begin(), qp.other_holders.end(), holder);
  if (found != qp.other_holders.end()) qp.other_holders.erase(found);
}

}  // namespace softhca::engine
