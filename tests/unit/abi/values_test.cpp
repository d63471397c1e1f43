// SPDX-License-Identifier: Apache-2.0

// Values that the ABI shares with the verbs library, and its small computations.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "abi/command.hpp"
#include "abi/rings.hpp"
#include "abi/session.hpp"

namespace softhca::abi {
namespace {

template <class A, class B>
void expect_same(A ours, B theirs) {
  EXPECT_EQ(static_cast<unsigned>(ours), static_cast<unsigned>(theirs));
}

TEST(Values, OpcodesAreThoseOfVerbs) {
  expect_same(Opcode::kRdmaWrite, IBV_WR_RDMA_WRITE);
  expect_same(Opcode::kRdmaWriteWithImm, IBV_WR_RDMA_WRITE_WITH_IMM);
  expect_same(Opcode::kSend, IBV_WR_SEND);
  expect_same(Opcode::kSendWithImm, IBV_WR_SEND_WITH_IMM);
  expect_same(Opcode::kRdmaRead, IBV_WR_RDMA_READ);
  expect_same(Opcode::kCompareSwap, IBV_WR_ATOMIC_CMP_AND_SWP);
  expect_same(Opcode::kFetchAdd, IBV_WR_ATOMIC_FETCH_AND_ADD);
  expect_same(Opcode::kLocalInvalidate, IBV_WR_LOCAL_INV);
  expect_same(Opcode::kBindWindow, IBV_WR_BIND_MW);
  expect_same(Opcode::kSendWithInvalidate, IBV_WR_SEND_WITH_INV);
  expect_same(Opcode::kFlush, 14);
  expect_same(Opcode::kAtomicWrite, IBV_WR_ATOMIC_WRITE);
}

TEST(Values, CommandFlagsAreThoseOfVerbs) {
  expect_same(kCommandFence, IBV_SEND_FENCE);
  expect_same(kCommandSignaled, IBV_SEND_SIGNALED);
  expect_same(kCommandSolicited, IBV_SEND_SOLICITED);
  expect_same(kCommandInline, IBV_SEND_INLINE);
}

TEST(Values, CompletionsAreThoseOfVerbs) {
  expect_same(CompletionOpcode::kSend, IBV_WC_SEND);
  expect_same(CompletionOpcode::kRdmaWrite, IBV_WC_RDMA_WRITE);
  expect_same(CompletionOpcode::kRdmaRead, IBV_WC_RDMA_READ);
  expect_same(CompletionOpcode::kCompareSwap, IBV_WC_COMP_SWAP);
  expect_same(CompletionOpcode::kFetchAdd, IBV_WC_FETCH_ADD);
  expect_same(CompletionOpcode::kBindWindow, IBV_WC_BIND_MW);
  expect_same(CompletionOpcode::kLocalInvalidate, IBV_WC_LOCAL_INV);
  expect_same(CompletionOpcode::kFlush, 8);
  expect_same(CompletionOpcode::kAtomicWrite, IBV_WC_ATOMIC_WRITE);
  expect_same(CompletionOpcode::kReceive, IBV_WC_RECV);
  expect_same(CompletionOpcode::kReceiveRdmaWithImm, IBV_WC_RECV_RDMA_WITH_IMM);
  expect_same(kCompletionGrh, IBV_WC_GRH);
  expect_same(kCompletionWithImm, IBV_WC_WITH_IMM);
  expect_same(kCompletionWithInvalidate, IBV_WC_WITH_INV);
}

TEST(Values, StatusesAreThoseOfVerbs) {
  expect_same(CompletionStatus::kSuccess, IBV_WC_SUCCESS);
  expect_same(CompletionStatus::kLocalLengthError, IBV_WC_LOC_LEN_ERR);
  expect_same(CompletionStatus::kLocalQpOperationError, IBV_WC_LOC_QP_OP_ERR);
  expect_same(CompletionStatus::kLocalProtectionError, IBV_WC_LOC_PROT_ERR);
  expect_same(CompletionStatus::kFlushError, IBV_WC_WR_FLUSH_ERR);
  expect_same(CompletionStatus::kBindError, IBV_WC_MW_BIND_ERR);
  expect_same(CompletionStatus::kBadResponseError, IBV_WC_BAD_RESP_ERR);
  expect_same(CompletionStatus::kLocalAccessError, IBV_WC_LOC_ACCESS_ERR);
  expect_same(CompletionStatus::kRemoteInvalidRequestError, IBV_WC_REM_INV_REQ_ERR);
  expect_same(CompletionStatus::kRemoteAccessError, IBV_WC_REM_ACCESS_ERR);
  expect_same(CompletionStatus::kRemoteOperationError, IBV_WC_REM_OP_ERR);
  expect_same(CompletionStatus::kRetryExceededError, IBV_WC_RETRY_EXC_ERR);
  expect_same(CompletionStatus::kRnrRetryExceededError, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST(Strides, AreWholeLinesThatHoldTheLargerOfEntriesAndInlineData) {
  EXPECT_EQ(send_stride(0, 0), 64u);
  EXPECT_EQ(send_stride(1, 0), 128u);
  EXPECT_EQ(send_stride(4, 64), 128u);
  EXPECT_EQ(send_stride(4, 65), 192u);
  EXPECT_EQ(send_stride(16, 256), 320u);
  EXPECT_EQ(receive_stride(0), 16u);
  EXPECT_EQ(receive_stride(16), 272u);
}

TEST(Scoreboard, UnusedSegmentsFollowThePayload) {
  EXPECT_EQ(unused_segments(0), 0xff'ffff'ff00u);
  EXPECT_EQ(unused_segments(1), 0xff'ffff'fe00u);
  EXPECT_EQ(unused_segments(16), 0xff'ffff'fc00u);  // with segment 0, as in vector C4
  EXPECT_EQ(unused_segments(248), 0x80'0000'0000u);
  EXPECT_EQ(unused_segments(249), 0u);
  EXPECT_EQ(unused_segments(256), 0u);
  EXPECT_EQ(unused_segments(0xffff), 0u);
}

TEST(Phase, TurnsOverWithEachLap) {
  EXPECT_EQ(phase_of(0, 4), kPhaseBit);
  EXPECT_EQ(phase_of(3, 4), kPhaseBit);
  EXPECT_EQ(phase_of(4, 4), 0u);
  EXPECT_EQ(phase_of(8, 4), kPhaseBit);
  EXPECT_EQ(phase_of(0xffffffff, 4), 0u);
  EXPECT_EQ(phase_of(0, 4), kPhaseBit) << "the counter wraps in the middle of no lap";
}

TEST(Session, MemoryIsHeaderDoorbellsAndOnePagePerVcb) {
  EXPECT_EQ(session_bytes(0), 8192u);
  EXPECT_EQ(session_bytes(64), 8192u + 64 * 4096u);
}

}  // namespace
}  // namespace softhca::abi
