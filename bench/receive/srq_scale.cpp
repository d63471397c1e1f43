// SPDX-License-Identifier: Apache-2.0

// Many reliable connections on one shared receive queue. Each is connected to itself, so that one
// process is enough. Measures the cost of a queue pair for the daemon, and the others' service
// while one queue pair sends without end and its buffers are never posted again.
//
// usage: softhca-srq-scale DEVICE GID-INDEX QUEUE-PAIRS BUFFERS PID-OF-DAEMON
//
// Exit code 1 if a message of the others is lost, arrives twice or fails.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/verbs/endpoint.hpp"
#include "bench/verbs/queue_pair.hpp"

namespace softhca::bench {
namespace {

constexpr std::uint32_t kBytes = 64;  ///< of a buffer
constexpr std::uint32_t kRounds = 2;
constexpr std::uint32_t kUnderWay = 64;  ///< messages of the others in flight
/// A message that has not arrived after this time counts as lost.
constexpr std::chrono::seconds kPatience{20};
/// The runaway has all buffers that it gets if none of its messages has arrived for this time.
constexpr std::chrono::milliseconds kSettled{500};

/// Returns the resident memory of a process in KiB, including shared memory.
std::size_t resident(const std::string& pid) {
  std::ifstream status("/proc/" + pid + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::strtoull(line.c_str() + 6, nullptr, 10);
  die("no VmRSS of process " + pid);
}

/// Content of a message, checked on arrival.
struct Message {
  std::uint32_t sender;  ///< index of a queue pair
  std::uint32_t round;
};

class Bench {
 public:
  Bench(const Device& device, std::uint32_t buffers)
      : device_(device),
        buffers_(buffers),
        memory_((std::size_t{buffers} + kUnderWay + 1) * kBytes) {
    send_cq_ = ibv_create_cq(device.context(), static_cast<int>(2 * buffers + kUnderWay), nullptr,
                             nullptr, 0);
    receive_cq_ =
        ibv_create_cq(device.context(), static_cast<int>(2 * buffers), nullptr, nullptr, 0);
    if (!send_cq_ || !receive_cq_) die("completion queue");
    ibv_srq_init_attr attr{};
    attr.attr = {buffers, 1, 0};
    if (!(srq_ = ibv_create_srq(device.pd(), &attr))) die("shared receive queue");
    mr_ = ibv_reg_mr(device.pd(), memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
    if (!mr_) die("memory region");
    for (std::uint32_t i = 0; i < buffers; ++i) post_receive(i);
  }

  /// Makes the queue pairs; the first one is the runaway.
  void make(std::size_t queue_pairs) {
    for (std::uint32_t i = 0; i < queue_pairs; ++i) {
      ibv_qp* qp =
          create_rc(device_, {send_cq_, receive_cq_, i == 0 ? runaway_depth() : 1, 0, srq_});
      connect_rc(qp, device_, {qp->qp_num, 1, device_.gid()}, 1, IBV_MTU_1024, 1);
      index_.emplace(qp->qp_num, i);
      qps_.push_back(qp);
    }
  }

  /// Returns the messages of the runaway, which are more than there are buffers.
  std::uint32_t runaway_depth() const { return buffers_ + buffers_ / 2; }
  /// Sends until the runaway has all buffers that it gets.
  void run_away();

  /// Sends one message of each of the others, some of them in flight at once. False: they no longer
  /// arrive.
  bool round(std::uint32_t number);

  std::uint64_t of_runaway() const { return of_runaway_; }
  std::uint64_t of_others() const { return of_others_; }
  std::uint64_t failed() const { return failed_; }
  std::uint64_t wrong() const { return wrong_; }

 private:
  using Clock = std::chrono::steady_clock;

  char* slot(std::uint64_t index) { return memory_.data() + index * kBytes; }

  void post_receive(std::uint64_t index) {
    ibv_sge sge{reinterpret_cast<std::uint64_t>(slot(index)), kBytes, mr_->lkey};
    ibv_recv_wr wr{.wr_id = index, .next = nullptr, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    check(ibv_post_srq_recv(srq_, &wr, &bad), "post_srq_recv");
  }

  void send(std::uint32_t from, std::uint32_t round, std::uint64_t index) {
    const Message message{from, round};
    std::memcpy(slot(index), &message, sizeof message);
    ibv_sge sge{reinterpret_cast<std::uint64_t>(slot(index)), sizeof message, mr_->lkey};
    ibv_send_wr wr{};
    wr.wr_id = index;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    check(ibv_post_send(qps_[from], &wr, &bad), "post_send");
  }

  void poll(std::uint32_t round);
  void arrived(const ibv_wc& wc, std::uint32_t round);

  const Device& device_;
  std::uint32_t buffers_;
  Buffer memory_;  ///< receive buffers, then send buffers of the others, then that of the runaway
  ibv_cq* send_cq_;
  ibv_cq* receive_cq_;
  ibv_srq* srq_;
  ibv_mr* mr_;
  std::vector<ibv_qp*> qps_;
  std::unordered_map<std::uint32_t, std::uint32_t> index_;  ///< by queue pair number
  std::vector<std::uint64_t> free_;                         ///< free send slots of the others
  std::vector<bool> has_come_;                              ///< in this round, by queue pair
  std::uint64_t of_runaway_ = 0, of_others_ = 0, failed_ = 0, wrong_ = 0;
};

/// Reposts the buffers of the others at once, and those of the runaway never.
void Bench::arrived(const ibv_wc& wc, std::uint32_t round) {
  if (wc.status != IBV_WC_SUCCESS) {
    ++failed_;
    return;
  }
  const auto found = index_.find(wc.qp_num);
  if (found == index_.end()) {
    ++wrong_;
    return;
  }
  if (found->second == 0) {
    ++of_runaway_;
    return;
  }
  Message message;
  std::memcpy(&message, slot(wc.wr_id), sizeof message);
  const bool right = wc.byte_len == sizeof message && message.sender == found->second &&
                     message.round == round && !has_come_[found->second];
  wrong_ += right ? 0 : 1;
  has_come_[found->second] = true;
  ++of_others_;
  post_receive(wc.wr_id);
}

void Bench::poll(std::uint32_t round) {
  ibv_wc wc[32];
  for (int n = ibv_poll_cq(receive_cq_, 32, wc), i = 0; i < n; ++i) arrived(wc[i], round);
  for (int n = ibv_poll_cq(send_cq_, 32, wc), i = 0; i < n; ++i) {
    failed_ += wc[i].status == IBV_WC_SUCCESS ? 0 : 1;
    if (wc[i].wr_id < buffers_ + kUnderWay) free_.push_back(wc[i].wr_id);
  }
}

void Bench::run_away() {
  for (std::uint32_t i = 0; i < runaway_depth(); ++i) send(0, 0, buffers_ + kUnderWay);
  std::uint64_t last = 0;
  for (auto progress = Clock::now(); Clock::now() - progress < kSettled;) {
    poll(0);
    if (of_runaway_ == last) continue;
    last = of_runaway_;
    progress = Clock::now();
  }
}

bool Bench::round(std::uint32_t number) {
  const std::uint64_t wanted = of_others_ + qps_.size() - 1;
  has_come_.assign(qps_.size(), false);
  if (number == 1)
    for (std::uint32_t i = 0; i < kUnderWay; ++i) free_.push_back(buffers_ + i);
  std::uint32_t next = 1;
  std::uint64_t last = of_others_;
  auto progress = Clock::now();
  // Waits for the sends to complete, too: each queue pair has room for one.
  while (of_others_ < wanted || free_.size() < kUnderWay) {
    while (next < qps_.size() && !free_.empty()) {
      send(next++, number, free_.back());
      free_.pop_back();
    }
    poll(number);
    if (of_others_ != last) {
      last = of_others_;
      progress = Clock::now();
    }
    if (Clock::now() - progress > kPatience) return false;
  }
  return true;
}

int run(const std::string& name, int gid_index, std::size_t count, std::uint32_t buffers,
        const std::string& daemon) {
  const Device device(name, gid_index);
  Bench bench(device, buffers);
  const std::size_t before = resident(daemon);
  const std::size_t own_before = resident("self");
  bench.make(count);
  const auto of_each = [&](std::size_t now, std::size_t then) {
    return now < then ? 0 : (now - then) * 1024 / count;
  };
  std::printf("%zu queue pairs on one shared receive queue of %u buffers\n", count, buffers);
  std::printf("daemon: %zu bytes a queue pair (rings included)\n",
              of_each(resident(daemon), before));
  std::printf("program: %zu bytes a queue pair\n", of_each(resident("self"), own_before));

  bench.run_away();
  bool all = true;
  for (std::uint32_t i = 1; i <= kRounds && all; ++i) all = bench.round(i);
  std::printf("daemon, after traffic: %zu bytes a queue pair\n", of_each(resident(daemon), before));
  std::printf("runaway: %llu of %u messages\n", static_cast<unsigned long long>(bench.of_runaway()),
              bench.runaway_depth());
  std::printf("others: %llu of %zu messages, %llu wrong; failed: %llu\n",
              static_cast<unsigned long long>(bench.of_others()), kRounds * (count - 1),
              static_cast<unsigned long long>(bench.wrong()),
              static_cast<unsigned long long>(bench.failed()));
  std::fflush(stdout);
  return all && bench.failed() == 0 && bench.wrong() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace softhca::bench

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: softhca-srq-scale DEVICE GID-INDEX QUEUE-PAIRS BUFFERS PID\n");
    return 2;
  }
  const int code =
      softhca::bench::run(argv[1], std::atoi(argv[2]), std::strtoul(argv[3], nullptr, 10),
                          static_cast<std::uint32_t>(std::strtoul(argv[4], nullptr, 10)), argv[5]);
  // Leaves its objects to the daemon, because the clean-up is part of the test.
  std::_Exit(code);
}
