// SPDX-License-Identifier: Apache-2.0
// What the controller sees of the cluster.
#include <gtest/gtest.h>

#include "pool/k8s/controller/cluster_view.h"

namespace farcall::k8s {
namespace {

TEST(K8sView, AnAnswerThatIsLateBringsNoClaimBack) {
  auto view = ClusterView::Make({"https://127.0.0.1:1", "", ""}, /*has_elastic=*/true,
                                [](const std::optional<ClaimKey>&) {});
  ASSERT_TRUE(view.ok()) << view.status().message();
  // Its finalizer was removed, the watch has told that it is gone, and now the answer is read.
  ClaimObject claim;
  claim.space = "team";
  claim.name = "data";
  claim.uid = "uid-1";
  claim.status.phase = "Bound";
  (*view)->Update(claim);
  EXPECT_TRUE((*view)->AllClaims().empty());
  EXPECT_FALSE((*view)->KeyOf("uid-1").has_value());
}

}  // namespace
}  // namespace farcall::k8s
