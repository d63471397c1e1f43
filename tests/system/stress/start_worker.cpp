// Threads of a program that begins: each makes, resizes and uses queues of one context, all at the
// same moment.
#include <barrier>
#include <thread>
#include <vector>

#include "tests/system/stress/memory.hpp"
#include "tests/system/stress/worker.hpp"

namespace softhca::stress {
namespace {

constexpr int kResizes = 3;

class StartWorker : public Worker {
 public:
  StartWorker(const Device& device, std::string name) : device_(device), name_(std::move(name)) {}

  void round() override {
    const auto own = random_.below(2) == 0 ? std::make_unique<Device>(name_) : nullptr;
    const Device& device = own ? *own : device_;
    const Domain pd(made(ibv_alloc_pd(device.context.get()), "ibv_alloc_pd"));
    const unsigned count = random_.between(2, 12);
    std::barrier<> together(count);
    std::vector<std::thread> threads;
    const Place place = here();
    for (unsigned i = 0; i < count; ++i)
      threads.emplace_back([&, i, seed = random_.next()] {
        here() = {place.worker + "." + std::to_string(i), place.round};
        begin(device, pd.get(), Random(seed), together);
      });
    for (std::thread& thread : threads) thread.join();
  }
  void recover() override {}

 private:
  /// A fault leaves the others to themselves.
  static void begin(const Device& device, ibv_pd* pd, Random random, std::barrier<>& together) {
    try {
      use(device, pd, random, together);
    } catch (const Fault& fault) {
      complain(fault.what(), fault.detail());
      together.arrive_and_drop();
    }
  }

  static void use(const Device& device, ibv_pd* pd, Random& random, std::barrier<>& together) {
    Slots slots(2, 64, 64);
    slots.enroll(pd);
    together.arrive_and_wait();
    Completions completions(device, static_cast<int>(random.between(1, 512)));
    ibv_srq_init_attr shared{};
    shared.attr = {random.between(1, 256), random.between(1, 4), 0};
    const SharedReceiveQueue srq(made(ibv_create_srq(pd, &shared), "ibv_create_srq"));
    ibv_qp_init_attr init{};
    init.qp_type = IBV_QPT_RC;
    init.send_cq = init.recv_cq = completions.cq();
    init.cap = {random.between(1, 256), random.between(1, 256), random.between(1, 8), 1, 64};
    const QueuePair qp(made(ibv_create_qp(pd, &init), "ibv_create_qp"));
    Inbox sent, received;
    completions.admit(qp->qp_num, &sent, &received);
    bring_up(qp.get(), {device.gid, qp->qp_num, 1}, 1, IBV_MTU_1024, 1);
    for (int i = 0; i < kResizes; ++i) {
      together.arrive_and_wait();
      completions.resize(static_cast<int>(random.between(1, 4096)));
      write(qp.get(), slots, random.next() >> 1);
      await(completions, sent);
    }
  }

  static void write(ibv_qp* qp, Slots& slots, std::uint64_t number) {
    write_pattern(slots.at(0), 8, number);
    ibv_sge from{slots.address(0), 8, slots.region()->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = number;
    wr.sg_list = &from;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {slots.address(1), slots.region()->rkey};
    must(ibv_post_send(qp, &wr, &bad), "ibv_post_send");
  }

  static void await(Completions& completions, Inbox& sent) {
    for (const auto end = Clock::now() + kPatience; !completions.take(sent); completions.poll()) {
      if (Clock::now() > end) throw Fault("no completion after a resize");
      pause();
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
