// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/records/qp_failure.hpp"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

namespace softhca::engine {
namespace {

TEST(QpFailure, EachHasAWordOfItsOwnForLabelsAndATextForPeople) {
  std::set<std::string> names, texts;
  for (unsigned i = 1; i < static_cast<unsigned>(QpFailure::kCount); ++i) {
    const auto failure = static_cast<QpFailure>(i);
    EXPECT_TRUE(std::regex_match(name_of(failure), std::regex("[a-z][a-z_]*"))) << i;
    EXPECT_TRUE(names.insert(name_of(failure)).second) << name_of(failure);
    EXPECT_NE(std::string(text_of(failure)), "") << i;
    EXPECT_TRUE(texts.insert(text_of(failure)).second) << text_of(failure);
  }
}

TEST(QpFailure, OfACommandIsItsStatus) {
  std::set<QpFailure> found;
  for (const Verdict verdict :
       {Verdict::kLocalLength, Verdict::kLocalQpOperation, Verdict::kLocalProtection,
        Verdict::kBadResponse, Verdict::kWindowBind, Verdict::kRemoteInvalidRequest,
        Verdict::kRemoteAccess, Verdict::kRemoteOperation, Verdict::kRetryExceeded,
        Verdict::kRnrRetryExceeded}) {
    const QpFailure failure = failure_of(verdict);
    EXPECT_STREQ(text_of(failure), softhca::name_of(verdict));
    EXPECT_TRUE(found.insert(failure).second) << softhca::name_of(verdict);
  }
  EXPECT_EQ(failure_of(Verdict::kFlushed), QpFailure::kFatal);
}

}  // namespace
}  // namespace softhca::engine
