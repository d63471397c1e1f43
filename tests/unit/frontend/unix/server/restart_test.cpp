// SPDX-License-Identifier: Apache-2.0

// The control thread of an adapter that retires, and that of the adapter that follows.
#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "daemon/operate/admin/diagnoses.hpp"
#include "tests/unit/frontend/unix/server/server_restart.hpp"

namespace softhca::control {
namespace {

TEST_F(Restart, WaitingConnections_OfEverySocket_ServedByTheNextAdapter) {
  retire();
  const UniqueFd tenant = connected("a/socket"), level = connected("a/fast.socket"),
                 other = connected("b/socket"), admin = connected("admin.sock", SOCK_STREAM);
  ASSERT_TRUE(tenant && level && other && admin);
  send_hello(tenant);
  send_hello(level);
  send_hello(other);
  const std::string request = R"({"jsonrpc":"2.0","id":1,"method":"tenants.list"})"
                              "\n";
  ASSERT_EQ(::send(admin.get(), request.data(), request.size(), 0),
            static_cast<ssize_t>(request.size()));
  start();
  EXPECT_EQ(hello_reply(tenant), 0);
  EXPECT_EQ(hello_reply(level), 0);
  EXPECT_EQ(hello_reply(other), 0);
  char text[64];
  EXPECT_GT(::recv(admin.get(), text, sizeof text, 0), 0);
}

TEST_F(Restart, FilesThatProgramsRead_AdapterReplaced_StayInPlace) {
  const std::string device = "a/sysfs/class/infiniband/softhca0/";
  const std::vector<std::string> names = {
      "a",         "a/socket",           "a/fast.socket",
      "a/sysfs",   device + "node_guid", device + "ports/1/gids/0",
      "admin.sock"};
  std::vector<ino_t> inodes;
  for (const std::string& name : names) {
    inodes.push_back(inode_of(path(name)));
    EXPECT_NE(inodes.back(), 0u) << name;
  }
  retire();
  for (std::size_t i = 0; i < names.size(); ++i)
    EXPECT_EQ(inode_of(path(names[i])), inodes[i]) << names[i] << ", while no adapter runs";
  std::ofstream(path(device + "fw_ver")) << "other\n";  // as of an earlier version
  start();
  for (std::size_t i = 0; i < names.size(); ++i)
    EXPECT_EQ(inode_of(path(names[i])), inodes[i]) << names[i];
  EXPECT_EQ(first_line(path(device + "fw_ver")), configuration::DeviceConfig::kFirmware);
}

TEST_F(Restart, RequestsThatWait_ServedByTheNextAdapter) {
  const UniqueFd program = connected("a/socket");
  ASSERT_TRUE(program);
  // The adapter has accepted the connection when it has answered another one.
  const UniqueFd second = connected("a/socket");
  send_hello(second);
  ASSERT_EQ(hello_reply(second), 0);
  retire();
  send_hello(program);
  char byte;
  EXPECT_EQ(::recv(program.get(), &byte, 1, MSG_DONTWAIT), -1) << "no end of file";
  start();
  EXPECT_EQ(hello_reply(program), 0);
}

/// As after a crash between the answer to a request and the taking of it.
TEST_F(Restart, RequestThatIsAnswered_IsNotAnsweredAgain) {
  const UniqueFd program = connected("a/socket");
  send_hello(program);
  ASSERT_EQ(hello_reply(program), 0);
  const auto has_reply = [&] {
    pollfd look{program.get(), POLLIN, 0};
    return ::poll(&look, 1, 20'000) == 1;
  };
  EXPECT_TRUE(ask_for_pd(program, 5));
  ASSERT_TRUE(has_reply());
  retire();
  EXPECT_TRUE(ask_for_pd(program, 5));
  start();
  const auto reply = receive_reply(program.get());
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->header.error, 0);
  EXPECT_TRUE(ask_for_pd(program, 6));
  const auto next = receive_reply(program.get());
  ASSERT_TRUE(next);
  EXPECT_EQ(next->header.tag, 6u);
  EXPECT_EQ(
      now->adapter().tenants[0]->control.accounts.in_use(configuration::Kind::kProtectionDomains),
      2u);
}

/// As after crashes between the answer to a request, which the process has read, and the taking of
/// it.
TEST_F(Restart, RequestThatWasAnsweredAndRead_ReplyComesTwice_SessionGoesOn) {
  const UniqueFd program = connected("a/socket");
  send_hello(program);
  ASSERT_EQ(hello_reply(program), 0);
  const auto next_tag = [&] {
    const auto reply = receive_reply(program.get());
    return reply && reply->header.error == 0 ? reply->header.tag : 0;
  };
  EXPECT_TRUE(ask_for_pd(program, 5));
  EXPECT_EQ(next_tag(), 5u);
  retire();
  EXPECT_TRUE(ask_for_pd(program, 5));
  start();
  while (!has_unread_reply(program)) ::usleep(100);
  EXPECT_TRUE(ask_for_pd(program, 6));
  EXPECT_EQ(next_tag(), 5u) << "the second reply";
  EXPECT_EQ(next_tag(), 6u);
  // Again, and the adapter ends before the process has read the second reply.
  retire();
  EXPECT_TRUE(ask_for_pd(program, 6));
  start();
  while (!has_unread_reply(program)) ::usleep(100);
  retire();
  EXPECT_TRUE(ask_for_pd(program, 7));
  start();
  EXPECT_EQ(next_tag(), 6u) << "the second reply";
  EXPECT_EQ(next_tag(), 7u);
  // The process has sent the next request.
  retire();
  EXPECT_TRUE(ask_for_pd(program, 7));
  EXPECT_TRUE(ask_for_pd(program, 8));
  start();
  EXPECT_EQ(next_tag(), 8u);
  EXPECT_TRUE(ask_for_pd(program, 9));
  EXPECT_EQ(next_tag(), 9u);
}

TEST_F(Restart, ProcessThatReadsNoReplies_AfterASecondOne_SessionEnds) {
  const UniqueFd program = connected("a/socket");
  send_hello(program);
  ASSERT_EQ(hello_reply(program), 0);
  EXPECT_TRUE(ask_for_pd(program, 5));
  ASSERT_TRUE(receive_reply(program.get()));
  retire();
  EXPECT_TRUE(ask_for_pd(program, 5));
  start();
  while (!has_unread_reply(program)) ::usleep(100);
  EXPECT_TRUE(ask_for_pd(program, 6)) << "the second reply is unread";
  while (ask_for_pd(program, 7)) ::usleep(1000);
  for (std::uint32_t tag : {5u, 6u}) {
    const auto reply = receive_reply(program.get());
    EXPECT_TRUE(reply && reply->header.tag == tag) << tag;
  }
  EXPECT_FALSE(receive_reply(program.get()));
}

TEST_F(Restart, GreetingThatWasAnsweredAndRead_SessionGoesOn) {
  const UniqueFd program = connected("a/socket");
  send_hello(program);
  ASSERT_EQ(hello_reply(program), 0);
  retire();
  send_hello(program);
  EXPECT_TRUE(ask_for_pd(program, 10));
  start();
  const auto reply = receive_reply(program.get());
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->header.tag, 10u) << "no second greeting";
  EXPECT_EQ(reply->header.error, 0);
}

/// As after a crash before the answer.
TEST_F(Restart, GreetingWithoutAnAnswer_BeginsAnew) {
  const UniqueFd program = connected("a/socket");
  send_hello(program);
  ASSERT_EQ(hello_reply(program), 0);
  retire();
  send_hello(program);
  start();
  EXPECT_EQ(hello_reply(program), 0);
  restart();
  EXPECT_TRUE(ask_for_pd(program, 10));
  const auto reply = receive_reply(program.get());
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->header.error, 0);
}

TEST_F(Restart, ProcessWithWhichAdaptersCrashed_IsGivenUp_OthersGoOn) {
  const UniqueFd culprit = connected("a/socket"), other = connected("a/socket");
  send_hello(culprit);
  const auto greeted = receive_reply(culprit.get());
  ASSERT_TRUE(greeted && greeted->header.error == 0);
  abi::HelloReply hello{};
  std::memcpy(&hello, greeted->body.data(), sizeof hello);
  send_hello(other);
  ASSERT_EQ(hello_reply(other), 0);
  const std::size_t kept = keeper.objects();
  retire();
  start({Subject::Kind::kSession, hello.session});
  char byte;
  EXPECT_EQ(::recv(culprit.get(), &byte, 1, 0), 0) << "the end of its connection";
  EXPECT_EQ(::recv(other.get(), &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_LT(keeper.objects(), kept);
  now->on_thread([&] {
    const auto events = now->adapter().journal.after(0, 1000).entries;
    EXPECT_EQ(std::ranges::count(events, "culprit", &JournalEntry::kind), 1);
    EXPECT_EQ(now->server().sessions().all().size(), 1u);
  });
}

TEST_F(Restart, ProgramThatEndsMeanwhile_LeavesNothing) {
  const std::size_t before = keeper.objects();
  {
    const UniqueFd program = connected("a/socket");
    send_hello(program, ~abi::kSessionMagic);
    ASSERT_GT(hello_reply(program), 0) << "refused, and still connected";
    EXPECT_EQ(keeper.objects(), before + 2);
    retire();
  }
  start();
  for (int i = 0; i < 20000 && keeper.objects() != before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(keeper.objects(), before);
}

TEST_F(Restart, SocketThatNoTenantHasAnyMore_IsRemoved) {
  const std::size_t before = keeper.objects();
  now->on_thread([&] {
    // As when an adapter ends in the middle of a reload.
    now->server().listeners().close(*now->adapter().tenants[1]);
    static auto* const left = new std::vector<KeptListener>;
    auto made = take_up_or_listen(now->adapter().kept, path("b/socket"), {});
    ASSERT_TRUE(made);
    left->push_back(std::move(*made));
    configuration::Config wanted = now->adapter().config;
    wanted.tenants.pop_back();
    EXPECT_TRUE(now->reloader().put_into_force(wanted));
    now->reloader().resume();
  });
  retire();
  start();
  EXPECT_FALSE(std::filesystem::exists(path("b")));
  EXPECT_EQ(keeper.objects(), before - 2) << "its socket, and that for its own requests";
  EXPECT_TRUE(connected("a/socket"));
}

TEST_F(Restart, EventsOfTheJournal_StayWithTheirNumbers) {
  std::vector<JournalEntry> before;
  records::Record running;
  now->on_thread([&] {
    Journal& journal = now->adapter().journal;
    journal.add({.kind = "queue_pair_error",
                 .tenant = "a",
                 .text = "failed",
                 .queue_pair = 7,
                 .cause = "no_answer",
                 .vendor_error = 3,
                 .past = {{.event = {.count = 5}}}});
    journal.add({.kind = "reload", .text = "of the daemon"});
    before = journal.after(0, 100).entries;
    running = record_diagnosis(now->adapter(), "capture_ended", "the capture of all");
  });
  ASSERT_GE(before.size(), 2u);
  restart();
  now->on_thread([&] {
    Journal& journal = now->adapter().journal;
    const auto after = journal.after(0, 100).entries;
    ASSERT_GT(after.size(), before.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(after[i].number, before[i].number);
      EXPECT_EQ(after[i].time, before[i].time);
      EXPECT_EQ(after[i].text, before[i].text);
    }
    EXPECT_EQ(after.back().kind, "capture_ended");
    EXPECT_EQ(after.back().text, "the capture of all ended: the adapter was replaced");
    const JournalEntry* const failure = journal.failure_of(7);
    ASSERT_NE(failure, nullptr);
    EXPECT_EQ(failure->cause, "no_answer");
    EXPECT_EQ(failure->vendor_error, 3u);
    ASSERT_EQ(failure->past.size(), 1u);
    EXPECT_EQ(failure->past[0].event.count, 5u);
  });
  // As when the process of the first adapter ends.
  static auto* const left = new std::vector<records::Record>;
  left->push_back(std::move(running));
}

TEST_F(Restart, EventChannelWithListenerAndUnreadEvent_GoesOn) {
  const UniqueFd channel = connected("a/socket");
  const ReplyRecord opened = ask(channel, abi::Operation::kOpenEventChannel, channel_hello());
  ASSERT_EQ(opened.header.error, 0);
  ASSERT_EQ(opened.fds.size(), 1u);
  std::uint32_t ids[2];
  ASSERT_NO_FATAL_FAILURE(listen_and_resolve(channel, ids));
  char byte;
  ASSERT_EQ(::recv(opened.fds[0].get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT), 1) << "an event waits";
  restart();
  restart();
  EXPECT_EQ(::recv(opened.fds[0].get(), &byte, 1, MSG_DONTWAIT), 1);
  EXPECT_EQ(::recv(opened.fds[0].get(), &byte, 1, MSG_DONTWAIT), -1) << "no end of file";
  const auto event = body_of<rdma_ucm_event_resp>(
      rdma_cm(channel, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}));
  EXPECT_EQ(event.event, 0u) << "RDMA_CM_EVENT_ADDR_RESOLVED";
  EXPECT_EQ(event.id, ids[1]);
  restart();
  const auto same = body_of<rdma_ucm_event_resp>(
      rdma_cm(channel, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}, true));
  EXPECT_EQ(same.id, event.id) << "the same request has the same answer";
  EXPECT_EQ(rdma_cm(channel, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}).header.error,
            EAGAIN);
  EXPECT_EQ(listen(channel, ids[0]), EINVAL) << "it listens already";
  const UniqueFd other = connected("a/socket");
  ASSERT_EQ(ask(other, abi::Operation::kOpenEventChannel, channel_hello()).header.error, 0);
  const std::uint32_t id = create_id(other);
  EXPECT_NE(id, ids[0]);
  EXPECT_NE(id, ids[1]);
  EXPECT_EQ(bind(other, id), EADDRINUSE);
}

/// The record of a session or a datagram client that does not fit ends that one alone.
TEST_F(Restart, RecordThatDoesNotFit_EndsItsConnection_OthersGoOn) {
  const UniqueFd other = connected("b/socket");
  ASSERT_EQ(ask(other, abi::Operation::kOpenEventChannel, channel_hello()).header.error, 0);
  std::ptrdiff_t reports = 0;
  const auto restart_with_half = [&](records::Kind kind) {
    const std::uint32_t id = create_id(other);
    restart_with(kind, [](auto& body) { body.resize(body.size() / 2); });
    EXPECT_EQ(unfit(), ++reports);
    EXPECT_EQ(destroy_id(other, id), 0);
  };
  const std::size_t before = keeper.objects();

  const UniqueFd session = connected("a/socket");
  send_hello(session);
  ASSERT_EQ(hello_reply(session), 0);
  restart_with_half(records::Kind::kConnection);
  EXPECT_EQ(keeper.objects(), before) << "closed, once the earlier adapter's process has ended";

  const UniqueFd datagrams = connected("a/socket");
  ASSERT_EQ(ask(datagrams, abi::Operation::kOpenDatagramClient, kDatagramClient).header.error, 0);
  restart_with_half(records::Kind::kDatagramClient);
  char byte;
  EXPECT_EQ(::recv(datagrams.get(), &byte, 1, 0), 0) << "closed";
  EXPECT_EQ(keeper.objects(), before);
}

/// The record of an event channel that does not fit ends that channel. A record of rdma_cm ends all
/// event channels of its tenant.
TEST_F(Restart, RecordOfRdmaCmThatDoesNotFit_EndsTheChannelsOfItsTenant) {
  const std::size_t before = keeper.objects();
  for (const auto kind : {records::Kind::kEventChannel, records::Kind::kConnectionManager}) {
    const UniqueFd channel = connected("a/socket");
    ASSERT_EQ(ask(channel, abi::Operation::kOpenEventChannel, channel_hello()).header.error, 0);
    std::uint32_t ids[2];
    ASSERT_NO_FATAL_FAILURE(listen_and_resolve(channel, ids));
    const UniqueFd other = connected("b/socket");
    ASSERT_EQ(ask(other, abi::Operation::kOpenEventChannel, channel_hello()).header.error, 0);
    const std::uint32_t id = create_id(other);
    restart_with(kind, [](auto& body) { body.pop_back(); });
    char byte;
    EXPECT_EQ(::recv(channel.get(), &byte, 1, 0), 0) << "closed";
    EXPECT_EQ(destroy_id(other, id), 0);
    const UniqueFd again = connected("a/socket");
    ASSERT_EQ(ask(again, abi::Operation::kOpenEventChannel, channel_hello()).header.error, 0);
    EXPECT_EQ(bind(again, create_id(again)), 0) << "nothing of the former channel is left";
  }
  EXPECT_EQ(unfit(), 3) << "of the channel, then of the object and of its channel";
  restart();
  EXPECT_LE(keeper.objects(), before + 3);
}

/// As after crashes between the answer to the request that opens a channel and the taking of it.
TEST_F(Restart, ChannelsThatProcessesKnowToBeOpen_GoOn) {
  const UniqueFd events = connected("a/socket");
  const ReplyRecord opened = ask(events, abi::Operation::kOpenEventChannel, channel_hello());
  ASSERT_EQ(opened.header.error, 0);
  retire();
  send_again(events, abi::Operation::kOpenEventChannel, channel_hello());
  start();
  EXPECT_EQ(rdma_cm(events, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}).header.error, EAGAIN);
  const UniqueFd datagrams = connected("a/socket");
  const ReplyRecord made = ask(datagrams, abi::Operation::kOpenDatagramClient, kDatagramClient);
  ASSERT_EQ(made.header.error, 0);
  retire();
  send_again(datagrams, abi::Operation::kOpenDatagramClient, kDatagramClient);
  start();
  EXPECT_EQ(ask(datagrams, abi::Operation::kSetDatagramBuffers, abi::HandleBody{3, 0}).header.error,
            0);
}

/// As after crashes before the answer: the processes have no end of the signals.
TEST_F(Restart, ChannelsThatProcessesDoNotKnow_EndAndLeaveNothing) {
  const std::size_t before = keeper.objects();
  const UniqueFd events = connected("a/socket");
  ASSERT_EQ(ask(events, abi::Operation::kOpenEventChannel, channel_hello()).header.error, 0);
  const UniqueFd datagrams = connected("a/socket");
  ASSERT_EQ(ask(datagrams, abi::Operation::kOpenDatagramClient, kDatagramClient).header.error, 0);
  retire();
  send_again(events, abi::Operation::kOpenEventChannel, channel_hello());
  send_again(datagrams, abi::Operation::kOpenDatagramClient, kDatagramClient);
  start();
  EXPECT_FALSE(receive_reply(events.get())) << "the process connects again";
  EXPECT_FALSE(receive_reply(datagrams.get()));
  now->on_thread([&] { EXPECT_EQ(keeper.objects(), before); });
  const UniqueFd second = connected("a/socket");
  EXPECT_EQ(ask(second, abi::Operation::kOpenDatagramClient, kDatagramClient).header.error, 0);
}

/// As after a crash between the sending of a datagram and the taking of the request.
TEST_F(Restart, DatagramThatMayHaveLeft_IsNotSentAgain) {
  const UniqueFd client = connected("a/socket");
  const ReplyRecord opened = ask(client, abi::Operation::kOpenDatagramClient, kDatagramClient);
  ASSERT_EQ(opened.header.error, 0);
  const abi::DatagramHead invalid{};
  ASSERT_EQ(ask(client, abi::Operation::kSendDatagram, invalid).header.error, EINVAL);
  retire();
  send_again(client, abi::Operation::kSendDatagram, invalid);
  start();
  const auto reply = receive_reply(client.get());
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->header.error, 0) << "it was not looked at";
  EXPECT_EQ(ask(client, abi::Operation::kSendDatagram, invalid).header.error, EINVAL);
}

TEST_F(Restart, DatagramClient_GoesOn) {
  const UniqueFd client = connected("a/socket");
  const ReplyRecord opened = ask(client, abi::Operation::kOpenDatagramClient, kDatagramClient);
  ASSERT_EQ(opened.header.error, 0);
  ASSERT_EQ(ask(client, abi::Operation::kSetDatagramBuffers, abi::HandleBody{3, 0}).header.error,
            0);
  restart();
  const ReplyRecord told = ask(client, abi::Operation::kReceiveDatagram, abi::HandleBody{});
  ASSERT_EQ(told.header.error, 0);
  struct {
    abi::ReceiveDatagramReply head;
    abi::DatagramQuotaBody body;
  } quota{};
  ASSERT_EQ(told.body.size(), sizeof quota);
  std::memcpy(&quota, told.body.data(), sizeof quota);
  EXPECT_EQ(quota.body.quota, 3u);
  const UniqueFd second = connected("a/socket");
  EXPECT_EQ(ask(second, abi::Operation::kOpenDatagramClient, kDatagramClient).header.error,
            EADDRINUSE);
}

TEST_F(Restart, TenantOnDemandAndUnsavedChange_StayInForce) {
  const configuration::AllocationChange change{
      .tenant = "b", .setting = configuration::LiveSetting::kPcbs, .amount = 77};
  now->on_thread([&] {
    ASSERT_TRUE(
        now->reloader().create_tenant({.name = "made", .template_name = "like"}, {}, false));
    ASSERT_TRUE(now->reloader().change({&change, 1}));
  });
  const UniqueFd program = connected("made/socket");
  send_hello(program);
  ASSERT_EQ(hello_reply(program), 0);
  restart();
  now->on_thread([&] {
    ASSERT_NE(in_force(*now, "made"), nullptr);
    EXPECT_EQ(in_force(*now, "b")->pcbs, 77u);
    ASSERT_EQ(now->reloader().layers().tenants().size(), 1u);
    EXPECT_FALSE(now->reloader().layers().tenants()[0].saved);
    EXPECT_EQ(now->reloader().layers().file().tenants.size(), 2u);
  });
  EXPECT_TRUE(connected("made/socket"));
  char byte;
  EXPECT_EQ(::recv(program.get(), &byte, 1, MSG_DONTWAIT), -1) << "no end of file";
  restart();
  now->on_thread([&] { EXPECT_NE(in_force(*now, "made"), nullptr) << "also by the one after"; });
}

TEST_F(Restart, TenantThatIsLeaving_KeepsItsPrograms_TakesNoNewOnes) {
  UniqueFd program = connected("b/socket");
  send_hello(program);
  ASSERT_EQ(hello_reply(program), 0);
  now->on_thread([&] {
    configuration::Config wanted = now->adapter().config;
    wanted.tenants.pop_back();
    ASSERT_TRUE(now->reloader().put_into_force(wanted));
    now->reloader().resume();
  });
  EXPECT_FALSE(connected("b/socket"));
  restart();
  EXPECT_FALSE(connected("b/socket"));
  now->on_thread([&] {
    EXPECT_EQ(in_force(*now, "b"), nullptr);
    EXPECT_EQ(now->reloader().draining("b"), 1u);
  });
  char byte;
  EXPECT_EQ(::recv(program.get(), &byte, 1, MSG_DONTWAIT), -1) << "no end of file";
  program.reset();
  for (int i = 0; i < 20000 && std::filesystem::exists(path("b")); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    now->on_thread([&] { now->reloader().tick(); });
  }
  EXPECT_FALSE(std::filesystem::exists(path("b"))) << "it goes after its last program";
}

TEST_F(Restart, OrderlyEnd_AfterARestart_RemovesEverything) {
  restart();
  const UniqueFd program = connected("a/socket");
  send_hello(program);
  ASSERT_EQ(hello_reply(program), 0);
  now.reset();
  EXPECT_FALSE(std::filesystem::exists(path("a")));
  EXPECT_FALSE(std::filesystem::exists(path("admin.sock")));
  EXPECT_EQ(keeper.objects(), 0u);
}

TEST_F(Restart, KeeperThatIsFull_ProgramIsRefused_OthersGoOn) {
  const UniqueFd early = connected("a/socket");
  send_hello(early, ~abi::kSessionMagic);
  ASSERT_GT(hello_reply(early), 0);
  now->keeping().refuse(true);
  char byte;
  EXPECT_EQ(::recv(connected("a/socket").get(), &byte, 1, 0), 0) << "closed";
  now->keeping().refuse(false);
  const UniqueFd late = connected("a/socket");
  for (const UniqueFd* program : {&early, &late}) {
    send_hello(*program);
    EXPECT_EQ(hello_reply(*program), 0);
  }
}

}  // namespace
}  // namespace softhca::control
