// SPDX-License-Identifier: Apache-2.0

// Every state of a connection met by every message and every call, as text that is compared with an
// approved file. A change of behaviour shows as a difference there.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>

#include "tests/unit/roce/cm/world.hpp"

namespace softhca::management::cm {
namespace {

struct Action {
  const char* name;
  std::function<std::string(World&, CommId)> run;
};

std::string text_of(Result result) {
  constexpr const char* kNames[] = {"", "unknown; ", "wrong state; ", "too long; ", "no place; "};
  return kNames[static_cast<unsigned>(result)];
}

template <class Call>
Action call(const char* name, Call&& run) {
  return {name, [run](World& w, CommId id) { return text_of(run(w, id)); }};
}

template <class Make>
Action message(const char* name, Make&& make) {
  return {name, [make](World& w, CommId id) {
            w.receive(make(w, id));
            return std::string();
          }};
}

template <class Message>
Message from_peer(CommId id) {
  Message m;
  m.local_comm_id = kPeerId;
  m.remote_comm_id = id.value;
  return m;
}

const std::vector<Action>& actions() {
  static const std::vector<Action> all{
      message("REQ", [](World& w, CommId) { return w.peer_req(); }),
      message("REQ of the same queue pair",
              [](World& w, CommId) {
                auto m = w.peer_req();
                m.local_comm_id = kPeerId + 1;
                return m;
              }),
      message("MRA about REQ",
              [](World&, CommId id) {
                auto m = from_peer<wire::CmMra>(id);
                m.message = wire::CmMessage::kReq;
                m.service_timeout = 24;
                return m;
              }),
      message("MRA about REP",
              [](World&, CommId id) {
                auto m = from_peer<wire::CmMra>(id);
                m.message = wire::CmMessage::kRep;
                m.service_timeout = 24;
                return m;
              }),
      message("REJ",
              [](World&, CommId id) {
                auto m = from_peer<wire::CmRej>(id);
                m.reason = wire::CmRejectReason::kConsumer;
                return m;
              }),
      message("REJ of a peer that got no answer",
              [](World&, CommId) {
                wire::CmRej m{.local_comm_id = kPeerId,
                              .message = wire::CmMessage::kOther,
                              .info_length = 8,
                              .reason = wire::CmRejectReason::kTimeout};
                std::fill_n(m.info.begin(), 8, std::byte{0x22});
                return m;
              }),
      message("REP", [](World& w, CommId id) { return w.peer_rep(id); }),
      message("RTU", [](World&, CommId id) { return from_peer<wire::CmRtu>(id); }),
      message("DREQ",
              [](World&, CommId id) {
                auto m = from_peer<wire::CmDreq>(id);
                m.remote_qpn = kOurQpn;
                return m;
              }),
      message("DREP", [](World&, CommId id) { return from_peer<wire::CmDrep>(id); }),
      message("LAP", [](World&, CommId id) { return from_peer<wire::CmLap>(id); }),
      message("APR", [](World&, CommId id) { return from_peer<wire::CmApr>(id); }),
      message("SIDR_REQ",
              [](World&, CommId) {
                return wire::CmSidrReq{.request_id = kPeerId, .service_id = kService};
              }),
      message("SIDR_REP",
              [](World&, CommId id) {
                return wire::CmSidrRep{.request_id = id.value, .service_id = kService};
              }),
      call("accept", [](World& w, CommId id) { return w.manager.accept(id, {}, w.now); }),
      call("confirm", [](World& w, CommId id) { return w.manager.confirm(id, w.now); }),
      call("reject", [](World& w, CommId id) { return w.manager.reject(id, {}, w.now); }),
      call("disconnect", [](World& w, CommId id) { return w.manager.disconnect(id, w.now); }),
      call("destroy", [](World& w, CommId id) { return w.manager.destroy(id, w.now); }),
      call("send_mra", [](World& w, CommId id) { return w.manager.send_mra(id, 24, w.now); }),
      call("notify_established",
           [](World& w, CommId id) { return w.manager.notify_established(id, w.now); }),
      call("sidr_reply", [](World& w, CommId id) { return w.manager.sidr_reply(id, {}, w.now); }),
      {"timer",
       [](World& w, CommId) {
         w.wait();
         return std::string();
       }},
      {"all timers",
       [](World& w, CommId id) {
         const auto before = w.manager.state(id);
         for (int i = 0; i < 20 && w.manager.state(id) == before; ++i) w.wait();
         return std::string();
       }},
  };
  return all;
}

std::string outcome(State state, bool active, const Action& action) {
  World w;
  const CommId id = w.enter(state, active);
  const std::size_t asked = w.requests.size() + w.sidr_requests.size();
  std::string text = action.run(w, id);
  const auto add = [&text](const char* what, const std::string& list) {
    if (!list.empty()) text += std::string(what) + list + "; ";
  };
  if (w.requests.size() + w.sidr_requests.size() > asked) text += "asks the user; ";
  add("sends ", w.take_sent());
  add("tells ", w.take_events());
  const auto after = w.manager.state(id);
  if (after != state) text += std::string("-> ") + (after ? name_of(*after) : "over") + "; ";
  const auto view = w.manager.view(id);
  if (view && !view->has_user && state != State::kSidrRepSent) text += "without a user; ";
  if (text.empty()) return "-";
  return text.substr(0, text.size() - 2);
}

/// One line for each action.
std::string table_of(State state, bool active) {
  std::string text;
  for (const Action& action : actions())
    text += std::string(name_of(state)) + (active ? " (active) " : " ") + action.name + ": " +
            outcome(state, active, action) + "\n";
  return text;
}

TEST(States, AllMessagesAndCalls) {
  std::string text;
  for (unsigned s = 0; s < static_cast<unsigned>(State::kCount); ++s) {
    text += table_of(State(s), false);
    if (State(s) >= State::kEstablished && State(s) <= State::kTimeWait)
      text += table_of(State(s), true);
  }
  const char* root = std::getenv("SOFTHCA_SOURCE_ROOT");
  const std::string path =
      std::string(root == nullptr ? "." : root) + "/tests/unit/roce/cm/states.approved";
  std::ifstream file(path);
  std::stringstream approved;
  approved << file.rdbuf();
  EXPECT_TRUE(text == approved.str()) << "states.received differs from " << path;
  if (text != approved.str()) std::ofstream("states.received") << text;
}

}  // namespace
}  // namespace softhca::management::cm
