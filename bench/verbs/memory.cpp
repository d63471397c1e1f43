// SPDX-License-Identifier: Apache-2.0

#include "bench/verbs/memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <vector>

#include "bench/verbs/endpoint.hpp"
#include "bench/verbs/queue_pair.hpp"
#include "cli/admin_client.hpp"

namespace softhca::bench {
namespace {

using cli::AdminClient;
using cli::Json;

constexpr std::size_t kSessions = 32;
constexpr std::size_t kQueuePairs = 1024;
constexpr std::uint32_t kDepth = 128;  // sends, and receives, of a queue pair
constexpr int kEntries = 65536;        // of a completion queue
constexpr std::size_t kRegistered = std::size_t{256} << 20;
constexpr std::uint32_t kPiece = 1 << 20;  // bytes of a write

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) {
    errno = 0;
    die(std::string(name) + " is not set; run it by softhca-run");
  }
  return value;
}

class Daemon {
 public:
  Daemon()
      : client_(variable("SOFTHCA_RUNTIME_DIR") + "/admin.sock"),
        tenant_(variable("SOFTHCA_TENANT")),
        process_(client_.call("status").at("adapter_pid").get<int>()) {}

  /// Returns the bytes that are the daemon's alone: its anonymous memory, and the page tables of
  /// all that it has mapped.
  double own_bytes() const { return bytes_of({"RssAnon:", "VmPTE:"}); }
  /// Returns the bytes that it shares with programs and has touched.
  double shared_bytes() const { return bytes_of({"RssShmem:"}); }
  double resident_bytes() const { return bytes_of({"VmRSS:", "VmPTE:"}); }
  /// Returns the bytes of queues, which programs share with the daemon.
  double queue_bytes() {
    const Json tenant = client_.call("tenant.show", {{"name", tenant_}});
    return tenant.at("limits").at("queue_bytes").at("in_use").get<double>();
  }

 private:
  double bytes_of(const std::vector<std::string>& keys) const {
    std::ifstream status("/proc/" + std::to_string(process_) + "/status");
    double kilobytes = 0;
    std::size_t found = 0;
    for (std::string key; status >> key;) {
      double value = 0;
      if (std::find(keys.begin(), keys.end(), key) == keys.end() || !(status >> value)) continue;
      kilobytes += value;
      ++found;
    }
    errno = 0;
    if (found != keys.size()) die("the status of process " + std::to_string(process_));
    return kilobytes * 1024;
  }

  AdminClient client_;
  std::string tenant_;
  int process_;
};

/// Bytes that the objects of a step added, for each.
struct Growth {
  double own, queues;
};

template <typename Step>
Growth growth_of(Daemon& daemon, double count, Step step) {
  const Growth before{daemon.own_bytes(), daemon.queue_bytes()};
  step();
  return {(daemon.own_bytes() - before.own) / count,
          (daemon.queue_bytes() - before.queues) / count};
}

ibv_cq* create_cq(const Device& device, int entries) {
  ibv_cq* const cq = ibv_create_cq(device.context(), entries, nullptr, nullptr, 0);
  if (cq == nullptr) die("completion queue");
  return cq;
}

/// Creates a queue pair that is connected to itself.
ibv_qp* create_loop(const Device& device, ibv_cq* cq) {
  ibv_qp* const qp = create_rc(device, cq, kDepth, kDepth);
  connect_rc(qp, device, {qp->qp_num, 7, device.gid()}, 7, IBV_MTU_1024);
  return qp;
}

/// Registers memory, and has the daemon read and write all of it, so that the pages are mapped.
void register_and_use(const Device& device, const Buffer& memory, ibv_qp* qp, ibv_cq* cq) {
  ibv_mr* const region = ibv_reg_mr(device.pd(), memory.data(), memory.size(),
                                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (region == nullptr) die("memory region");
  const auto begin = reinterpret_cast<std::uint64_t>(memory.data());
  for (std::uint64_t from = begin; from < begin + memory.size(); from += 2 * kPiece) {
    ibv_sge sge{from, kPiece, region->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {from + kPiece, region->rkey};
    check(ibv_post_send(qp, &wr, &bad), "post_send");
    ibv_wc completion{};
    while (ibv_poll_cq(cq, 1, &completion) == 0) {
    }
    errno = 0;
    if (completion.status != IBV_WC_SUCCESS) die(ibv_wc_status_str(completion.status));
  }
}

}  // namespace

int measure_daemon() {
  const Daemon daemon;
  const Json line = {{"measure", "daemon"},
                     {"resident_bytes", daemon.resident_bytes()},
                     {"own_bytes", daemon.own_bytes()}};
  std::printf("%s\n", line.dump().c_str());
  return 0;
}

int measure_memory(const std::string& name, int gid_index) {
  Daemon daemon;
  const Device device(name, gid_index);
  ibv_cq* const cq = create_cq(device, 16);
  ibv_qp* const first = create_loop(device, cq);
  // What the daemon allocates once, with the first use, belongs to no object.
  const Buffer small(2 * kPiece);
  register_and_use(device, small, first, cq);

  std::vector<std::unique_ptr<Device>> sessions;
  const double shared = daemon.shared_bytes();
  const Growth session = growth_of(daemon, kSessions, [&] {
    for (std::size_t i = 0; i < kSessions; ++i)
      sessions.push_back(std::make_unique<Device>(name, gid_index));
  });
  const double session_shared = (daemon.shared_bytes() - shared) / kSessions;
  const Growth queue_pair = growth_of(daemon, kQueuePairs, [&] {
    for (std::size_t i = 0; i < kQueuePairs; ++i) create_loop(device, cq);
  });
  const Growth entry = growth_of(daemon, kEntries, [&] { create_cq(device, kEntries); });
  const Buffer memory(kRegistered);
  const double gigabytes = static_cast<double>(kRegistered) / (1 << 30);
  const Growth registered =
      growth_of(daemon, gigabytes, [&] { register_and_use(device, memory, first, cq); });
  const Json line = {{"measure", "memory"},
                     {"session_bytes", session.own + session_shared},
                     {"queue_pair_bytes", queue_pair.own},
                     {"queue_pair_queue_bytes", queue_pair.queues},
                     {"queue_pair_depth", kDepth},
                     {"completion_entry_queue_bytes", entry.queues},
                     {"registered_gib_bytes", registered.own}};
  std::printf("%s\n", line.dump().c_str());
  return 0;
}

}  // namespace softhca::bench
