// What all ranks have to give alike, of every kind of call, in one place. A field that is not here may differ. The test
// tests/faults/agreement_test.cpp walks the structs of the C ABI: a new field has to be here, or in its list of those
// that may differ, with the reason.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/status.h"

namespace sparsecoll {

struct CommunicatorConfig;
struct ReducerSpec;
struct ScalePair;
class Selection;
class Transport;

// What the bits of a field are, for the text that says in what ranks differ.
enum class Shown : uint8_t {
  kNumber,
  kReal,   // a double
  kFlags,  // SPARSECOLL_ACCUMULATE and its siblings
  kName,   // a value of an enumeration
  kHash,   // of what has no short form
};

// Fields of an operation that all ranks must give alike.
struct AgreedField {
  const char* name;
  uint64_t bits;
  Shown as = Shown::kNumber;
  const char* (*nameOf)(int32_t) = nullptr;  // for kName
};

using AgreedFields = std::vector<AgreedField>;

// Hash of a call and its fields; the same on all ranks and machines.
uint64_t hashOf(const char* what, std::span<const AgreedField> fields);

// A communicator that ranks meet for.
AgreedFields agreedOfCommunicator(const CommunicatorConfig& config, bool onHost, const Transport& transport);
// A reducer, or the step of one that AllReduce makes. Auto is resolved, and teams are chosen.
AgreedFields agreedOfReducer(const ReducerSpec& spec);
// A step, by what can change between steps. plan: of its reducer. selection: nullptr for the dense collective.
// iteration: of the selection, if the ranks' ones have to be the same.
uint64_t agreedOfStep(uint64_t plan, const Selection* selection, uint64_t iteration, const ScalePair& scales);
// The same over nodes, whose shards have a k each. density: as it was asked for.
uint64_t agreedOfStep(uint64_t plan, double density, uint64_t iteration, const ScalePair& scales);
// AllReduce of no elements.
AgreedFields agreedOfNothing();
// Calls on sparse vectors: AllGatherVector, AllReduceVector, ReduceScatterVector.
AgreedFields agreedOfVector(const sparsecollVector_t& in);
AgreedFields agreedOfSum(const sparsecollVector_t& in, const sparsecollParams_t& params);
AgreedFields agreedOfParts(const sparsecollVector_t& in, std::span<const uint64_t> bounds);

}  // namespace sparsecoll
