#include "libverbs-provider/abi34.hpp"

#include <gtest/gtest.h>

#include <iterator>

namespace softhca::provider::abi34 {
namespace {

TEST(Abi34, OperationsStandWhereTheLibraryLooksForThem) {
#define PLACE(name, place) \
  { #name, offsetof(ContextOps, name), (place) * sizeof(void*) }
  const struct {
    const char* name;
    std::size_t is;
    std::size_t should_be;
  } places[] = {
      PLACE(alloc_pd, 5),       PLACE(async_event, 7),      PLACE(cq_event, 12),
      PLACE(create_ah, 13),     PLACE(create_cq, 15),       PLACE(create_cq_ex, 16),
      PLACE(create_qp, 19),     PLACE(create_qp_ex, 20),    PLACE(create_srq, 22),
      PLACE(dealloc_pd, 26),    PLACE(dereg_mr, 28),        PLACE(destroy_ah, 29),
      PLACE(destroy_cq, 31),    PLACE(destroy_qp, 34),      PLACE(destroy_srq, 36),
      PLACE(free_context, 39),  PLACE(modify_qp, 47),       PLACE(modify_srq, 49),
      PLACE(poll_cq, 53),       PLACE(post_recv, 54),       PLACE(post_send, 55),
      PLACE(post_srq_recv, 57), PLACE(query_device_ex, 58), PLACE(query_port, 60),
      PLACE(query_qp, 61),      PLACE(query_srq, 64),       PLACE(reg_mr, 68),
      PLACE(req_notify_cq, 69), PLACE(resize_cq, 71),       PLACE(unimport_pd, 75),
  };
#undef PLACE
  for (const auto& place : places) {
    EXPECT_EQ(place.is, place.should_be) << place.name;
  }
}

TEST(Abi34, LibraryStructuresComeFirst) {
  EXPECT_EQ(offsetof(VerbsQp, qp), 0u);
  EXPECT_EQ(offsetof(VerbsSrq, srq), 0u);
  EXPECT_EQ(offsetof(VerbsMr, mr), 0u);
  EXPECT_EQ(offsetof(VerbsDevice, device), 0u);
}

}  // namespace
}  // namespace softhca::provider::abi34
