// SPDX-License-Identifier: Apache-2.0

// What the control thread of an adapter of an earlier release has left (tests/state): sockets,
// connections, objects of rdma_cm, settings and events. This adapter takes it up. With
// SOFTHCA_WRITE_STATE, the test writes the state of this release into that file, for tests of later
// ones.
#include <fcntl.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "daemon/operate/admin/diagnoses.hpp"
#include "tests/golden_state.hpp"
#include "tests/unit/frontend/unix/server/server_restart.hpp"

namespace softhca::control {
namespace {

/// The state has paths of sockets, so the working directory is the test's folder.
class GoldenServing : public Restart {
 protected:
  GoldenServing() : Restart("run") { std::filesystem::current_path(folder.path()); }
  ~GoldenServing() override {
    now.reset();
    std::filesystem::current_path(before_);
  }

  KeptId last_kept() {
    KeptId last = 0;
    now->on_thread([&] { last = keeper.all().rbegin()->first; });
    return last;
  }
  /// Returns a connection for which the keeper holds a socket, and then perhaps other descriptors.
  /// `values` gets the number of the first as `name`, and that of the last as name.last.
  template <class Body>
  UniqueFd open(const std::string& name, abi::Operation operation, const Body& body) {
    const KeptId last = last_kept();
    UniqueFd program = connected("a/socket");
    replies_.push_back(ask(program, operation, body));
    EXPECT_EQ(replies_.back().header.error, 0);
    values[name + ".last"] = last_kept();
    values[name] = keeper.all().upper_bound(last)->first;
    return program;
  }

  std::map<std::string, std::uint64_t> values;

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
  std::vector<ReplyRecord> replies_;  ///< with the descriptors that the programs got
};

class GoldenServingOf : public GoldenServing, public ::testing::WithParamInterface<const char*> {
 protected:
  /// Returns what a program has of a kept socket.
  static UniqueFd end_of(GoldenState& state, const std::string& name) {
    UniqueFd end = state.take_other_end(state.value(name));
    ::fcntl(end.get(), F_SETFL, 0);
    limit_waits(end);
    return end;
  }
};

TEST_F(GoldenServing, OfThisRelease_IsWritten) {
  const char* const to = std::getenv("SOFTHCA_WRITE_STATE");
  if (to == nullptr) GTEST_SKIP() << "nothing is to be written";
  start();
  const configuration::AllocationChange change{
      .tenant = "b", .setting = configuration::LiveSetting::kPcbs, .amount = 77};
  records::Record running;
  now->on_thread([&] {
    ASSERT_TRUE(now->reloader().change({&change, 1}));
    now->adapter().journal.add({.kind = "reload", .text = "golden"});
    running = record_diagnosis(now->adapter(), "capture_ended", "the capture of all");
  });
  const abi::HelloRequest hello{abi::kSessionMagic, {abi::kAbiVersion, 0}};
  const UniqueFd program = open("program", abi::Operation::kHello, hello);
  const UniqueFd channel = open("channel", abi::Operation::kOpenEventChannel, channel_hello());
  std::uint32_t ids[2];
  ASSERT_NO_FATAL_FAILURE(listen_and_resolve(channel, ids));
  values["listens"] = ids[0];
  values["resolved"] = ids[1];
  const UniqueFd client = open("client", abi::Operation::kOpenDatagramClient, kDatagramClient);
  retire();
  GoldenState::write(to, keeper, values);
  [[maybe_unused]] static auto* const left = new records::Record(std::move(running));
}

TEST_P(GoldenServingOf, AnEarlierRelease_IsTakenUp) {
  GoldenState state(std::string(std::getenv("SOFTHCA_SOURCE_ROOT")) + "/tests/state/" + GetParam(),
                    keeper);
  const auto all = GoldenState::kinds(keeper);
  for (const records::Kind kind :
       {records::Kind::kSettings, records::Kind::kListener, records::Kind::kConnection,
        records::Kind::kEventChannel, records::Kind::kConnectionManager,
        records::Kind::kDatagramClient, records::Kind::kJournalEntry, records::Kind::kDiagnosis})
    EXPECT_TRUE(all.contains(kind)) << name_of(kind);
  start();

  const UniqueFd program = end_of(state, "program");
  EXPECT_EQ(ask(program, abi::Operation::kAllocPd, abi::HandleBody{}).header.error, 0);
  const UniqueFd channel = end_of(state, "channel"), signal = end_of(state, "channel.last");
  char byte;
  EXPECT_EQ(::recv(signal.get(), &byte, 1, MSG_DONTWAIT), 1) << "an event waits";
  const auto event = body_of<rdma_ucm_event_resp>(
      rdma_cm(channel, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}));
  EXPECT_EQ(event.event, 0u) << "RDMA_CM_EVENT_ADDR_RESOLVED";
  EXPECT_EQ(event.id, state.number("resolved"));
  EXPECT_EQ(listen(channel, state.number("listens")), EINVAL) << "it listens already";
  EXPECT_EQ(bind(channel, create_id(channel)), EADDRINUSE);
  const UniqueFd client = end_of(state, "client");
  EXPECT_EQ(ask(client, abi::Operation::kSetDatagramBuffers, abi::HandleBody{3, 0}).header.error,
            0);
  const UniqueFd other = connected("a/socket");
  EXPECT_EQ(ask(other, abi::Operation::kOpenDatagramClient, kDatagramClient).header.error,
            EADDRINUSE);
  EXPECT_TRUE(connected("a/fast.socket"));
  now->on_thread([&] {
    EXPECT_EQ(in_force(*now, "b")->pcbs, 77u);
    std::string texts;
    for (const JournalEntry& entry : now->adapter().journal.after(0, 100).entries)
      texts += entry.text + '\n';
    EXPECT_NE(texts.find("golden\n"), std::string::npos);
    EXPECT_NE(texts.find("the capture of all ended"), std::string::npos);
  });
}

INSTANTIATE_TEST_SUITE_P(Releases, GoldenServingOf, ::testing::Values("serving-1"));

}  // namespace
}  // namespace softhca::control
