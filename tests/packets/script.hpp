// SPDX-License-Identifier: Apache-2.0

// Runs a packet script (README.md of this folder) against a whole engine in virtual time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/packets/peer.hpp"
#include "tests/unit/engine/fixture/process.hpp"

namespace softhca::packets {

class Script {
 public:
  /// Reports failures to gtest, each with the line it belongs to.
  static void run(const std::string& path);

 private:
  using Command = void (Script::*)(Arguments&);

  Script() = default;
  void line(const std::vector<std::string>& words);
  void finish();

  // setup.cpp
  void make_world(Arguments& a);
  void make_queue_pair(Arguments& a);
  void make_srq(Arguments& a);
  void congestion(Arguments& a);
  // commands.cpp
  void hear(const std::vector<std::string>& words);
  void say(const std::vector<std::string>& words);
  void post(Arguments& a);
  void receive(Arguments& a);
  void wait(Arguments& a);
  void set(Arguments& a);
  void holds(Arguments& a);
  void completes(Arguments& a);
  void counted(Arguments& a);
  void state(Arguments& a);
  void event(Arguments& a);
  void attach(Arguments& a);
  void detach(Arguments& a);
  void deregister(Arguments& a);
  void step();

  std::vector<std::string> last_words_;
  engine::World world_;
  std::unique_ptr<engine::Process> process_;
  std::unique_ptr<Peer> peer_;
  engine::TestCq* cq_ = nullptr;
  engine::TestQp* qp_ = nullptr;
  std::vector<engine::TestSrq*> srqs_;  ///< of XRC; the first has the number 1
  engine::Buffer* memory_ = nullptr;
  Gid peer_gid_;
};

}  // namespace softhca::packets
