// SPDX-License-Identifier: Apache-2.0

// All requests of the control thread to an engine, in any order that their REQUIRES allow, beside
// programs that post, packets, and poll steps. Afterwards everything is taken down in order, and
// the pools have all that they had.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <vector>

#include "tests/fuzz/requests/services.hpp"
#include "tests/fuzz/requests/tenants.hpp"
#include "tests/fuzz/requests/watch.hpp"
#include "tests/fuzz/requests/wire.hpp"

namespace softhca::fuzz {
namespace {

class Run {
 public:
  explicit Run(Input& input) : input_(input) { tenants_.start(); }

  void run() {
    for (int i = 0; i < kMostSteps && !input_.done(); ++i) {
      const std::uint8_t choice = input_.byte();
      step(choice & 0x7f);
      if ((choice & 0x80) != 0) bench_.poll();
      wire_.drain();
      bench_.check();
    }
    end();
  }

 private:
  static constexpr int kMostSteps = 1000;
  static constexpr std::size_t kMostPrograms = 6;

  /// Runs operation `number` of a list. Returns false, and lowers it, if the list is shorter.
  template <class Owner, class Operation, std::size_t N>
  static bool run_one(std::size_t& number, const Operation (&list)[N], Owner* owner) {
    if (number >= N) {
      number -= N;
      return false;
    }
    const Operation operation = list[number];
    if (owner != nullptr) (owner->*operation)();
    return true;
  }

  Program* any_program() {
    if (programs_.empty()) return nullptr;
    return std::next(programs_.begin(),
                     input_.byte() % static_cast<std::ptrdiff_t>(programs_.size()))
        ->get();
  }

  void add_program() {
    const auto open = tenants_.open();
    if (open.empty() || programs_.size() >= kMostPrograms) return;
    engine::Tenant& tenant = *open[input_.byte() % open.size()];
    engine::Level* const level = tenants_.any_level(tenant);
    programs_.push_back(
        std::make_unique<Program>(common_, tenant, level, tenants_.domains_of(tenant)));
  }
  void end_program() {
    Program* const ending = any_program();
    if (ending == nullptr) return;
    ending->end(input_.below(3));
    std::erase_if(programs_, [&](const auto& program) { return program.get() == ending; });
  }
  void poll() { bench_.poll(1 + input_.below(8)); }
  void pass() {
    static constexpr Duration kTimes[] = {std::chrono::microseconds(10),
                                          std::chrono::milliseconds(1),
                                          std::chrono::milliseconds(40), std::chrono::seconds(2)};
    const std::uint8_t choice = input_.byte();
    bench_.pass(kTimes[choice % 4] * (1 + choice / 4 % 8));
  }
  void fill_sockets() { bench_.sink.full = input_.flag(); }

  std::vector<engine::VcbTarget> any_targets() {
    std::vector<engine::VcbTarget> targets;
    for (const auto& program : programs_) {
      const std::uint32_t count = input_.byte() % (Bench::kVcbs + 1);
      if (program->has_vcbs()) targets.push_back({&program->session(), count});
    }
    return targets;
  }
  void grant_vcbs() {
    auto targets = any_targets();
    for (engine::VcbTarget& target : targets)
      target.count = std::max(target.count, target.session->view.granted());
    bench_.ask(engine::GrantVcbs{targets});
  }
  void revoke_vcbs() {
    auto targets = any_targets();
    bench_.ask(engine::RevokeVcbs{targets});
  }

  // --- the operations

  using OfProgram = void (Program::*)();
  using OfTenants = void (Tenants::*)();
  using OfServices = void (Services::*)();
  using OfWatch = void (Watch::*)();
  using OfWire = void (Wire::*)();
  using OfRun = void (Run::*)();

  // The numbers of operations are those of their places here, list after list: seeds.py has them,
  // too.
  static constexpr OfRun kOfRun[] = {&Run::add_program, &Run::end_program,  &Run::poll,
                                     &Run::pass,        &Run::fill_sockets, &Run::grant_vcbs,
                                     &Run::revoke_vcbs};
  static constexpr OfProgram kOfProgram[] = {&Program::raise_port_event,
                                             &Program::park,
                                             &Program::unpark,
                                             &Program::make_cq,
                                             &Program::resize_cq,
                                             &Program::moderate_cq,
                                             &Program::remove_cq,
                                             &Program::poll_cq,
                                             &Program::make_srq,
                                             &Program::arm_srq,
                                             &Program::resize_srq,
                                             &Program::retire_srq,
                                             &Program::remove_srq,
                                             &Program::show_srq,
                                             &Program::make_qp,
                                             &Program::bring_up,
                                             &Program::modify_qp,
                                             &Program::query_qp,
                                             &Program::destroy_qp,
                                             &Program::open_target,
                                             &Program::join_group,
                                             &Program::leave_group,
                                             &Program::set_rates,
                                             &Program::set_receive_terms,
                                             &Program::register_mr,
                                             &Program::reregister_mr,
                                             &Program::deregister_mr,
                                             &Program::disturb_memory,
                                             &Program::make_mw,
                                             &Program::remove_mw,
                                             &Program::make_ah,
                                             &Program::remove_ah,
                                             &Program::post,
                                             &Program::ring,
                                             &Program::post_receive,
                                             &Program::scribble};
  static constexpr OfTenants kOfTenants[] = {&Tenants::change,         &Tenants::rename_level,
                                             &Tenants::adjust_lending, &Tenants::remove_tenant,
                                             &Tenants::remove_level,   &Tenants::release_whole,
                                             &Tenants::collect_closed, &Tenants::forget_addresses};
  static constexpr OfServices kOfServices[] = {&Services::open,          &Services::close,
                                               &Services::configure,     &Services::register_client,
                                               &Services::set_buffers,   &Services::vouch,
                                               &Services::remove_client, &Services::watch_traffic,
                                               &Services::view,          &Services::send,
                                               &Services::receive};
  static constexpr OfWatch kOfWatch[] = {
      &Watch::add_fault,       &Watch::remove_fault,     &Watch::take_room,
      &Watch::add_capture,     &Watch::remove_capture,   &Watch::read_capture,
      &Watch::copy_events,     &Watch::show_queue_pairs, &Watch::show_queue_pair,
      &Watch::find_queue_pair, &Watch::check_paths};
  static constexpr OfWire kOfWire[] = {&Wire::send_packet, &Wire::send_datagram, &Wire::send_raw,
                                       &Wire::fail_over, &Wire::serve_port};
  static constexpr std::size_t kOperations = std::size(kOfRun) + std::size(kOfProgram) +
                                             std::size(kOfTenants) + std::size(kOfServices) +
                                             std::size(kOfWatch) + std::size(kOfWire);
  static_assert(kOperations <= 0x80);

  void step(std::size_t number) {
    number %= kOperations;
    if (run_one(number, kOfRun, this)) return;
    if (number < std::size(kOfProgram)) {
      run_one(number, kOfProgram, any_program());
      return;
    }
    number -= std::size(kOfProgram);
    (void)(run_one(number, kOfTenants, &tenants_) || run_one(number, kOfServices, &services_) ||
           run_one(number, kOfWatch, &watch_) || run_one(number, kOfWire, &wire_));
  }

  void end() {
    const unsigned steps = input_.below(2);
    for (const auto& program : programs_) program->end(steps);
    programs_.clear();
    watch_.end();
    services_.end();
    tenants_.check_idle();
    tenants_.end();
    bench_.poll(2);
    bench_.check_idle();
    bench_.check_empty(services_.opened());
    bench_.ask(engine::EndRestoring{});
    bench_.ask(engine::RetireEngine{});
  }

  Input& input_;
  Bench bench_;
  Common common_{input_, bench_};
  Programs programs_;
  Tenants tenants_{common_, programs_};
  Services services_{common_, tenants_};
  Watch watch_{common_, tenants_};
  Wire wire_{common_};
};

/// When the process ends, and is asked to: requires that its inputs have made all requests.
struct AtTheEnd {
  ~AtTheEnd() {
    if (std::getenv("SOFTHCA_ALL_REQUESTS") != nullptr && tell_unasked() != 0) std::_Exit(1);
  }
};

}  // namespace
}  // namespace softhca::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const softhca::fuzz::AtTheEnd kAtTheEnd;
  softhca::fuzz::Input input(data, size);
  softhca::fuzz::Run(input).run();
  return 0;
}
