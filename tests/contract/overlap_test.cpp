// No call takes memory twice: a vector that shares bytes with the residual, or whose parts share bytes, is refused by name.
#include "tests/support/catch.h"

#include <string>

#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 64;


void checkRefused(sparsecollResult_t code, const std::string& text) {
  CHECK(code == sparsecollInvalidArgument);
  CHECK(std::string(sparsecollGetLastError()).find(text) != std::string::npos);
}

struct World {
  World() : ranks(1), reducers(ranks, kLength, sparsecollFloat32, preset("topka", 0.1)), vector(kLength, 1) {
    uint64_t n = 0;
    sparsecollDataType_t type = sparsecollFloat32;
    void* data = nullptr;
    REQUIRE(sparsecollReducerRun(reducers[0], vector.data(), vector.data(), nullptr) == sparsecollSuccess);
    REQUIRE(sparsecollReducerGetResidual(reducers[0], &data, &n, &type) == sparsecollSuccess);
    REQUIRE(n == kLength);
    residual = static_cast<float*>(data);
  }

  Ranks ranks;
  Reducers reducers;
  std::vector<float> vector;
  float* residual = nullptr;
};

TEST_CASE("a vector that is the residual, or reaches into it, is refused") {
  World world;
  const sparsecollReducer_t reducer = world.reducers[0];
  float* const vector = world.vector.data();
  const std::vector<float> before(world.residual, world.residual + kLength);
  for (float* const inside : {world.residual, world.residual + kLength - 1, world.residual - kLength + 1}) {
    CAPTURE(inside - world.residual);
    checkRefused(sparsecollReducerRun(reducer, inside, vector, nullptr), "the gradient and the residual overlap");
    checkRefused(sparsecollReducerRun(reducer, vector, inside, nullptr), "out and the residual overlap");
    checkRefused(sparsecollReducerGiveBack(reducer, inside, 1, nullptr), "out and the residual overlap");
    checkRefused(sparsecollReducerFlush(reducer, inside, nullptr), "dense and the residual overlap");
  }
  CHECK(std::equal(before.begin(), before.end(), world.residual));
  CHECK(sparsecollReducerRun(reducer, vector, vector, nullptr) == sparsecollSuccess);
  CHECK(sparsecollReducerGiveBack(reducer, vector, 1, nullptr) == sparsecollSuccess);
  CHECK(sparsecollReducerFlush(reducer, vector, nullptr) == sparsecollSuccess);
}

TEST_CASE("velocity is nobody else's memory either") {
  constexpr uint64_t kTwo = 2 * kLength;
  std::vector<float> memory(2 * kTwo);
  float* const velocity = memory.data() + kTwo;
  sparsecollParams_t params = preset("topka", 0.1);
  params.momentum = 0.9;
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.velocity = velocity;
  Ranks ranks(1);
  Reducers reducers(ranks, kLength, sparsecollFloat32, params, &config);
  REQUIRE(reducers.result(0) == sparsecollSuccess);
  float* const apart = memory.data();
  for (float* const inside : {velocity, velocity + kLength - 1, velocity - kLength + 1}) {
    CAPTURE(inside - velocity);
    checkRefused(sparsecollReducerRun(reducers[0], inside, apart, nullptr), "the gradient and the velocity overlap");
    checkRefused(sparsecollReducerFlush(reducers[0], inside, nullptr), "dense and the velocity overlap");
  }
  CHECK(sparsecollReducerRun(reducers[0], apart, velocity + kLength, nullptr) == sparsecollSuccess);
  for (const int transactional : {0, 1}) {
    const uint64_t held = transactional != 0 ? kTwo : kLength;
    config.transactional = transactional;
    config.buffer = velocity - held + 1;
    sparsecollReducer_t reducer = nullptr;
    checkRefused(sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, &config, ranks[0]),
                 "config.buffer and config.velocity overlap");
    config.buffer = velocity - held;
    CHECK(sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, &config, ranks[0]) ==
          sparsecollSuccess);
    CHECK(sparsecollReducerDestroy(reducer) == sparsecollSuccess);
  }
}

TEST_CASE("a sparse vector whose parts share bytes is refused by every call that takes one") {
  World world;
  const sparsecollReducer_t reducer = world.reducers[0];
  const sparsecollComm_t comm = world.ranks[0];
  SparseVector in(sparsecollFloat32, kLength, 1), sum(sparsecollFloat32, kLength, kLength);
  in.add(3, 1);
  const sparsecollVector_t good = *sum.view();
  alignas(8) std::byte bytes[16 * kLength]{};
  struct Shape {
    const char* text;
    void* values;
    void* indices;
    void* count;
  };
  const Shape shapes[] = {
      {"out.values and out.indices overlap", bytes, bytes, good.count},
      {"out.values and out.indices overlap", bytes, bytes + 4 * kLength - 4, good.count},
      {"out.values and out.count overlap", bytes, good.indices, bytes},
      {"out.indices and out.count overlap", good.values, bytes, bytes + 4 * kLength - 8},
  };
  for (const Shape& shape : shapes) {
    CAPTURE(shape.text);
    sparsecollVector_t out = good;
    out.values = shape.values;
    out.indices = shape.indices;
    out.count = static_cast<uint64_t*>(shape.count);
    checkRefused(sparsecollReducerRunSparse(reducer, world.vector.data(), &out, nullptr), shape.text);
    checkRefused(sparsecollAllReduceVector(in.view(), &out, nullptr, comm, nullptr), shape.text);
    checkRefused(sparsecollReduceScatterVector(in.view(), &out, nullptr, comm, nullptr), shape.text);
    checkRefused(sparsecollAllGatherVector(in.view(), &out, comm, nullptr), shape.text);
  }
  CHECK(sparsecollAllReduceVector(in.view(), sum.view(), nullptr, comm, nullptr) == sparsecollSuccess);
  REQUIRE(*sum.view()->count == 1);
}

TEST_CASE("two vectors of one call share no bytes") {
  World world;
  SparseVector in(sparsecollFloat32, kLength, 1), sum(sparsecollFloat32, kLength, kLength);
  in.add(3, 1);
  sparsecollVector_t out = *sum.view();
  out.values = in.view()->values;
  out.capacity = 1;
  checkRefused(sparsecollAllReduceVector(in.view(), &out, nullptr, world.ranks[0], nullptr), "in and out overlap");
  out = *sum.view();
  checkRefused(sparsecollReducerRunSparse(world.reducers[0], static_cast<const float*>(out.values), &out, nullptr),
               "out and the gradient overlap");
}

}  // namespace
