// SPDX-License-Identifier: Apache-2.0
// GradientSync beyond the steps: states that move, what is forgotten and what is kept.
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <cmath>
#include <limits>
#include <sstream>

#include "tests/torch/ranks.h"

namespace {

using namespace torch_test;

torch::Tensor ramp(int64_t length) {
  return torch::arange(length).to(torch::kFloat);
}  // small integers: sums are exact

torch::Tensor stepWith(GradientSync& sync, torch::Tensor& parameter, const torch::Tensor& gradient) {
  parameter.mutable_grad().copy_(gradient);
  sync.step();
  return parameter.grad().clone();
}

std::string saved(const GradientSync& sync) {
  std::stringstream state;
  torch::save(sync, state);
  return state.str();
}

template <class Load>
void withArchive(const std::string& state, Load load) {
  std::stringstream stream(state);
  torch::serialize::InputArchive archive;
  archive.load_from(stream);
  load(archive);
}
void takeOver(GradientSync& sync, const std::string& state, bool add) {
  withArchive(state, [&](auto& archive) { sync.loadFrom(archive, add); });
}

double normOf(const torch::Tensor& values) { return values.norm(2, torch::kDouble).item<double>(); }

}  // namespace

TEST_CASE("torch: tied weights have one gradient, however often they are named") {
  for (const bool overlap : {false, true}) {
    auto options = sparse("dense", 0);
    options.bucketBytes = 4;
    options.overlap = overlap;
    options.average = false;
    requireNone(onRanks(2, [&](int rank, sparsecollComm_t comm) {
      auto weight = torch::zeros({50}).requires_grad_();
      auto other = torch::zeros({50}).requires_grad_();
      GradientSync sync({weight, other, weight}, comm, options);
      (weight * ramp(50) * (rank + 1) + other).sum().backward();
      sync.step();
      need(weight.grad().equal(ramp(50) * 3), "the sum, once");
      need(other.grad().equal(torch::full({50}, 2.0)), "the other one, too");
    }));
  }
}

TEST_CASE("torch: the states of four ranks go on in two and in six, and nothing is lost or comes twice") {
  auto options = sparse("topka", 0.05);
  options.average = GENERATE(true, false);
  options.maxDensity = 1;
  const auto all = ramp(200) * (options.average ? 2.5 : 10);
  std::vector<std::string> states(4);
  std::vector<double> norms(4);
  torch::Tensor delivered;
  requireNone(onRanks(4, [&](int rank, sparsecollComm_t comm) {
    auto weight = torch::zeros({200}).requires_grad_();
    GradientSync sync({weight}, comm, options);
    const auto sum = stepWith(sync, weight, ramp(200) * (rank + 1));
    if (rank == 0) delivered = sum;
    states[static_cast<size_t>(rank)] = saved(sync);
    norms[static_cast<size_t>(rank)] = sync.residualNorm(0);
  }));
  std::vector<torch::Tensor> rest(2);
  requireNone(onRanks(2, [&](int rank, sparsecollComm_t comm) {
    const auto r = static_cast<size_t>(rank);
    auto weight = torch::zeros({200}).requires_grad_();
    GradientSync sync({weight}, comm, options);
    stepWith(sync, weight, ramp(200) * 100);  // is replaced
    takeOver(sync, states[2 * r], false);
    need(sync.residualNorm(0) == norms[2 * r] * (options.average ? 0.5 : 1), "the first state replaces");
    takeOver(sync, states[2 * r + 1], true);
    need(sync.residualNorm(0) > norms[2 * r + 1] * (options.average ? 0.5 : 1), "the second one is added");
    sync.setDensity(1);
    rest[r] = stepWith(sync, weight, torch::zeros({200}));
    need(sync.residualNorm(0) == 0, "all is delivered");
  }));
  for (const auto& sum : rest) CHECK((delivered + sum).equal(all));
  rest.resize(6);
  requireNone(onRanks(6, [&](int rank, sparsecollComm_t comm) {
    const auto r = static_cast<size_t>(rank);
    auto weight = torch::zeros({200}).requires_grad_();
    GradientSync sync({weight}, comm, options);
    if (r < states.size())
      takeOver(sync, states[r], false);
    else
      withArchive(states[0], [&](auto& archive) { sync.loadThresholds(archive); });
    const double wanted = r < states.size() ? norms[r] * (options.average ? 1.5 : 1) : 0;
    need(std::abs(sync.residualNorm(0) - wanted) <= 1e-9 * wanted, "nothing comes twice");
    sync.setDensity(1);
    rest[r] = stepWith(sync, weight, torch::zeros({200}));
  }));
  for (const auto& sum : rest) CHECK((delivered + sum).equal(all));
}

TEST_CASE("torch: ranks meet at a store") {
  int available = 0;
  REQUIRE(sparsecollBackendAvailable(sparsecollBackendHost, sparsecollTransportUcx, &available) == sparsecollSuccess);
  if (available == 0) {
    WARN("no UCX here");
    return;
  }
  c10d::HashStore store;
  std::vector<torch::Tensor> sums(2);
  std::vector<std::string> failures(2);
  auto config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.backend = sparsecollBackendHost;
  sparsecoll::test::RankThreads::ofProcess().run(2, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    try {
      const auto comm = Comm::fromStore(store, rank, 2, SPARSECOLL_HOST, "first", &config);
      auto weight = torch::zeros({50}).requires_grad_();
      GradientSync sync({weight}, comm, sparse("dense", 1));
      sums[r] = stepWith(sync, weight, ramp(50) * static_cast<double>(2 * rank + 1));
    } catch (const std::exception& error) {
      failures[r] = error.what();
    }
  });
  requireNone(failures);
  for (const auto& sum : sums) CHECK(sum.equal(ramp(50) * 2));

  store.set("second", std::vector<uint8_t>{1, 2, 3});
  CHECK_THROWS_WITH(Comm::fromStore(store, 1, 2, SPARSECOLL_HOST, "second", &config),
                    Catch::Contains("holds no unique id"));
}

TEST_CASE("torch: each parameter may have a density of its own") {
  requireNone(onRanks(2, [](int, sparsecollComm_t comm) {
    std::vector<torch::Tensor> parameters;
    for (const int64_t length : {100, 200, 300, 400}) parameters.push_back(torch::zeros({length}).requires_grad_());
    parameters[0].set_requires_grad(false);
    auto options = sparse("topka", 0.1);
    options.vectorDensity = 1;  // is not asked
    options.densityOf = [&](size_t i, const at::Tensor& parameter) {
      need(parameter.is_same(parameters.at(i)), "the number is that of all parameters");
      return i == 1 ? 1.0 : i == 2 ? 0.5 : 0.0;
    };
    GradientSync sync(parameters, comm, options);
    need(sync.buckets() == 3, "three rules");
    sync.setDensity(0.05);
    for (auto& parameter : parameters)
      if (parameter.requires_grad()) parameter.mutable_grad().copy_(ramp(parameter.numel()) + 1);
    sync.step();
    for (size_t b = 0; b < 3; ++b) {
      const auto n = sync.info(b).n;
      if (n == 200) need(sync.info(b).collective == sparsecollCollDense, "1 is dense");
      if (n == 300) need(sync.stats(b).lastSelected == 150, "setDensity leaves it alone");
      if (n == 400) need(sync.stats(b).lastSelected == 20, "0 is as the others");
    }
  }));
}

TEST_CASE("torch: the residual's norm is that of what was not sent, and reset begins anew") {
  requireNone(onRanks(1, [](int, sparsecollComm_t comm) {
    auto weight = torch::zeros({100}).requires_grad_();
    GradientSync dense({weight}, comm, sparse("dense", 1));
    stepWith(dense, weight, ramp(100));
    need(dense.residualNorm(0) == 0, "dense keeps nothing");
    GradientSync sync({weight}, comm, sparse("topka", 0.1));
    stepWith(sync, weight, ramp(100));
    need(std::abs(sync.residualNorm(0) - normOf(ramp(90))) < 1e-9, "all but the ten largest");
    sync.reset();
    need(sync.residualNorm(0) == 0, "nothing is left");
  }));

  // micro: its threshold and the parts that ranks take in turn begin anew, too.
  for (const char* preset : {"micro", "dgc"}) {
    INFO(preset);
    requireNone(onRanks(2, [preset](int rank, sparsecollComm_t comm) {
      auto weight = torch::zeros({500}).requires_grad_();
      GradientSync sync({weight}, comm, sparse(preset, 0.05));
      const auto steps = [&] {
        std::vector<torch::Tensor> sums;
        for (int step = 0; step < 5; ++step) sums.push_back(stepWith(sync, weight, pattern({500}, 10 * rank + step)));
        return torch::cat(sums);
      };
      const auto first = steps(), further = steps();
      sync.reset();
      need(!further.equal(first), "steps leave something behind");
      need(steps().equal(first), "after reset they do not");
    }));
  }
}

TEST_CASE("torch: a transactional step that fails leaves the residual as it was") {
  auto config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.nonFinite = sparsecollNonFiniteError;
  for (const bool transactional : {false, true}) {
    INFO(transactional);
    auto options = sparse("topka", 0.05);
    options.transactional = transactional;
    requireNone(onRanks(
        2,
        [&](int rank, sparsecollComm_t comm) {
          auto weight = torch::zeros({200}).requires_grad_();
          GradientSync sync({weight}, comm, options);
          stepWith(sync, weight, ramp(200));
          const double before = sync.residualNorm(0);
          auto spoilt = ramp(200);
          if (rank == 1) spoilt[7] = std::numeric_limits<float>::quiet_NaN();
          try {
            stepWith(sync, weight, spoilt);
            throw std::runtime_error("no error");
          } catch (const Error& error) {
            if (error.code() != sparsecollNonFinite) throw;
          }
          need((sync.residualNorm(0) == before) == transactional, "the residual");
        },
        &config));
  }
}

// Density 1, so that a bucket sends all it has.
TEST_CASE("torch: what buckets had sent before another one failed is part of the next step") {
  auto config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.nonFinite = sparsecollNonFiniteError;
  const auto spoilt = static_cast<size_t>(makeNet()->parameters()[0].numel());  // in the bucket that leaves last
  for (const bool overlap : {false, true})
    for (const bool asked : {false, true}) {
      INFO((overlap ? "overlap, " : "") << (asked ? "giveBack" : ""));
      auto options = sparse("topka", 1);
      options.bucketBytes = 2000;
      options.overlap = overlap;
      std::vector<std::vector<float>> own(2), averages(2);
      requireNone(onRanks(
          2,
          [&](int rank, sparsecollComm_t comm) {
            auto net = makeNet(), alone = makeNet();
            GradientSync sync(net->parameters(), comm, options);
            lossOf(net, 7, rank).backward();
            sync.step();  // this one is applied, and must not come back
            sync.zeroGrad();
            failStep(sync, net, 0, rank, 0);
            if (asked) sync.giveBack();
            sync.zeroGrad();
            lossOf(net, 1, rank).backward();
            sync.step();
            averages[static_cast<size_t>(rank)] = flatGradients(net);
            lossOf(alone, 0, rank).backward();
            lossOf(alone, 1, rank).backward();
            own[static_cast<size_t>(rank)] = flatGradients(alone);
          },
          &config));
      CHECK(equalBits(averages[0], averages[1]));
      for (size_t i = spoilt; i < own[0].size(); ++i)
        REQUIRE(std::abs(averages[0][i] - (own[0][i] + own[1][i]) / 2) < 1e-6f);
    }
}

TEST_CASE("torch: tensors that are sent dense have the momentum of the preset, too") {
  std::vector<std::vector<float>> named(2), given(2);
  for (const bool gives : {false, true}) {
    auto options = sparse("dgc", 0.05);
    options.vectorDensity = 1;
    if (gives) options.momentum = 0.9;
    requireNone(onRanks(2, [&](int rank, sparsecollComm_t comm) {
      auto net = makeNet();
      GradientSync sync(net->parameters(), comm, options);
      for (int step = 0; step < 2; ++step) {
        sync.zeroGrad();
        lossOf(net, step, rank).backward();
        sync.step();
      }
      (gives ? given : named)[static_cast<size_t>(rank)] = flatGradients(net);
    }));
  }
  CHECK(equalBits(named[0], given[0]));
}
