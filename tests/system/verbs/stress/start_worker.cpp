// SPDX-License-Identifier: Apache-2.0

// Threads of a program that begins: each makes, resizes and uses queues of one context, all at the
// same moment.
#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include "tests/system/verbs/stress/loop.hpp"
#include "tests/system/verbs/stress/memory.hpp"
#include "tests/system/verbs/stress/worker.hpp"

namespace softhca::stress {
namespace {

constexpr int kResizes = 3;
constexpr std::size_t kBytes = 64;

class StartWorker : public Worker {
 public:
  StartWorker(const Device& device, std::string name) : device_(device), name_(std::move(name)) {}

  /// Mostly of a program that has just opened the device: what is made first meets most.
  void round() override {
    if (random_.below(4) != 0) {
      const Device device(name_);
      return begin_all(device, random_.below(4) == 0);
    }
    begin_all(device_, true);
  }
  void recover() override {}

 private:
  void begin_all(const Device& device, bool to_use) {
    const Domain pd(made(ibv_alloc_pd(device.context.get()), "ibv_alloc_pd"));
    const unsigned count = random_.between(2, 12);
    std::barrier<> together(count);
    std::vector<std::thread> threads;
    const Place place = here();
    for (unsigned i = 0; i < count; ++i)
      threads.emplace_back([&, i, seed = random_.next()] {
        here() = {place.worker + "." + std::to_string(i), place.round};
        begin(device, pd.get(), Random(seed), to_use, together);
      });
    for (std::thread& thread : threads) thread.join();
  }

  /// A fault leaves the others to themselves.
  static void begin(const Device& device, ibv_pd* pd, Random random, bool to_use,
                    std::barrier<>& together) {
    try {
      if (to_use)
        use(device, pd, random, together);
      else
        make(device, pd, random, together);
    } catch (const Fault& fault) {
      complain(fault.what(), fault.detail());
      together.arrive_and_drop();
    }
  }

  static void make(const Device& device, ibv_pd* pd, Random& random, std::barrier<>& together) {
    together.arrive_and_wait();
    const Completions completions(device, static_cast<int>(random.between(1, 512)));
    ibv_srq_init_attr shared{};
    shared.attr = {random.between(1, 256), random.between(1, 4), 0};
    const SharedReceiveQueue srq(made(ibv_create_srq(pd, &shared), "ibv_create_srq"));
  }

  static void use(const Device& device, ibv_pd* pd, Random& random, std::barrier<>& together) {
    Slots slots(2, kBytes, kBytes);
    slots.enroll(pd);
    together.arrive_and_wait();
    Completions completions(device, static_cast<int>(random.between(1, 512)));
    Loop loop(device, pd, completions,
              {random.between(1, 256), random.between(1, 256), random.between(1, 8), 1, 64});
    for (int i = 0; i < kResizes; ++i) {
      together.arrive_and_wait();
      completions.resize(static_cast<int>(random.between(1, 4096)));
      const std::uint64_t number = random.next();
      write_pattern(slots.at(0), kBytes, number);
      loop.write(entry_of(slots.address(0), kBytes, slots.region()), slots.at(1),
                 slots.region()->rkey);
      if (const ibv_wc_status status = loop.finish(); status != IBV_WC_SUCCESS)
        throw Fault(std::string("a write after a resize: ") + ibv_wc_status_str(status));
      slots.check(1, "what was written after a resize", 0, kBytes, number);
    }
  }

  const Device& device_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<Worker> make_start_worker(const Device& device, const std::string& name) {
  return std::make_unique<StartWorker>(device, name);
}

}  // namespace softhca::stress
