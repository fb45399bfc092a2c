// SPDX-License-Identifier: Apache-2.0
// GradientSync: what a LibTorch program gets from its gradients.
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "tests/torch/ranks.h"

namespace {

using namespace torch_test;

constexpr int kRanks = 4;

// What every rank's parameters are after some steps.
std::vector<std::vector<float>> train(const Options& options, int steps) {
  std::vector<std::vector<float>> results(kRanks);
  requireNone(onRanks(kRanks, [&](int rank, sparsecollComm_t comm) {
    auto net = makeNet();
    GradientSync sync(net->parameters(), comm, options);
    torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    for (int step = 0; step < steps; ++step) {
      lossOf(net, step, rank).backward();
      sync.step();
      sgd.step();
      sync.zeroGrad();
    }
    results[static_cast<size_t>(rank)] = flat(net);
  }));
  return results;
}

}  // namespace

TEST_CASE("torch: one dense step on four ranks is a step with the batches of all") {
  std::vector<std::vector<float>> results(kRanks);
  requireNone(onRanks(kRanks, [&](int rank, sparsecollComm_t comm) {
    auto net = makeNet();
    net->to(torch::kDouble);
    GradientSync sync(net->parameters(), comm, sparse("dense", 1));
    torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.5));
    torch::mse_loss(net->forward(pattern({8, 12}, rank).to(torch::kDouble)),
                    pattern({8, 5}, rank + 50).to(torch::kDouble))
        .backward();
    sync.step();
    sgd.step();
    net->to(torch::kFloat);
    results[static_cast<size_t>(rank)] = flat(net);
  }));
  auto net = makeNet();
  net->to(torch::kDouble);
  std::vector<torch::Tensor> x, y;
  for (int rank = 0; rank < kRanks; ++rank) {
    x.push_back(pattern({8, 12}, rank).to(torch::kDouble));
    y.push_back(pattern({8, 5}, rank + 50).to(torch::kDouble));
  }
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.5));
  torch::mse_loss(net->forward(torch::cat(x)), torch::cat(y)).backward();
  sgd.step();
  net->to(torch::kFloat);
  const auto expected = flat(net), start = flat(makeNet());
  for (const auto& result : results) {
    CHECK(equalBits(result, results[0]));
    for (size_t i = 0; i < expected.size(); ++i) REQUIRE(std::abs(result[i] - expected[i]) < 1e-6f);
  }
  CHECK_FALSE(equalBits(expected, start));
}

TEST_CASE("torch: replicas stay bit-equal, and overlap and buckets change nothing that they should not") {
  for (const char* preset : {"topka", "micro", "deft", "dense"}) {
    INFO(preset);
    auto options = sparse(preset, 0.05);
    options.bucketBytes = 2000;
    const auto plain = train(options, 20);
    for (const auto& rank : plain) CHECK(equalBits(rank, plain[0]));
    options.overlap = true;
    const auto overlapped = train(options, 20);
    for (const auto& rank : overlapped) CHECK(equalBits(rank, plain[0]));
  }
  const auto sparseResult = train(sparse("topka", 0.05), 5), denseResult = train(sparse("dense", 1), 5);
  CHECK_FALSE(equalBits(sparseResult[0], denseResult[0]));
}

TEST_CASE("torch: buckets hold one type and rule each, the last parameters first") {
  requireNone(onRanks(2, [&](int, sparsecollComm_t comm) {
    auto net = makeNet();
    auto parameters = net->parameters();
    GradientSync whole(parameters, comm, sparse("topka", 0.1));
    need(whole.buckets() == 1, "one bucket");
    need(whole.info(0).n == flat(net).size(), "all of it");

    auto options = sparse("micro", 0.1);
    options.vectorDensity = 1;
    GradientSync rules(parameters, comm, options);
    need(rules.buckets() == 2, "matrices and vectors");
    const size_t vectors = rules.info(0).collective == sparsecollCollDense ? 0 : 1;
    need(rules.info(vectors).collective == sparsecollCollDense, "vectors are dense");
    need(rules.info(vectors).n == 40 + 40 + 40 + 30 + 5, "all vectors");
    rules.step();
    rules.setDensity(0.05);
    rules.step();

    options = sparse("topka", 0.1);
    options.bucketBytes = 5000;
    GradientSync cut(parameters, comm, options);
    need(cut.buckets() == 3, "the last layer and a bias; the second matrix; the rest");
    need(cut.info(0).n == 5 + 150 + 30, "a bucket closes where the next tensor is too much");

    parameters[0].set_requires_grad(false).mutable_grad() = at::Tensor();
    parameters[1] = parameters[1].to(torch::kDouble).detach().requires_grad_();
    GradientSync types(parameters, comm, sparse("topka", 0.1));
    need(types.buckets() == 2, "two types");
    need(types.info(1).n == 40, "the double one");
    types.step();
    need(!parameters[0].grad().defined(), "left alone");
  }));
}

TEST_CASE("torch: no gradient is zero, a sparse one is dense, and a strided one keeps its strides") {
  std::vector<torch::Tensor> unused(2), embedded(2), strided(2);
  requireNone(onRanks(2, [&](int rank, sparsecollComm_t comm) {
    const auto r = static_cast<size_t>(rank);
    auto none = torch::ones({6}).requires_grad_();
    auto table = torch::ones({5, 3}).requires_grad_();
    auto weight = torch::ones({2, 4, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
    GradientSync sync({none, table, weight}, comm, sparse("dense", 1));
    // As an optimiser of LibTorch 2 does it: none has a gradient now.
    for (auto* parameter : {&none, &table, &weight}) parameter->mutable_grad() = at::Tensor();
    const auto indices = torch::tensor({1, 3, 3}, torch::kLong);
    auto loss = torch::embedding(table, indices, -1, false, true).sum() * (1.0 + rank);
    loss = loss + (weight * pattern({2, 4, 3, 3}, rank)).sum();
    if (rank == 1) loss = loss + (none * 4).sum();
    loss.backward();
    if (!table.grad().is_sparse()) throw std::runtime_error("this test wants a sparse gradient");
    sync.step();
    unused[r] = none.grad().clone();
    embedded[r] = table.grad().clone();
    strided[r] = weight.grad().clone();
    if (weight.grad().strides() != weight.strides()) throw std::runtime_error("strides");
    if (weight.grad().storage().data() != sync.gradients(0).storage().data()) throw std::runtime_error("no view");
  }));
  for (size_t rank = 0; rank < 2; ++rank) {
    CHECK(unused[rank].equal(torch::full({6}, 2.0)));
    CHECK(embedded[rank].equal(torch::tensor({0.0f, 1.5f, 0.0f, 3.0f, 0.0f}).unsqueeze(1).expand({5, 3})));
    CHECK(strided[rank].allclose((pattern({2, 4, 3, 3}, 0) + pattern({2, 4, 3, 3}, 1)) / 2));
  }
}

TEST_CASE("torch: zero_grad of the optimiser works with gradients that are views") {
  std::vector<float> results[2];
  for (const bool own : {false, true}) {
    requireNone(onRanks(2, [&](int rank, sparsecollComm_t comm) {
      auto net = makeNet();
      GradientSync sync(net->parameters(), comm, sparse("topka", 0.05));
      torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.05));
      for (int step = 0; step < 5; ++step) {
        lossOf(net, step, rank).backward();
        sync.step();
        sgd.step();
        own ? sync.zeroGrad() : sgd.zero_grad();
      }
      if (rank == 0) results[own] = flat(net);
    }));
  }
  CHECK(equalBits(results[0], results[1]));
}

TEST_CASE("torch: several backward passes add up to a step") {
  std::vector<float> results[2];
  for (const bool overlap : {false, true}) {
    auto options = sparse("topka", 0.05);
    options.overlap = overlap;
    options.bucketBytes = 2000;
    requireNone(onRanks(2, [&](int rank, sparsecollComm_t comm) {
      auto net = makeNet();
      GradientSync sync(net->parameters(), comm, options);
      for (int step = 0; step < 3; ++step) {
        sync.zeroGrad();
        sync.setLastBackward(false);
        lossOf(net, step, rank).backward();
        lossOf(net, step + 50, rank).backward();
        sync.setLastBackward(true);
        lossOf(net, step + 90, rank).backward();
        sync.step();
      }
      if (rank == 0)
        for (size_t i = 0; i < sync.buckets(); ++i) {
          const auto& bucket = sync.gradients(i);
          results[overlap].insert(results[overlap].end(), bucket.data_ptr<float>(),
                                  bucket.data_ptr<float>() + bucket.numel());
        }
    }));
  }
  CHECK(equalBits(results[0], results[1]));

  auto options = sparse("topka", 0.05);
  options.overlap = true;
  const auto failures = onRanks(1, [&](int rank, sparsecollComm_t comm) {
    auto net = makeNet();
    GradientSync sync(net->parameters(), comm, options);
    lossOf(net, 0, rank).backward();
    lossOf(net, 1, rank).backward();
  });
  CHECK_THAT(failures[0], Catch::Contains("setLastBackward"));
}

TEST_CASE("torch: a saved state goes on with the same bits") {
  for (const char* preset : {"topka", "dgc", "micro"}) {
    INFO(preset);
    auto options = sparse(preset, 0.05);
    options.bucketBytes = 2000;
    options.useRecipe(5 * 8, 0.9);  // saved between the densities 0.25 and 0.05, and the last steps are behind them
    std::vector<std::vector<float>> whole(kRanks), resumed(kRanks);
    requireNone(onRanks(kRanks, [&](int rank, sparsecollComm_t comm) {
      const auto r = static_cast<size_t>(rank);
      auto net = makeNet(), again = makeNet();
      std::stringstream model, state;
      const auto run = [&](nn::Sequential& trained, GradientSync& sync, int from, int to) {
        for (int step = from; step < to; ++step) {
          lossOf(trained, step, rank).backward();
          sync.step();
          const torch::NoGradGuard noGrad;
          for (auto& parameter : trained->parameters()) parameter.sub_(parameter.grad(), 0.05);
          sync.zeroGrad();
        }
      };
      GradientSync sync(net->parameters(), comm, options);
      run(net, sync, 0, 7);
      torch::save(net, model);
      torch::save(sync, state);
      run(net, sync, 7, 15);
      whole[r] = flat(net);

      torch::load(again, model);
      GradientSync other(again->parameters(), comm, options);
      torch::load(other, state);
      run(again, other, 7, 15);
      resumed[r] = flat(again);
    }));
    for (size_t rank = 0; rank < kRanks; ++rank) CHECK(equalBits(whole[rank], resumed[rank]));
  }
}

TEST_CASE("torch: the recipe's densities fall to that of the method") {
  CHECK(sparsecoll::torch::warmUpDensities(0.01) == std::vector<double>{0.25, 0.0625, 0.015625});
  CHECK(sparsecoll::torch::warmUpDensities(0.25).empty());
  for (const auto& [training, each] : {std::pair{1, 1}, {480, 60}, {799, 99}, {1000000, 100}})
    CHECK(sparsecoll::torch::warmUpSteps(static_cast<uint64_t>(training)) == static_cast<uint64_t>(each));
  std::vector<uint64_t> asked(12);
  requireNone(onRanks(2, [&](int rank, sparsecollComm_t comm) {
    auto weight = torch::zeros({1000}).requires_grad_();
    auto options = sparse("topka", 0.05);
    GradientSync sync({weight}, comm, options.useRecipe(4 * 8, 0.9));
    for (auto& count : asked) {
      weight.mutable_grad().copy_(pattern({1000}, rank));
      sync.step();
      if (rank == 0) count = sync.stats(0).lastRequested;
      sync.zeroGrad();
    }
  }));
  CHECK(asked == std::vector<uint64_t>{250, 250, 250, 250, 62, 62, 62, 62, 50, 50, 50, 50});
  requireNone(onRanks(1, [&](int, sparsecollComm_t comm) {  // there is nothing to fall from
    GradientSync sync(makeNet()->parameters(), comm, sparse("topka", 0.5).useRecipe(480, 0));
    need(sync.info(0).k == 992, "half of 1985");
  }));
}

TEST_CASE("torch: momentum of the recipe is the optimiser's for what is sent whole") {
  for (const bool nesterov : {false, true}) {
    INFO(nesterov);
    std::vector<float> inSync, inOptimizer;
    requireNone(onRanks(2, [&](int rank, sparsecollComm_t comm) {
      for (const bool recipe : {true, false}) {
        auto net = makeNet();
        GradientSync sync(net->parameters(), comm,
                          recipe ? sparse("dense", 1).useRecipe(480, 0.9, nesterov) : sparse("dense", 1));
        torch::optim::SGD sgd(net->parameters(),
                              torch::optim::SGDOptions(0.05).momentum(recipe ? 0 : 0.9).nesterov(!recipe && nesterov));
        for (int step = 0; step < 10; ++step) {
          lossOf(net, step, rank).backward();
          sync.step();
          sgd.step();
          sync.zeroGrad();
        }
        if (rank == 0) (recipe ? inSync : inOptimizer) = flat(net);
      }
    }));
    REQUIRE(inSync.size() == inOptimizer.size());
    float most = 0;
    for (size_t i = 0; i < inSync.size(); ++i) most = std::max(most, std::abs(inSync[i] - inOptimizer[i]));
    CHECK(most < 1e-4f);  // each rank rounds a velocity of its own
  }
  const auto failures = onRanks(1, [&](int, sparsecollComm_t comm) {
    auto options = sparse("topka", 0.05).useRecipe(480, 0.9);
    options.errorFeedback = false;
    GradientSync sync(makeNet()->parameters(), comm, options);
  });
  CHECK_THAT(failures[0], Catch::Contains("params.momentum"));
}

TEST_CASE("torch: a state that does not fit is refused with the reason") {
  requireNone(onRanks(2, [&](int, sparsecollComm_t comm) {
    auto net = makeNet();
    GradientSync one(net->parameters(), comm, sparse("topka", 0.05));
    auto options = sparse("topka", 0.05);
    options.bucketBytes = 2000;
    GradientSync several(net->parameters(), comm, options);
    GradientSync micro(net->parameters(), comm, sparse("micro", 0.05));
    std::stringstream state;
    torch::save(one, state);
    const auto mustThrow = [&](GradientSync& sync, sparsecollResult_t code, const char* text) {
      state.seekg(0);
      try {
        torch::load(sync, state);
      } catch (const Error& error) {
        if (error.code() == code && std::string(error.what()).find(text) != std::string::npos) return;
        throw;
      }
      throw std::runtime_error("no error");
    };
    mustThrow(several, sparsecollInvalidArgument, "buckets");
    mustThrow(micro, sparsecollInvalidArgument, "sparsecollReducerImport");
  }));
}

TEST_CASE("torch: what a step delivered can be given back, and density can change") {
  std::vector<torch::Tensor> total(2);
  requireNone(onRanks(2, [&](int rank, sparsecollComm_t comm) {
    auto weight = torch::zeros({200}).requires_grad_();
    auto options = sparse("topka", 0.05);
    options.maxDensity = 1;
    GradientSync sync({weight}, comm, options);
    weight.mutable_grad().copy_(torch::arange(200) * (rank + 1));  // small integers: sums are exact
    sync.step();
    if (sync.stats(0).lastSelected != 10) throw std::runtime_error("5 % of 200 are 10");
    sync.giveBack();
    sync.setDensity(1);
    sync.zeroGrad();
    sync.step();
    if (sync.stats(0).lastRequested != 200) throw std::runtime_error("all are asked for");
    total[static_cast<size_t>(rank)] = weight.grad().clone();
    sync.zeroGrad();
    sync.step();
    if (weight.grad().abs().sum().item<float>() != 0) throw std::runtime_error("something was left");
  }));
  for (const auto& sum : total) CHECK(sum.equal(torch::arange(200).to(torch::kFloat) * 1.5));
}

TEST_CASE("torch: without error feedback what is not sent is lost") {
  requireNone(onRanks(2, [&](int, sparsecollComm_t comm) {
    auto weight = torch::zeros({100}).requires_grad_();
    auto options = sparse("topka", 0.1);
    options.errorFeedback = false;
    options.average = false;
    GradientSync sync({weight}, comm, options);
    weight.mutable_grad().copy_(torch::arange(100));
    sync.step();
    if (weight.grad().max().item<float>() != 198) throw std::runtime_error("a sum was asked for");
    sync.zeroGrad();
    sync.step();
    if (weight.grad().abs().sum().item<float>() != 0) throw std::runtime_error("a residual was kept");
  }));
}

TEST_CASE("torch: errors carry the library's code and words") {
  const auto failures = onRanks(2, [&](int rank, sparsecollComm_t comm) {
    auto net = makeNet();
    GradientSync sync(net->parameters(), comm, sparse("topka", rank == 0 ? 0.05 : 0.06));
  });
  for (const auto& failure : failures) CHECK_THAT(failure, Catch::Contains("density"));

  requireNone(onRanks(1, [&](int, sparsecollComm_t comm) {
    auto net = makeNet();
    const auto mustThrow = [&](const std::vector<at::Tensor>& parameters, const char* preset, const char* text) {
      try {
        GradientSync sync(parameters, comm, sparse(preset, 0.05));
      } catch (const Error& error) {
        if (std::string(error.what()).find(text) != std::string::npos) return;
        throw;
      }
      throw std::runtime_error("no error");
    };
    mustThrow(net->parameters(), "topkaa", "topkaa");
    mustThrow({}, "topka", "no parameter needs a gradient");
    mustThrow({torch::zeros({3}).to(torch::kComplexFloat).requires_grad_()}, "topka", "ComplexFloat");
  }));
}

TEST_CASE("torch: a failure on the way is thrown by the step that overlaps") {
  auto options = sparse("topka", 0.05);
  options.overlap = true;
  const auto failures = onRanks(2, [&](int rank, sparsecollComm_t comm) {
    auto net = makeNet();
    GradientSync sync(net->parameters(), comm, options);
    if (rank == 1) throw std::runtime_error("gone");
    lossOf(net, 0, rank).backward();
    sync.step();
  });
  CHECK(failures[1] == "gone");
  CHECK_THAT(failures[0], Catch::Contains("sparsecollReducerRun"));
}

TEST_CASE("torch: after a step that failed the next one exchanges all buckets again") {
  auto config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.nonFinite = sparsecollNonFiniteError;
  const size_t count = makeNet()->parameters().size();
  for (const size_t bucketBytes : {0, 2000}) {
    for (const bool overlap : {false, true}) {
      for (const size_t spoilt : {size_t{0}, count - 1}) {
        INFO(bucketBytes << (overlap ? ", overlap, " : ", ") << spoilt);
        auto options = sparse("dense", 1);
        options.bucketBytes = bucketBytes;
        options.overlap = overlap;
        std::vector<std::vector<float>> own(2), averages(2);
        requireNone(onRanks(
            2,
            [&](int rank, sparsecollComm_t comm) {
              auto net = makeNet(), alone = makeNet();
              GradientSync sync(net->parameters(), comm, options);
              if ((sync.buckets() > 2) != (bucketBytes > 0)) throw std::runtime_error("other buckets are wanted");
              failStep(sync, net, 0, rank, spoilt);
              sync.zeroGrad();
              lossOf(net, 1, rank).backward();
              sync.step();
              averages[static_cast<size_t>(rank)] = flatGradients(net);
              lossOf(alone, 1, rank).backward();
              own[static_cast<size_t>(rank)] = flatGradients(alone);
            },
            &config));
        CHECK(equalBits(averages[0], averages[1]));
        CHECK_FALSE(equalBits(averages[0], own[0]));
        for (size_t i = 0; i < own[0].size(); ++i)
          REQUIRE(std::abs(averages[0][i] - (own[0][i] + own[1][i]) / 2) < 1e-6f);
      }
    }
  }
}

TEST_CASE("torch: replicas can be made equal") {
  std::vector<std::vector<float>> results(3);
  requireNone(onRanks(3, [&](int rank, sparsecollComm_t comm) {
    auto net = makeNet(static_cast<uint64_t>(rank) + 1);
    sparsecoll::torch::broadcast(net->parameters(), comm, 1);
    results[static_cast<size_t>(rank)] = flat(net);
  }));
  const auto expected = flat(makeNet(2));
  for (const auto& result : results) CHECK(equalBits(result, expected));
}
