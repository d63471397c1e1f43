#include "libverbs-provider/queues.hpp"

namespace softhca::provider {
namespace {

template <class Element>
void discard(Element& element, Qp& qp) {
  if (element.qpn != qp.qpn || element.is_receive == kDiscarded) return;
  if (element.is_receive != 0 && qp.srq != nullptr) return_slot(*qp.srq, element.index);
  element.is_receive = kDiscarded;
}

}  // namespace

void discard_completions(Cq& cq, Qp& qp) {
  Guard guard(cq.lock);
  for (std::uint32_t i = cq.backlog_next; i != cq.backlog_count; ++i) discard(cq.backlog[i], qp);
  for (std::uint32_t i = 0; i < cq.ring.entries; ++i) {
    abi::CompletionElement* element = cq.ring.peek(cq.ring.consumer + i);
    if (element == nullptr) break;
    discard(*element, qp);  // the element is the consumer's until `consumer` has passed it
  }
}

}  // namespace softhca::provider
