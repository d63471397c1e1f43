// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/abi34.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>

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
      PLACE(alloc_null_mr, 3),    PLACE(alloc_pd, 5),      PLACE(async_event, 7),
      PLACE(cq_event, 12),        PLACE(create_ah, 13),    PLACE(create_cq, 15),
      PLACE(create_cq_ex, 16),    PLACE(create_qp, 19),    PLACE(create_qp_ex, 20),
      PLACE(create_srq, 22),      PLACE(dealloc_pd, 26),   PLACE(dereg_mr, 28),
      PLACE(destroy_ah, 29),      PLACE(destroy_cq, 31),   PLACE(destroy_qp, 34),
      PLACE(destroy_srq, 36),     PLACE(free_context, 39), PLACE(modify_cq, 45),
      PLACE(modify_qp, 47),       PLACE(modify_srq, 49),   PLACE(poll_cq, 53),
      PLACE(post_recv, 54),       PLACE(post_send, 55),    PLACE(post_srq_recv, 57),
      PLACE(query_device_ex, 58), PLACE(query_port, 60),   PLACE(query_qp, 61),
      PLACE(query_srq, 64),       PLACE(reg_mr, 68),       PLACE(req_notify_cq, 69),
      PLACE(resize_cq, 71),       PLACE(unimport_pd, 75),
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

/// What `nm` says of the plugin's dynamic symbols: "T name" for its own, "U name@version".
std::set<std::string> dynamic_symbols(const std::string& number) {
  std::set<std::string> symbols;
  const std::string plugin = PROVIDER_DRIVER "-rdmav" + number + ".so";
  FILE* out = ::popen(("nm --dynamic --format=posix " + plugin).c_str(), "r");
  if (out == nullptr) return symbols;
  char name[256];
  char kind[4];
  char line[512];
  while (std::fgets(line, sizeof line, out) != nullptr)
    if (std::sscanf(line, "%255s %3s", name, kind) == 2)
      symbols.insert(std::string(kind) + " " + name);
  ::pclose(out);
  return symbols;
}

class Plugin : public testing::TestWithParam<const char*> {};

TEST_P(Plugin, ExportsNothingAndImportsTheInterfaceItWasBuiltFor) {
  const std::string number = GetParam();
  std::set<std::string> of_verbs;
  const std::set<std::string> all = dynamic_symbols(number);
  ASSERT_FALSE(all.empty());
  for (const std::string& symbol : all) {
    EXPECT_TRUE(symbol[0] == 'U' || symbol[0] == 'w') << symbol;
    if (symbol.find("IBVERBS") != std::string::npos) of_verbs.insert(symbol);
    EXPECT_EQ(symbol.find("GLIBCXX"), std::string::npos) << symbol;
  }
  EXPECT_EQ(of_verbs, (std::set<std::string>{
                          "U _verbs_init_and_alloc_context@IBVERBS_PRIVATE_" + number,
                          "U ibv_is_fork_initialized@IBVERBS_1.13",
                          "U verbs_register_driver_" + number + "@IBVERBS_PRIVATE_" + number,
                          "U verbs_set_ops@IBVERBS_PRIVATE_" + number,
                          "U verbs_uninit_context@IBVERBS_PRIVATE_" + number,
                      }));
}
INSTANTIATE_TEST_SUITE_P(Interfaces, Plugin, testing::Values("34", "57", "59", "64", "65"));

}  // namespace
}  // namespace softhca::provider::abi34
