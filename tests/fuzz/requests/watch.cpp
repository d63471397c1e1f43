// SPDX-License-Identifier: Apache-2.0

#include "tests/fuzz/requests/watch.hpp"

#include <algorithm>
#include <iterator>
#include <span>

#include "abi/capture.hpp"

namespace softhca::fuzz {
namespace {

using engine::FaultKind;
using engine::FaultTerms;

constexpr std::size_t kCaptureBytes = 4096;
constexpr std::size_t kMostCaptures = 4;

/// True if the fault can hold back packets, or copies of them.
bool needs_room(FaultKind kind) {
  return kind == FaultKind::kDelay || kind == FaultKind::kReorder || kind == FaultKind::kDuplicate;
}

}  // namespace

// --- faults

void Watch::add_fault() {
  if (faults_.size() >= engine::Faults::kMost) return;
  Input& input = common_.input;
  FaultTerms terms;
  terms.kind = static_cast<FaultKind>(input.byte() % engine::kFaultKinds);
  const std::uint8_t target = input.byte();
  if ((target & 1) != 0)
    if (const engine::Tenant* const tenant = tenants_.any()) terms.tenant = tenant->id;
  if ((target & 2) != 0) terms.port = PortId(0);
  if ((target & 4) != 0)
    if (const Qp* const qp = common_.any_queue_pair()) terms.qpn = qp->engine.qpn;
  if (!terms.tenant && !terms.port && !terms.qpn) terms.port = PortId(0);
  terms.direction = static_cast<engine::FaultDirection>(target / 8 % 3);
  if (terms.kind == FaultKind::kRnr && terms.direction == engine::FaultDirection::kSent)
    terms.direction = engine::FaultDirection::kReceived;
  if ((target & 128) != 0)
    terms.every = 1 + input.byte() % 3;
  else
    terms.probability = (1 + input.byte() % 4) / 4.0;
  terms.count = input.byte() % 4;
  terms.seed = input.byte();
  if (terms.kind == FaultKind::kDelay || terms.kind == FaultKind::kReorder)
    terms.delay = std::chrono::microseconds(1 + input.byte() * 4);
  if (terms.kind == FaultKind::kDelay) terms.jitter = std::chrono::microseconds(input.byte());
  if (terms.kind == FaultKind::kReorder) terms.by = 1 + input.byte() % 4u;
  terms.until = common_.bench.now() + std::chrono::milliseconds(100 + input.byte());
  std::unique_ptr<engine::Faults::Room> room;
  if (needs_room(terms.kind) && !has_room_) {
    room = std::make_unique<engine::Faults::Room>(Bench::kMtu + port::kEthernetOverhead);
    has_room_ = true;
  }
  engine::Fault& fault = faults_.emplace_back(++last_fault_, terms);
  common_.bench.ask(engine::AddFault{fault, std::move(room)});
}

void Watch::remove_fault() {
  if (faults_.empty()) return;
  const auto fault = std::next(faults_.begin(),
                               common_.input.byte() % static_cast<std::ptrdiff_t>(faults_.size()));
  common_.bench.ask(engine::RemoveFault{*fault});
  faults_.erase(fault);
}

void Watch::take_room() {
  if (!has_room_ || !faults_.empty()) return;
  has_room_ = common_.bench.ask(engine::TakeFaultRoom{}) == nullptr;
}

// --- captures

void Watch::add_capture() {
  if (captures_.size() >= kMostCaptures) return;
  Input& input = common_.input;
  const std::uint8_t choice = input.byte();
  engine::CaptureOptions options{
      .tenant = {}, .port = std::nullopt, .snaplen = 1 + input.byte() * 8u, .time_of_day = {}};
  if ((choice & 1) != 0)
    if (const engine::Tenant* const tenant = tenants_.any()) options.tenant = tenant->name;
  if ((choice & 2) != 0) options.port = PortId(0);
  constexpr std::size_t kBytes = engine::CaptureRing::memory_for(kCaptureBytes);
  OpenCapture& open = captures_.emplace_back();
  open.memory = std::make_unique<engine::RingMemory>(kBytes);
  open.capture = std::make_unique<engine::Capture>(std::span(open.memory->base(), kBytes), options,
                                                   common_.bench.view.captures.sizes());
  common_.bench.ask(engine::AddCapture{*open.capture});
}

void Watch::remove_capture() {
  if (captures_.empty()) return;
  const auto capture = std::next(
      captures_.begin(), common_.input.byte() % static_cast<std::ptrdiff_t>(captures_.size()));
  common_.bench.ask(engine::RemoveCapture{*capture->capture});
  captures_.erase(capture);
}

void Watch::read_capture() {
  if (captures_.empty()) return;
  auto& header = *reinterpret_cast<abi::CaptureHeader*>(captures_.front().memory->base());
  const std::uint8_t choice = common_.input.byte();
  header.read.store(choice < 250 ? header.written.load() : common_.input.take<std::uint64_t>());
}

// --- what the operator is shown

void Watch::copy_events() {
  std::vector<engine::LoggedEvent> events;
  events.reserve(engine::EventLog::kKept);
  const std::uint64_t first = common_.input.flag() ? next_event_ : common_.input.byte();
  next_event_ = common_.bench.ask(engine::CopyEvents{first, events}).next;
  require(events.size() <= engine::EventLog::kKept, "the log keeps no more events");
}

void Watch::show_queue_pairs() {
  std::vector<const engine::QueuePair*> some;
  for (const Qp* qp : common_.queue_pairs)
    if (common_.input.byte() % 4 != 3) some.push_back(&qp->engine);
  std::vector<engine::QpShot> shots(some.size());
  common_.bench.ask(engine::CopyQps{some, shots});
}

void Watch::show_queue_pair() {
  if (const Qp* const qp = common_.any_queue_pair())
    (void)common_.bench.ask(engine::ShowQp{qp->engine.qpn});
}

void Watch::find_queue_pair() {
  (void)common_.bench.ask(
      engine::FindQp{Qpn(common_.names.queue_pairs.any(common_.input) & 0xffffff)});
}

void Watch::check_paths() {
  const engine::Tenant* const tenant = tenants_.any();
  if (tenant == nullptr) return;
  std::vector<engine::AddressPath> paths;
  for (int n = 1 + common_.input.byte() % 3; n > 0; --n)
    if (const auto path = tenants_.any_path(*tenant)) paths.push_back(*path);
  std::vector<engine::Reach> reaches(paths.size());
  common_.bench.ask(engine::CheckPaths{paths, reaches});
}

void Watch::end() {
  while (!faults_.empty()) remove_fault();
  while (!captures_.empty()) remove_capture();
  common_.bench.poll(2);
  take_room();
  require(!has_room_, "no packet is held back without a fault");
}

}  // namespace softhca::fuzz
