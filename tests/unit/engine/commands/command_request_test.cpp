// SPDX-License-Identifier: Apache-2.0

// Which commands are valid, by themselves.
#include "daemon/engine/commands/command_request.hpp"

#include "abi/checksum.hpp"
#include "tests/unit/engine/fixture/process.hpp"

namespace softhca::engine {
namespace {

using abi::Opcode;
using transport::RequestKind;

class CommandRequest : public ::testing::Test {
 protected:
  CommandRequest() {
    qp.tenant = &tenant;
    qp.pd = memory::PdId(1);
    qp.rc.mtu = 1024;
    buffer.words.resize(512);
    buffer.size = 4096;
    buffer.enter(memory.keys(), TenantId(0), qp.pd, Process::kFull);
  }
  Verdict build(Opcode opcode, std::uint32_t bytes = 8) {
    const abi::ScatterGather entry = buffer.part(0, bytes);
    command.header.opcode = static_cast<std::uint8_t>(opcode);
    command.header.payload_bytes = sizeof entry;
    std::memcpy(command.payload.data(), &entry, sizeof entry);
    request = {};
    return build_request(qp, PcbId(3), command, memory, request);
  }
  std::vector<Opcode> accepted(QpType type) {
    qp.type = type;
    std::vector<Opcode> out;
    for (unsigned i = 0; i < 256; ++i)
      if (build(static_cast<Opcode>(i)) == Verdict::kOk) out.push_back(static_cast<Opcode>(i));
    return out;
  }

  DurableState state{{.queue_pairs = 64, .memory_regions = 64, .memory_windows = 16}};
  MemoryAccess memory{state};
  Tenant tenant;
  QueuePair qp;
  Buffer buffer;
  collect::Pcb command{};
  transport::Request request;
};

TEST_F(CommandRequest, EachTypeTakesItsOpcodes) {
  using enum Opcode;
  EXPECT_EQ(accepted(QpType::kUd), (std::vector{kSend, kSendWithImm}));
  EXPECT_EQ(accepted(QpType::kUc),
            (std::vector{kRdmaWrite, kRdmaWriteWithImm, kSend, kSendWithImm}));
  const std::vector reliable{kRdmaWrite, kRdmaWriteWithImm, kSend,     kSendWithImm,
                             kRdmaRead,  kCompareSwap,      kFetchAdd, kSendWithInvalidate};
  EXPECT_EQ(accepted(QpType::kXrcSend), reliable);
  std::vector rc = reliable;
  rc.push_back(kAtomicWrite);
  EXPECT_EQ(accepted(QpType::kRc), rc);
  command.header.swap = abi::flush_word(1, 0);
  EXPECT_EQ(build(kFlush, 0), Verdict::kOk);
  qp.type = QpType::kXrcSend;
  EXPECT_EQ(build(kFlush, 0), Verdict::kLocalQpOperation);
}

TEST_F(CommandRequest, SaysWhatTheCommandDoes) {
  command.header.flags = abi::kCommandSolicited | abi::kCommandFence;
  command.header.remote_addr = 0x1000;
  command.header.rkey = 0x77;
  command.header.imm = 5;
  command.header.compare_add = 6;
  command.header.swap = 7;
  command.header.remote_srq = 0xff000009;
  ASSERT_EQ(build(Opcode::kCompareSwap), Verdict::kOk);
  EXPECT_EQ(request.kind, RequestKind::kCompareSwap);
  EXPECT_TRUE(request.solicited);
  EXPECT_TRUE(request.fence);
  EXPECT_EQ(request.length, 8u);
  EXPECT_EQ(request.pcb, PcbId(3));
  EXPECT_EQ(request.remote_addr, 0x1000u);
  EXPECT_EQ(request.rkey, Rkey(0x77));
  EXPECT_EQ(request.imm, 5u);
  EXPECT_EQ(request.compare_add, 6u);
  EXPECT_EQ(request.swap, 7u);
  EXPECT_EQ(request.xrc_srq, 9u) << "24 bits";
}

TEST_F(CommandRequest, FlushesAreThoseOfTheSpecification) {
  const auto flush = [&](std::uint64_t word, std::uint64_t bytes, std::uint32_t brought = 0) {
    command.header.swap = word;
    command.header.compare_add = bytes;
    return build(Opcode::kFlush, brought);
  };
  EXPECT_EQ(flush(abi::flush_word(1, 0), transport::kMaxMessageBytes), Verdict::kOk);
  EXPECT_EQ(request.kind, RequestKind::kFlush);
  EXPECT_EQ(request.length, 0u);
  EXPECT_EQ(request.compare_add, transport::kMaxMessageBytes);
  EXPECT_EQ(flush(abi::flush_word(3, 1), 0), Verdict::kOk);
  EXPECT_EQ(flush(abi::flush_word(1, 0), transport::kMaxMessageBytes + 1ull),
            Verdict::kLocalLength);
  EXPECT_EQ(flush(abi::flush_word(1, 0), 8, 8), Verdict::kLocalLength) << "it brings nothing";
  for (const std::uint64_t word : {0ull, 4ull, 0x21ull, 0x31ull, 0x101ull, 1ull << 32 | 1})
    EXPECT_EQ(flush(word, 8), Verdict::kLocalQpOperation) << word;
}

TEST_F(CommandRequest, LengthsAreThoseOfTheService) {
  EXPECT_EQ(build(Opcode::kFetchAdd, 16), Verdict::kLocalLength);
  EXPECT_EQ(build(Opcode::kAtomicWrite, 4), Verdict::kLocalLength);
  EXPECT_EQ(build(Opcode::kSend, 4096), Verdict::kOk);
  qp.type = QpType::kUd;
  EXPECT_EQ(build(Opcode::kSend, 1024), Verdict::kOk);
  EXPECT_EQ(build(Opcode::kSend, 1025), Verdict::kLocalLength) << "one packet is one message";
}

TEST_F(CommandRequest, MemoryIsThatOfTheDomainAndWritableForResponses) {
  EXPECT_EQ(build(Opcode::kSend, 4097), Verdict::kLocalProtection);
  memory.keys().erase(buffer.key);
  buffer.enter(memory.keys(), TenantId(0), qp.pd, 0);
  EXPECT_EQ(build(Opcode::kSend), Verdict::kOk);
  EXPECT_EQ(build(Opcode::kRdmaRead), Verdict::kLocalProtection);
  qp.pd = memory::PdId(2);
  EXPECT_EQ(build(Opcode::kSend), Verdict::kLocalProtection);
}

TEST_F(CommandRequest, ATornCommandIsRefusedAndCounted) {
  command.header.checksum = 0x1234;
  EXPECT_EQ(build(Opcode::kSend), Verdict::kLocalQpOperation);
  EXPECT_EQ(tenant.counters.refused.bad_checksums.value(), 1u);
  command.header.checksum = 0;
  ASSERT_EQ(build(Opcode::kSend), Verdict::kOk);
  command.header.checksum = abi::command_checksum(command.header, command.payload.data());
  EXPECT_EQ(build(Opcode::kSend), Verdict::kOk);
}

}  // namespace
}  // namespace softhca::engine
