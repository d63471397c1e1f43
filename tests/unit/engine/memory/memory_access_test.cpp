// SPDX-License-Identifier: Apache-2.0

// What commands, receives and remote keys may reach, without an engine.
#include "daemon/engine/memory/memory_access.hpp"

#include <numeric>

#include "tests/unit/engine/fixture/process.hpp"

namespace softhca::engine {
namespace {

using transport::RemoteAccess;

const memory::PdId kPd(1), kOtherPd(2);

class Memory : public ::testing::Test {
 protected:
  Memory() {
    qp.pd = kPd;
    qp.qpn = Qpn(17);
    qp.access = Process::kFull;
  }
  Buffer make(std::size_t bytes, std::uint32_t access = Process::kFull, memory::PdId pd = kPd) {
    Buffer buffer;
    buffer.words.resize(bytes / sizeof(std::uint64_t));
    buffer.size = bytes;
    buffer.enter(memory.keys(), TenantId(0), pd, access);
    return buffer;
  }
  static collect::Pcb command(const std::vector<abi::ScatterGather>& list) {
    collect::Pcb pcb{};
    pcb.header.payload_bytes = static_cast<std::uint16_t>(list.size() * sizeof list[0]);
    std::memcpy(pcb.payload.data(), list.data(), pcb.header.payload_bytes);
    return pcb;
  }
  static collect::Pcb inline_command(std::size_t bytes) {
    collect::Pcb pcb{};
    pcb.header.flags = abi::kCommandInline;
    pcb.header.payload_bytes = static_cast<std::uint16_t>(bytes);
    for (std::size_t i = 0; i < bytes; ++i) pcb.payload[i] = static_cast<std::byte>(i + 1);
    return pcb;
  }
  Verdict measure(const collect::Pcb& pcb, bool writes = false) {
    return memory.measure(qp, pcb, writes, length);
  }
  bool reaches(Rkey key, std::uint64_t addr, std::uint64_t bytes,
               RemoteAccess access = RemoteAccess::kWrite) {
    return memory.remote(qp, qp.pd, key, addr, bytes, access).region != nullptr;
  }
  Verdict bind(const memory::Window& window, Buffer& to, std::uint64_t bytes,
               std::uint32_t access = memory::kRemoteWrite) {
    abi::CommandHeader header{};
    header.rkey = window.key;
    header.swap = to.key;
    header.remote_addr = to.addr();
    header.compare_add = bytes;
    header.imm = access;
    return memory.bind(qp, header, resumed);
  }

  bool resumed = false;  ///< an earlier engine may have begun the command
  DurableState state{{.queue_pairs = 64, .memory_regions = 64, .memory_windows = 16}};
  MemoryAccess memory{state};
  QueuePair qp;
  std::uint32_t length = 0;
};

TEST_F(Memory, MessageIsAsLongAsItsEntries) {
  Buffer a = make(64), b = make(64);
  EXPECT_EQ(measure(command({a.part(8, 10), {}, b.part(0, 64)})), Verdict::kOk);
  EXPECT_EQ(length, 74u);
  EXPECT_EQ(measure(inline_command(20)), Verdict::kOk);
  EXPECT_EQ(length, 20u);
  EXPECT_EQ(measure(inline_command(20), true), Verdict::kLocalQpOperation);
}

TEST_F(Memory, CommandsReachWhatTheirDomainHas) {
  Buffer mine = make(64), theirs = make(64, Process::kFull, kOtherPd), read_only = make(64, 0);
  EXPECT_EQ(measure(command({theirs.all()})), Verdict::kLocalProtection);
  EXPECT_EQ(measure(command({mine.part(1, 64)})), Verdict::kLocalProtection);
  EXPECT_EQ(measure(command({read_only.all()})), Verdict::kOk);
  EXPECT_EQ(measure(command({read_only.all()}), true), Verdict::kLocalProtection);
  const std::vector<abi::ScatterGather> nothing_of_theirs = {theirs.part(0, 0)};
  EXPECT_EQ(measure(command(nothing_of_theirs)), Verdict::kOk) << "empty entries name no memory";
}

TEST_F(Memory, GathersAndScattersFromAnOffset) {
  Buffer a = make(16), b = make(16);
  a.fill(1);
  b.fill(2);
  const collect::Pcb pcb = command({a.all(), b.all()});
  std::byte out[8];
  ASSERT_EQ(memory.gather(qp, pcb, 12, out), Verdict::kOk);
  EXPECT_EQ(std::memcmp(out, a.data() + 12, 4), 0);
  EXPECT_EQ(std::memcmp(out + 4, b.data(), 4), 0);
  ASSERT_EQ(memory.scatter(qp, pcb, 20, out), Verdict::kOk);
  EXPECT_EQ(std::memcmp(b.data() + 4, out, 8), 0);
  ASSERT_EQ(memory.gather(qp, inline_command(20), 12, out), Verdict::kOk);
  EXPECT_EQ(out[0], std::byte{13});
}

/// Checked when the command began, deregistered since: the next access fails.
TEST_F(Memory, KeyIsLookedUpAtEachAccess) {
  Buffer a = make(16);
  const collect::Pcb pcb = command({a.all()});
  ASSERT_EQ(measure(pcb), Verdict::kOk);
  ASSERT_TRUE(memory.keys().erase(a.key));
  std::byte out[8];
  EXPECT_EQ(memory.gather(qp, pcb, 0, out), Verdict::kLocalProtection);
  EXPECT_EQ(memory.scatter(qp, pcb, 0, out), Verdict::kLocalProtection);
}

TEST_F(Memory, MovesBothWaysAndSaysWhoseFaultItWas) {
  Buffer near = make(32), far = make(32);
  near.fill(3);
  const collect::Pcb pcb = command({near.all()});
  memory::ScatterList list;
  const std::vector<abi::ScatterGather> all = {far.all()};
  ASSERT_EQ(memory::resolve(memory.keys(), std::span(all), 0, 32, memory::kLocalWrite, kPd, list),
            Verdict::kOk);
  bool remote_fault = true;
  ASSERT_EQ(memory.move(qp, pcb, 0, 32, list.view(), false, remote_fault), Verdict::kOk);
  EXPECT_TRUE(far.equals(near));
  far.fill(4);
  ASSERT_EQ(memory.move(qp, pcb, 0, 32, list.view(), true, remote_fault), Verdict::kOk);
  EXPECT_TRUE(far.equals(near));
  memory.keys().erase(near.key);
  EXPECT_EQ(memory.move(qp, pcb, 0, 32, list.view(), false, remote_fault),
            Verdict::kLocalProtection);
  EXPECT_FALSE(remote_fault);
}

TEST_F(Memory, PeerReachesWhatKeyDomainAndFlagsAllow) {
  Buffer mine = make(64), theirs = make(64, Process::kFull, kOtherPd);
  Buffer readable = make(64, memory::kRemoteRead);
  EXPECT_TRUE(reaches(Rkey(mine.key), mine.addr(), 64));
  EXPECT_FALSE(reaches(Rkey(mine.key), mine.addr() + 1, 64));
  EXPECT_FALSE(reaches(Rkey(mine.key ^ 0x10000), mine.addr(), 64));
  EXPECT_FALSE(reaches(Rkey(theirs.key), theirs.addr(), 64));
  EXPECT_TRUE(reaches(Rkey(readable.key), readable.addr(), 64, RemoteAccess::kRead));
  EXPECT_FALSE(reaches(Rkey(readable.key), readable.addr(), 64));
  qp.access = memory::kRemoteRead;
  EXPECT_FALSE(reaches(Rkey(mine.key), mine.addr(), 64)) << "the queue pair allows no writes";
}

TEST_F(Memory, FlushesNeedARightOfTheirOwn) {
  Buffer region = make(64, memory::kFlushGlobal), other = make(64);
  const auto flush = [&](const Buffer& buffer, std::uint64_t addr, RemoteAccess access) {
    return reaches(Rkey(buffer.key), addr, 64, access);
  };
  EXPECT_FALSE(flush(region, region.addr(), RemoteAccess::kFlush)) << "the queue pair allows none";
  qp.access |= memory::kFlushGlobal;
  EXPECT_TRUE(flush(region, region.addr(), RemoteAccess::kFlush));
  EXPECT_FALSE(flush(region, region.addr() + 1, RemoteAccess::kFlush));
  EXPECT_TRUE(flush(region, 0, RemoteAccess::kFlushRegion)) << "wherever it is";
  EXPECT_FALSE(flush(other, other.addr(), RemoteAccess::kFlush));
  EXPECT_FALSE(flush(other, other.addr(), RemoteAccess::kFlushRegion));
}

TEST_F(Memory, AtomicsOnAlignedWords) {
  Buffer word = make(16);
  AtomicStep step;
  AtomicState run = AtomicState::kNone;
  using transport::RequestKind;
  const auto add = [&](std::uint64_t addr) {
    return memory.atomic(qp, Rkey(word.key), addr, RequestKind::kFetchAdd, 5, 0, {step, run});
  };
  EXPECT_EQ(add(word.addr()), Verdict::kOk);
  EXPECT_EQ(step.before, 0u);
  EXPECT_EQ(run, AtomicState::kDone);
  EXPECT_EQ(word.words[0], 5u);
  EXPECT_EQ(add(word.addr() + 4), Verdict::kRemoteInvalidRequest);
  EXPECT_EQ(add(word.addr() + 16), Verdict::kRemoteAccess);
  qp.access = memory::kRemoteWrite;
  EXPECT_EQ(add(word.addr()), Verdict::kRemoteAccess);
  EXPECT_EQ(
      memory.atomic(qp, Rkey(word.key), word.addr(), RequestKind::kAtomicWrite, 0, 9, {step, run}),
      Verdict::kOk)
      << "which needs the right to write, not that to atomics";
  EXPECT_EQ(word.words[0], 9u);
}

TEST_F(Memory, WindowsLeadToTheirPartUntilTheyAreInvalidated) {
  Buffer region = make(64, Process::kFull | memory::kBindWindow);
  memory::Window& window = **memory.windows().insert(kPd, true);
  ASSERT_EQ(bind(window, region, 32), Verdict::kOk);
  const Rkey key(window.key);
  EXPECT_TRUE(reaches(key, region.addr(), 32));
  EXPECT_FALSE(reaches(key, region.addr(), 33));
  EXPECT_FALSE(reaches(key, region.addr(), 8, RemoteAccess::kRead));
  EXPECT_EQ(memory.invalidate(qp, Rkey(region.key), resumed), Verdict::kLocalQpOperation);
  qp.qpn = Qpn(18);
  EXPECT_EQ(memory.invalidate(qp, key, resumed), Verdict::kLocalQpOperation)
      << "of another queue pair";
  EXPECT_FALSE(reaches(key, region.addr(), 32));
  qp.qpn = Qpn(17);
  EXPECT_EQ(memory.invalidate(qp, key, resumed), Verdict::kOk);
  EXPECT_FALSE(reaches(key, region.addr(), 32));
}

/// The earlier engine has bound or invalidated the window, and the command is done again.
TEST_F(Memory, ResumedWindowCommand_SucceedsAgain) {
  Buffer region = make(64, Process::kFull | memory::kBindWindow);
  memory::Window& window = **memory.windows().insert(kPd, true);
  ASSERT_EQ(bind(window, region, 32), Verdict::kOk);
  EXPECT_EQ(bind(window, region, 32), Verdict::kWindowBind);
  resumed = true;
  EXPECT_EQ(bind(window, region, 32), Verdict::kOk);
  EXPECT_EQ(bind(window, region, 33), Verdict::kWindowBind) << "not the same";
  const Rkey key(window.key);
  EXPECT_EQ(memory.invalidate(qp, key, false), Verdict::kOk);
  EXPECT_EQ(memory.invalidate(qp, key, false), Verdict::kLocalQpOperation);
  EXPECT_EQ(memory.invalidate(qp, key, true), Verdict::kOk);
  qp.qpn = Qpn(18);
  EXPECT_EQ(memory.invalidate(qp, key, true), Verdict::kLocalQpOperation);
}

TEST_F(Memory, RecalledAtomic_MemoryTellsWhetherItRan) {
  Buffer word = make(8);
  const Rkey key(word.key);
  const auto recall = [&](std::uint64_t now) {
    word.words[0] = now;
    return memory.recall_atomic(qp, key, word.addr(), false, {.before = 5, .after = 9});
  };
  EXPECT_EQ(recall(5), WasRun::kNo);
  EXPECT_EQ(recall(9), WasRun::kYes);
  EXPECT_EQ(recall(7), WasRun::kUnknown);
  EXPECT_EQ(memory.recall_atomic(qp, key, word.addr() + 8, false, {}), WasRun::kUnknown);
}

TEST_F(Memory, BindsOnlyWindowsOfItsDomain) {
  Buffer region = make(64, Process::kFull | memory::kBindWindow);
  EXPECT_EQ(bind(**memory.windows().insert(kOtherPd, true), region, 32), Verdict::kWindowBind);
  memory::Window none;
  none.key = memory::kWindowKeyBit | 12;
  EXPECT_EQ(bind(none, region, 32), Verdict::kWindowBind);
}

}  // namespace
}  // namespace softhca::engine
