// SPDX-License-Identifier: Apache-2.0

// The layout that provider and daemon agree on, byte by byte. A change here is a new kAbiVersion:
// the two sides are installed apart.
#include <gtest/gtest.h>

#include "abi/control.hpp"

namespace softhca::abi {
namespace {

TEST(Layout, RequestHeader) {
  EXPECT_EQ(sizeof(RequestHeader), 8u);
  EXPECT_EQ(offsetof(RequestHeader, operation), 0u);
  EXPECT_EQ(offsetof(RequestHeader, tag), 4u);
}

TEST(Layout, ReplyHeader) {
  EXPECT_EQ(sizeof(ReplyHeader), 8u);
  EXPECT_EQ(offsetof(ReplyHeader, tag), 0u);
  EXPECT_EQ(offsetof(ReplyHeader, error), 4u);
}

TEST(Layout, HandleBody) {
  EXPECT_EQ(sizeof(HandleBody), 8u);
  EXPECT_EQ(offsetof(HandleBody, handle), 0u);
  EXPECT_EQ(offsetof(HandleBody, reserved), 4u);
}

TEST(Layout, HelloWithLevel) {
  EXPECT_EQ(sizeof(HelloWithLevel), 56u);
  EXPECT_EQ(offsetof(HelloWithLevel, hello), 0u);
  EXPECT_EQ(offsetof(HelloWithLevel, level), 16u);
  EXPECT_EQ(sizeof(HelloWithLevel::level), 40u);
}

TEST(Layout, HelloRequest) {
  EXPECT_EQ(sizeof(HelloRequest), 16u);
  EXPECT_EQ(offsetof(HelloRequest, magic), 0u);
  EXPECT_EQ(offsetof(HelloRequest, version), 8u);
  EXPECT_EQ(offsetof(HelloRequest, reserved), 12u);
}

TEST(Layout, HelloReply) {
  EXPECT_EQ(sizeof(HelloReply), 16u);
  EXPECT_EQ(offsetof(HelloReply, vcbs), 0u);
  EXPECT_EQ(offsetof(HelloReply, session), 4u);
  EXPECT_EQ(offsetof(HelloReply, daemon_pid), 8u);
  EXPECT_EQ(offsetof(HelloReply, reserved), 12u);
}

TEST(Layout, DeviceReply) {
  EXPECT_EQ(sizeof(DeviceReply), 136u);
  EXPECT_EQ(offsetof(DeviceReply, firmware), 0u);
  EXPECT_EQ(offsetof(DeviceReply, node_guid), 32u);
  EXPECT_EQ(offsetof(DeviceReply, sys_image_guid), 40u);
  EXPECT_EQ(offsetof(DeviceReply, max_mr_size), 48u);
  EXPECT_EQ(offsetof(DeviceReply, vendor_id), 56u);
  EXPECT_EQ(offsetof(DeviceReply, vendor_part_id), 60u);
  EXPECT_EQ(offsetof(DeviceReply, hw_version), 64u);
  EXPECT_EQ(offsetof(DeviceReply, max_qp), 68u);
  EXPECT_EQ(offsetof(DeviceReply, max_qp_wr), 72u);
  EXPECT_EQ(offsetof(DeviceReply, max_sge), 76u);
  EXPECT_EQ(offsetof(DeviceReply, max_cq), 80u);
  EXPECT_EQ(offsetof(DeviceReply, max_cqe), 84u);
  EXPECT_EQ(offsetof(DeviceReply, max_mr), 88u);
  EXPECT_EQ(offsetof(DeviceReply, max_pd), 92u);
  EXPECT_EQ(offsetof(DeviceReply, max_ah), 96u);
  EXPECT_EQ(offsetof(DeviceReply, max_srq), 100u);
  EXPECT_EQ(offsetof(DeviceReply, max_srq_wr), 104u);
  EXPECT_EQ(offsetof(DeviceReply, max_srq_sge), 108u);
  EXPECT_EQ(offsetof(DeviceReply, max_rd_atomic), 112u);
  EXPECT_EQ(offsetof(DeviceReply, max_inline), 116u);
  EXPECT_EQ(offsetof(DeviceReply, completion_vectors), 120u);
  EXPECT_EQ(offsetof(DeviceReply, max_mw), 124u);
  EXPECT_EQ(offsetof(DeviceReply, capabilities), 128u);
  EXPECT_EQ(offsetof(DeviceReply, reserved), 132u);
}

TEST(Layout, PortReply) {
  EXPECT_EQ(sizeof(PortReply), 40u);
  EXPECT_EQ(offsetof(PortReply, state), 0u);
  EXPECT_EQ(offsetof(PortReply, max_mtu), 4u);
  EXPECT_EQ(offsetof(PortReply, active_mtu), 8u);
  EXPECT_EQ(offsetof(PortReply, gid_entries), 12u);
  EXPECT_EQ(offsetof(PortReply, max_message_bytes), 16u);
  EXPECT_EQ(offsetof(PortReply, bad_pkey_count), 20u);
  EXPECT_EQ(offsetof(PortReply, qkey_violations), 24u);
  EXPECT_EQ(offsetof(PortReply, active_speed), 28u);
  EXPECT_EQ(offsetof(PortReply, active_width), 32u);
  EXPECT_EQ(offsetof(PortReply, reserved), 36u);
}

TEST(Layout, AllocSharedRequest) {
  EXPECT_EQ(sizeof(AllocSharedRequest), 8u);
  EXPECT_EQ(offsetof(AllocSharedRequest, bytes), 0u);
}

TEST(Layout, AllocSharedReply) {
  EXPECT_EQ(sizeof(AllocSharedReply), 16u);
  EXPECT_EQ(offsetof(AllocSharedReply, handle), 0u);
  EXPECT_EQ(offsetof(AllocSharedReply, reserved), 4u);
  EXPECT_EQ(offsetof(AllocSharedReply, inode), 8u);
}

TEST(Layout, MrExtent) {
  EXPECT_EQ(sizeof(MrExtent), 32u);
  EXPECT_EQ(offsetof(MrExtent, addr), 0u);
  EXPECT_EQ(offsetof(MrExtent, length), 8u);
  EXPECT_EQ(offsetof(MrExtent, offset), 16u);
  EXPECT_EQ(offsetof(MrExtent, handle), 24u);
  EXPECT_EQ(offsetof(MrExtent, kind), 28u);
}

TEST(Layout, RegisterMrRequest) {
  EXPECT_EQ(sizeof(RegisterMrRequest), 40u);
  EXPECT_EQ(offsetof(RegisterMrRequest, addr), 0u);
  EXPECT_EQ(offsetof(RegisterMrRequest, length), 8u);
  EXPECT_EQ(offsetof(RegisterMrRequest, iova), 16u);
  EXPECT_EQ(offsetof(RegisterMrRequest, access), 24u);
  EXPECT_EQ(offsetof(RegisterMrRequest, pd), 28u);
  EXPECT_EQ(offsetof(RegisterMrRequest, extents), 32u);
  EXPECT_EQ(offsetof(RegisterMrRequest, reserved), 36u);
}

TEST(Layout, RegisterMrReply) {
  EXPECT_EQ(sizeof(RegisterMrReply), 16u);
  EXPECT_EQ(offsetof(RegisterMrReply, handle), 0u);
  EXPECT_EQ(offsetof(RegisterMrReply, lkey), 4u);
  EXPECT_EQ(offsetof(RegisterMrReply, rkey), 8u);
  EXPECT_EQ(offsetof(RegisterMrReply, reserved), 12u);
}

TEST(Layout, CreateCqRequest) {
  EXPECT_EQ(sizeof(CreateCqRequest), 16u);
  EXPECT_EQ(offsetof(CreateCqRequest, user_handle), 0u);
  EXPECT_EQ(offsetof(CreateCqRequest, entries), 8u);
  EXPECT_EQ(offsetof(CreateCqRequest, channel), 12u);
}

TEST(Layout, CreateCqReply) {
  EXPECT_EQ(sizeof(CreateCqReply), 32u);
  EXPECT_EQ(offsetof(CreateCqReply, handle), 0u);
  EXPECT_EQ(offsetof(CreateCqReply, entries), 4u);
  EXPECT_EQ(offsetof(CreateCqReply, ring), 8u);
  EXPECT_EQ(offsetof(CreateCqReply, new_segment), 24u);
  EXPECT_EQ(offsetof(CreateCqReply, reserved), 28u);
}

TEST(Layout, ResizeCqRequest) {
  EXPECT_EQ(sizeof(ResizeCqRequest), 8u);
  EXPECT_EQ(offsetof(ResizeCqRequest, handle), 0u);
  EXPECT_EQ(offsetof(ResizeCqRequest, entries), 4u);
}

TEST(Layout, ModifyCqRequest) {
  EXPECT_EQ(sizeof(ModifyCqRequest), 8u);
  EXPECT_EQ(offsetof(ModifyCqRequest, handle), 0u);
  EXPECT_EQ(offsetof(ModifyCqRequest, count), 4u);
  EXPECT_EQ(offsetof(ModifyCqRequest, period), 6u);
}

TEST(Layout, ContextToken) { EXPECT_EQ(sizeof(ContextToken), 16u); }

TEST(Layout, ImportMrReply) {
  EXPECT_EQ(sizeof(ImportMrReply), 32u);
  EXPECT_EQ(offsetof(ImportMrReply, length), 0u);
  EXPECT_EQ(offsetof(ImportMrReply, iova), 8u);
  EXPECT_EQ(offsetof(ImportMrReply, lkey), 16u);
  EXPECT_EQ(offsetof(ImportMrReply, rkey), 20u);
  EXPECT_EQ(offsetof(ImportMrReply, access), 24u);
  EXPECT_EQ(offsetof(ImportMrReply, reserved), 28u);
}

TEST(Layout, CreateSrqRequest) {
  EXPECT_EQ(sizeof(CreateSrqRequest), 24u);
  EXPECT_EQ(offsetof(CreateSrqRequest, user_handle), 0u);
  EXPECT_EQ(offsetof(CreateSrqRequest, pd), 8u);
  EXPECT_EQ(offsetof(CreateSrqRequest, max_wr), 12u);
  EXPECT_EQ(offsetof(CreateSrqRequest, max_sge), 16u);
  EXPECT_EQ(offsetof(CreateSrqRequest, limit), 20u);
}

TEST(Layout, CreateXrcSrqRequest) {
  EXPECT_EQ(sizeof(CreateXrcSrqRequest), 32u);
  EXPECT_EQ(offsetof(CreateXrcSrqRequest, srq), 0u);
  EXPECT_EQ(offsetof(CreateXrcSrqRequest, xrc_domain), 24u);
  EXPECT_EQ(offsetof(CreateXrcSrqRequest, cq), 28u);
}

TEST(Layout, OpenXrcDomainRequest) {
  EXPECT_EQ(sizeof(OpenXrcDomainRequest), 24u);
  EXPECT_EQ(offsetof(OpenXrcDomainRequest, device), 0u);
  EXPECT_EQ(offsetof(OpenXrcDomainRequest, inode), 8u);
  EXPECT_EQ(offsetof(OpenXrcDomainRequest, flags), 16u);
  EXPECT_EQ(offsetof(OpenXrcDomainRequest, reserved), 20u);
}

TEST(Layout, OpenQpRequest) {
  EXPECT_EQ(sizeof(OpenQpRequest), 16u);
  EXPECT_EQ(offsetof(OpenQpRequest, user_handle), 0u);
  EXPECT_EQ(offsetof(OpenQpRequest, xrc_domain), 8u);
  EXPECT_EQ(offsetof(OpenQpRequest, qpn), 12u);
}

TEST(Layout, CreateSrqReply) {
  EXPECT_EQ(sizeof(CreateSrqReply), 40u);
  EXPECT_EQ(offsetof(CreateSrqReply, handle), 0u);
  EXPECT_EQ(offsetof(CreateSrqReply, entries), 4u);
  EXPECT_EQ(offsetof(CreateSrqReply, max_wr), 8u);
  EXPECT_EQ(offsetof(CreateSrqReply, max_sge), 12u);
  EXPECT_EQ(offsetof(CreateSrqReply, ring), 16u);
  EXPECT_EQ(offsetof(CreateSrqReply, new_segment), 32u);
  EXPECT_EQ(offsetof(CreateSrqReply, number), 36u);
}

TEST(Layout, ModifySrqRequest) {
  EXPECT_EQ(sizeof(ModifySrqRequest), 8u);
  EXPECT_EQ(offsetof(ModifySrqRequest, handle), 0u);
  EXPECT_EQ(offsetof(ModifySrqRequest, limit), 4u);
}

TEST(Layout, ResizeSrqRequest) {
  EXPECT_EQ(sizeof(ResizeSrqRequest), 16u);
  EXPECT_EQ(offsetof(ResizeSrqRequest, handle), 0u);
  EXPECT_EQ(offsetof(ResizeSrqRequest, max_wr), 4u);
  EXPECT_EQ(offsetof(ResizeSrqRequest, limit), 8u);
  EXPECT_EQ(offsetof(ResizeSrqRequest, sets_limit), 12u);
}

TEST(Layout, QuerySrqReply) {
  EXPECT_EQ(sizeof(QuerySrqReply), 16u);
  EXPECT_EQ(offsetof(QuerySrqReply, max_wr), 0u);
  EXPECT_EQ(offsetof(QuerySrqReply, max_sge), 4u);
  EXPECT_EQ(offsetof(QuerySrqReply, limit), 8u);
  EXPECT_EQ(offsetof(QuerySrqReply, reserved), 12u);
}

TEST(Layout, CreateQpRequest) {
  EXPECT_EQ(sizeof(CreateQpRequest), 56u);
  EXPECT_EQ(offsetof(CreateQpRequest, user_handle), 0u);
  EXPECT_EQ(offsetof(CreateQpRequest, pd), 8u);
  EXPECT_EQ(offsetof(CreateQpRequest, type), 12u);
  EXPECT_EQ(offsetof(CreateQpRequest, send_cq), 16u);
  EXPECT_EQ(offsetof(CreateQpRequest, receive_cq), 20u);
  EXPECT_EQ(offsetof(CreateQpRequest, srq), 24u);
  EXPECT_EQ(offsetof(CreateQpRequest, max_send_wr), 28u);
  EXPECT_EQ(offsetof(CreateQpRequest, max_receive_wr), 32u);
  EXPECT_EQ(offsetof(CreateQpRequest, max_send_sge), 36u);
  EXPECT_EQ(offsetof(CreateQpRequest, max_receive_sge), 40u);
  EXPECT_EQ(offsetof(CreateQpRequest, max_inline), 44u);
  EXPECT_EQ(offsetof(CreateQpRequest, signal_all), 48u);
  EXPECT_EQ(offsetof(CreateQpRequest, xrc_domain), 52u);
}

TEST(Layout, CreateQpReply) {
  EXPECT_EQ(sizeof(CreateQpReply), 72u);
  EXPECT_EQ(offsetof(CreateQpReply, qpn), 0u);
  EXPECT_EQ(offsetof(CreateQpReply, send_entries), 4u);
  EXPECT_EQ(offsetof(CreateQpReply, receive_entries), 8u);
  EXPECT_EQ(offsetof(CreateQpReply, max_send_wr), 12u);
  EXPECT_EQ(offsetof(CreateQpReply, max_receive_wr), 16u);
  EXPECT_EQ(offsetof(CreateQpReply, max_send_sge), 20u);
  EXPECT_EQ(offsetof(CreateQpReply, max_receive_sge), 24u);
  EXPECT_EQ(offsetof(CreateQpReply, max_inline), 28u);
  EXPECT_EQ(offsetof(CreateQpReply, send_ring), 32u);
  EXPECT_EQ(offsetof(CreateQpReply, receive_ring), 48u);
  EXPECT_EQ(offsetof(CreateQpReply, new_segment), 64u);
  EXPECT_EQ(offsetof(CreateQpReply, reserved), 68u);
}

TEST(Layout, AddressVector) {
  EXPECT_EQ(sizeof(AddressVector), 32u);
  EXPECT_EQ(offsetof(AddressVector, dgid), 0u);
  EXPECT_EQ(offsetof(AddressVector, flow_label), 16u);
  EXPECT_EQ(offsetof(AddressVector, sgid_index), 20u);
  EXPECT_EQ(offsetof(AddressVector, hop_limit), 21u);
  EXPECT_EQ(offsetof(AddressVector, traffic_class), 22u);
  EXPECT_EQ(offsetof(AddressVector, is_global), 23u);
  EXPECT_EQ(offsetof(AddressVector, sl), 24u);
  EXPECT_EQ(offsetof(AddressVector, static_rate), 25u);
  EXPECT_EQ(offsetof(AddressVector, port_num), 26u);
  EXPECT_EQ(offsetof(AddressVector, src_path_bits), 27u);
  EXPECT_EQ(offsetof(AddressVector, dlid), 28u);
  EXPECT_EQ(offsetof(AddressVector, reserved), 30u);
}

TEST(Layout, QpAttributes) {
  EXPECT_EQ(sizeof(QpAttributes), 124u);
  EXPECT_EQ(offsetof(QpAttributes, mask), 0u);
  EXPECT_EQ(offsetof(QpAttributes, qp_state), 4u);
  EXPECT_EQ(offsetof(QpAttributes, cur_qp_state), 8u);
  EXPECT_EQ(offsetof(QpAttributes, path_mtu), 12u);
  EXPECT_EQ(offsetof(QpAttributes, path_mig_state), 16u);
  EXPECT_EQ(offsetof(QpAttributes, qkey), 20u);
  EXPECT_EQ(offsetof(QpAttributes, rq_psn), 24u);
  EXPECT_EQ(offsetof(QpAttributes, sq_psn), 28u);
  EXPECT_EQ(offsetof(QpAttributes, dest_qp_num), 32u);
  EXPECT_EQ(offsetof(QpAttributes, access_flags), 36u);
  EXPECT_EQ(offsetof(QpAttributes, av), 40u);
  EXPECT_EQ(offsetof(QpAttributes, alt_av), 72u);
  EXPECT_EQ(offsetof(QpAttributes, pkey_index), 104u);
  EXPECT_EQ(offsetof(QpAttributes, alt_pkey_index), 106u);
  EXPECT_EQ(offsetof(QpAttributes, en_sqd_async_notify), 108u);
  EXPECT_EQ(offsetof(QpAttributes, sq_draining), 109u);
  EXPECT_EQ(offsetof(QpAttributes, max_rd_atomic), 110u);
  EXPECT_EQ(offsetof(QpAttributes, max_dest_rd_atomic), 111u);
  EXPECT_EQ(offsetof(QpAttributes, min_rnr_timer), 112u);
  EXPECT_EQ(offsetof(QpAttributes, port_num), 113u);
  EXPECT_EQ(offsetof(QpAttributes, timeout), 114u);
  EXPECT_EQ(offsetof(QpAttributes, retry_cnt), 115u);
  EXPECT_EQ(offsetof(QpAttributes, rnr_retry), 116u);
  EXPECT_EQ(offsetof(QpAttributes, alt_port_num), 117u);
  EXPECT_EQ(offsetof(QpAttributes, alt_timeout), 118u);
  EXPECT_EQ(offsetof(QpAttributes, reserved), 119u);
}

TEST(Layout, ModifyQpRequest) {
  EXPECT_EQ(sizeof(ModifyQpRequest), 132u);
  EXPECT_EQ(offsetof(ModifyQpRequest, qpn), 0u);
  EXPECT_EQ(offsetof(ModifyQpRequest, send_sequence), 4u);
  EXPECT_EQ(offsetof(ModifyQpRequest, attributes), 8u);
}

TEST(Layout, QueryQpReply) {
  EXPECT_EQ(sizeof(QueryQpReply), 124u);
  EXPECT_EQ(offsetof(QueryQpReply, attributes), 0u);
}

TEST(Layout, MulticastRequest) {
  EXPECT_EQ(sizeof(MulticastRequest), 24u);
  EXPECT_EQ(offsetof(MulticastRequest, qpn), 0u);
  EXPECT_EQ(offsetof(MulticastRequest, reserved), 4u);
  EXPECT_EQ(offsetof(MulticastRequest, group), 8u);
}

TEST(Layout, CreateAhRequest) {
  EXPECT_EQ(sizeof(CreateAhRequest), 40u);
  EXPECT_EQ(offsetof(CreateAhRequest, pd), 0u);
  EXPECT_EQ(offsetof(CreateAhRequest, reserved), 4u);
  EXPECT_EQ(offsetof(CreateAhRequest, av), 8u);
}

TEST(Layout, OpenDatagramClientRequest) {
  EXPECT_EQ(sizeof(OpenDatagramClientRequest), 32u);
  EXPECT_EQ(offsetof(OpenDatagramClientRequest, magic), 0u);
  EXPECT_EQ(offsetof(OpenDatagramClientRequest, version), 8u);
  EXPECT_EQ(offsetof(OpenDatagramClientRequest, qpn), 12u);
  EXPECT_EQ(offsetof(OpenDatagramClientRequest, selector), 16u);
  EXPECT_EQ(offsetof(OpenDatagramClientRequest, flags), 20u);
  EXPECT_EQ(offsetof(OpenDatagramClientRequest, buffers), 24u);
  EXPECT_EQ(offsetof(OpenDatagramClientRequest, reserved), 28u);
}

TEST(Layout, Datagrams) {
  EXPECT_EQ(sizeof(DatagramQuotaBody), 8u);
  EXPECT_EQ(offsetof(DatagramQuotaBody, quota), 0u);
  EXPECT_EQ(sizeof(DatagramHead), 52u);
  EXPECT_EQ(offsetof(DatagramHead, local), 0u);
  EXPECT_EQ(offsetof(DatagramHead, peer), 16u);
  EXPECT_EQ(offsetof(DatagramHead, qpn), 32u);
  EXPECT_EQ(offsetof(DatagramHead, qkey), 36u);
  EXPECT_EQ(offsetof(DatagramHead, flow_label), 40u);
  EXPECT_EQ(offsetof(DatagramHead, traffic_class), 44u);
  EXPECT_EQ(offsetof(DatagramHead, hop_limit), 45u);
  EXPECT_EQ(offsetof(DatagramHead, pkey), 46u);
  EXPECT_EQ(offsetof(DatagramHead, bytes), 48u);
  EXPECT_EQ(sizeof(ReceiveDatagramReply), 8u);
  EXPECT_EQ(offsetof(ReceiveDatagramReply, event), 0u);
  EXPECT_EQ(offsetof(ReceiveDatagramReply, drained), 4u);
}

}  // namespace
}  // namespace softhca::abi
