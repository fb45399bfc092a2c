// The head of sparsecoll.h is a manual: its example runs, its presets and its pairs of selector and collective are the
// library's, and all that has a name tells it.
#include "tests/support/catch.h"

#include <cstdio>
#include <set>

#include "tests/contract/words_of_header.h"
#include "tests/support/group.h"

using namespace sparsecoll::test;

// The header's example.
extern "C" sparsecollResult_t train(sparsecollComm_t comm, float* gradient, uint64_t n, int steps,
                                    void (*backward)(float*));

namespace {

constexpr uint64_t kLength = 1000;
thread_local float ownFactor = 0;

void backward(float* gradient) {
  for (uint64_t i = 0; i < kLength; ++i) gradient[i] = ownFactor * static_cast<float>((i * 37) % 101);
}

using Names = std::set<std::string>;

Names namesOf(const std::string& line) {
  const std::vector<std::string> words = wordsOf(line);
  return Names(words.begin(), words.end());
}

// By selector, as the header has them.
std::map<std::string, Names> pairsOfHead() {
  std::map<std::string, Names> pairs;
  Names selectors;
  for (const std::string& line :
       listOfHead("need a collective in which every rank sees the list of every other one.")) {
    Names names = namesOf(line);
    if (line[0] != ' ') {
      selectors = names;
      continue;
    }
    CHECK(names.erase("with") == 1);
    for (const std::string& selector : selectors) CHECK(pairs.emplace(selector, names).second);
  }
  return pairs;
}

}  // namespace

TEST_CASE("the header's example trains four ranks") {
  const Ranks ranks(4);
  std::vector<std::vector<float>> gradients(4, std::vector<float>(kLength));
  CHECK(onEach(ranks, [&](int rank, sparsecollComm_t comm) {
          ownFactor = static_cast<float>(rank + 1);
          return train(comm, gradients[static_cast<size_t>(rank)].data(), kLength, 3, backward);
        }) == all(4, sparsecollSuccess));
  size_t sent = 0;
  for (const float entry : gradients[0]) sent += entry != 0 ? 1 : 0;
  CHECK(sent == 10);  // 1 %, and all ranks have the same entries
  for (const std::vector<float>& gradient : gradients) CHECK(gradient == gradients[0]);
}

TEST_CASE("the header lists the presets with their selectors, collectives and papers") {
  std::vector<std::string> lines = {"preset         selector      collective    paper"};
  for (uint32_t i = 0; sparsecollPresetName(i) != nullptr; ++i) {
    const sparsecollParams_t params = preset(sparsecollPresetName(i), 0);
    const bool dense = params.collective == sparsecollCollDense;
    char line[200];
    std::snprintf(line, sizeof line, "%-14s %-13s %-13s %s", sparsecollPresetName(i),
                  dense ? "-" : sparsecollSelectorName(params.selector), sparsecollCollectiveName(params.collective),
                  sparsecollPresetPaper(i));
    lines.emplace_back(line);
  }
  const std::vector<std::string> head = listOfHead("docs/algorithms has a page on each.");
  REQUIRE(head.size() == lines.size());
  for (size_t i = 0; i < lines.size(); ++i) CHECK(head[i] == lines[i]);
  CHECK(sparsecollPresetPaper(static_cast<uint32_t>(lines.size() - 1)) == nullptr);
  CHECK(sparsecollPresetPaper(~uint32_t{0}) == nullptr);
}

TEST_CASE("the pairs of selector and collective in the header are those that a reducer can have") {
  const Ranks ranks(2);
  std::map<std::string, Names> works;
  const auto enumerations = enumerationsOfHeader();
  for (const Enumerator& selector : enumerations.at("sparsecollSelect_t"))
    for (const Enumerator& collective : enumerations.at("sparsecollColl_t")) {
      if (collective.value == sparsecollCollHierarchical) continue;  // has these pairs between nodes
      if (selector.value == sparsecollSelectDefault || collective.value == sparsecollCollAuto) continue;
      if (selector.value == sparsecollSelectAuto) continue;  // takes its own collective
      CAPTURE(selector.name, collective.name);
      sparsecollParams_t params = preset("topka", 0.1);
      params.selector = selector.value;
      params.collective = collective.value;
      const Reducers reducers(ranks, kLength, sparsecollFloat32, params);
      if (reducers.result(0) == sparsecollUnsupported) continue;
      CHECK(reducers.result(0) == sparsecollSuccess);
      works[sparsecollSelectorName(selector.value)].insert(sparsecollCollectiveName(collective.value));
    }
  CHECK(works == pairsOfHead());
}

TEST_CASE("AllReduce costs two exchanges more than a step of a reducer") {
  const Ranks one(1);
  const Reducers reducers(one, kLength, sparsecollFloat32, preset("topka", 0.1));
  const auto sequence = [&] {
    auto stats = SPARSECOLL_INIT(sparsecollStats_t);
    CHECK(sparsecollGetStats(one[0], &stats) == sparsecollSuccess);
    return stats.lastSequence;
  };
  const sparsecollParams_t params = preset("topka", 0.1);
  std::vector<float> gradient(kLength), out(kLength);
  std::vector<uint64_t> sequences;
  for (const bool once : {false, false, true, true}) {
    gradient[7] = 1000;
    CHECK((once ? sparsecollAllReduce(gradient.data(), out.data(), kLength, sparsecollFloat32, &params, one[0], nullptr)
                : sparsecollReducerRun(reducers[0], gradient.data(), out.data(), nullptr)) == sparsecollSuccess);
    sequences.push_back(sequence());
    CHECK((out[7] == 1000));
  }
  const uint64_t step = sequences[1] - sequences[0];
  CHECK(step == 1);
  CHECK(sequences[3] - sequences[2] == step + 2);
}

TEST_CASE("every value of the enumerations that have names has one of its own") {
  const auto enumerations = enumerationsOfHeader();
  const std::pair<const char*, const char* (*)(int32_t)> named[] = {{"sparsecollSelect_t", sparsecollSelectorName},
                                                                    {"sparsecollColl_t", sparsecollCollectiveName},
                                                                    {"sparsecollDataType_t", sparsecollDataTypeName},
                                                                    {"sparsecollBackend_t", sparsecollBackendName},
                                                                    {"sparsecollTransport_t", sparsecollTransportName}};
  for (const auto& [type, nameOf] : named) {
    CAPTURE(type);
    Names names{"unknown"};
    int32_t highest = 0;
    for (const Enumerator& one : enumerations.at(type)) {
      CAPTURE(one.name);
      CHECK(names.insert(nameOf(one.value)).second);
      highest = std::max(highest, one.value);
    }
    for (const int32_t none : {-1, highest + 1, 0x7fffffff}) CHECK(std::string(nameOf(none)) == "unknown");
  }
}
