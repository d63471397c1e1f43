// SPDX-License-Identifier: Apache-2.0

// The built plugin, loaded by the packaged libibverbs, on a device the fake daemon serves.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstddef>
#include <string>

#include "tests/unit/libverbs-provider/fake_daemon.hpp"

namespace softhca::provider::test {

inline constexpr std::size_t kPage = 4096;

/// Made once for the process: the device's files and the daemon behind them.
class World {
 public:
  /// Null with `reason` set where the packaged library cannot be led to the device.
  static World* instance(std::string& reason);
  FakeDaemon& daemon() { return *daemon_; }
  ibv_context* open();
  const std::string& name() const { return name_; }
  ~World();

 private:
  World();
  std::string root_;
  std::string name_;
  std::unique_ptr<FakeDaemon> daemon_;
};

class DeviceTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  /// Called before the device is opened.
  virtual void prepare_daemon() {}

  ibv_cq* make_cq(int entries = 16, ibv_comp_channel* channel = nullptr);
  ibv_qp* make_qp(ibv_cq* cq, ibv_qp_type type = IBV_QPT_RC, ibv_srq* srq = nullptr);
  /// Straight to `state`: the fake daemon does not check transitions.
  static void move(ibv_qp* qp, ibv_qp_state state);

  FakeSession& session() { return daemon().session(); }
  FakeCq& fake(ibv_cq* cq) { return session().cqs.at(cq->handle); }
  FakeQp& fake(ibv_qp* qp) { return session().qps.at(qp->qp_num); }
  FakeSrq& fake(ibv_srq* srq) { return session().srqs.at(srq->handle); }
  FakeDaemon& daemon() { return world_->daemon(); }

  /// Writes the completion of a send (or, with `receive`, of a receive).
  void complete(ibv_cq* cq, ibv_qp* qp, std::uint32_t index, bool receive = false,
                ibv_wc_status status = IBV_WC_SUCCESS);

  World* world_ = nullptr;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
};

/// A chain of work requests that send nothing, with wr_ids from `first` upwards.
std::vector<ibv_send_wr> send_chain(std::size_t count, std::uint64_t first,
                                    unsigned flags = IBV_SEND_SIGNALED);

}  // namespace softhca::provider::test
