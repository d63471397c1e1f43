// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/records/counters.hpp"

namespace softhca::engine {

const char* name_of(FrameDrop reason) {
  switch (reason) {
    case FrameDrop::kUnknownAddress:
      return "unknown_address";
    case FrameDrop::kUnknownQueuePair:
      return "unknown_queue_pair";
    case FrameDrop::kForeignPeer:
      return "foreign_peer";
    case FrameDrop::kForeignVlan:
      return "foreign_vlan";
    case FrameDrop::kWrongTransport:
      return "wrong_transport";
    case FrameDrop::kPartitionKey:
      return "partition_key";
    case FrameDrop::kNoGroupMember:
      return "no_group_member";
    case FrameDrop::kPortDown:
      return "port_down";
    case FrameDrop::kCount:
      break;
  }
  return "unknown";
}

const char* name_of(DoorbellCause cause) {
  switch (cause) {
    case DoorbellCause::kOther:
      return "other";
    case DoorbellCause::kNoVcb:
      return "no_vcb";
    case DoorbellCause::kChain:
      return "chain";
    case DoorbellCause::kCount:
      break;
  }
  return "unknown";
}

const char* name_of(CommandStage stage) {
  switch (stage) {
    case CommandStage::kPost:
      return "post";
    case CommandStage::kCollect:
      return "collect";
    case CommandStage::kKick:
      return "kick";
    case CommandStage::kTransmit:
      return "transmit";
    case CommandStage::kAcknowledge:
      return "acknowledge";
    case CommandStage::kCount:
      break;
  }
  return "unknown";
}

const char* name_of(WaitCause cause) {
  switch (cause) {
    case WaitCause::kEngine:
      return "engine";
    case WaitCause::kNoVcb:
      return "no_vcb";
    case WaitCause::kNoPcb:
      return "no_pcb";
    case WaitCause::kKickList:
      return "kick_list";
    case WaitCause::kExecutionCredit:
      return "execution_credit";
    case WaitCause::kCompletionCredit:
      return "completion_credit";
    case WaitCause::kRate:
      return "rate";
    case WaitCause::kPeerRate:
      return "peer_rate";
    case WaitCause::kMemory:
      return "memory";
    case WaitCause::kOrder:
      return "order";
    case WaitCause::kReceiver:
      return "receiver";
    case WaitCause::kAcknowledgement:
      return "acknowledgement";
    case WaitCause::kCongestion:
      return "congestion";
    case WaitCause::kNeighbour:
      return "neighbour";
    case WaitCause::kPort:
      return "port";
    case WaitCause::kCount:
      break;
  }
  return "unknown";
}

const char* name_of(Guarantee guarantee) {
  switch (guarantee) {
    case Guarantee::kPcbs:
      return "pcbs";
    case Guarantee::kExecutionCredits:
      return "execution_credits";
    case Guarantee::kCompletionCredits:
      return "completion_credits";
    case Guarantee::kEngineTime:
      return "engine_time";
    case Guarantee::kCount:
      break;
  }
  return "unknown";
}

const char* name_of(SendQueueCause cause) {
  switch (cause) {
    case SendQueueCause::kNoPcb:
      return "no_pcb";
    case SendQueueCause::kOrder:
      return "order";
    case SendQueueCause::kKickListFull:
      return "kick_list_full";
    case SendQueueCause::kRate:
      return "rate";
    case SendQueueCause::kCount:
      break;
  }
  return "unknown";
}

const char* name_of(Kick kick) {
  switch (kick) {
    case Kick::kWhole:
      return "whole";
    case Kick::kVirtual:
      return "virtual";
    case Kick::kExplicit:
      return "explicit";
    case Kick::kCount:
      break;
  }
  return "unknown";
}

}  // namespace softhca::engine
