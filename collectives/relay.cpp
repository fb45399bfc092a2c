#include "collectives/relay.h"

#include <algorithm>

#include "collectives/frame_set.h"
#include "collectives/rules.h"

namespace sparsecoll {

namespace {

constexpr size_t kMostFrames = 64;  // three rounds for every bit of a rank's number, and some

}  // namespace

Result<PeerRound> PeerRound::make(const CollectiveSetup& setup, int to, const FrameLayout& out, int from,
                                  const FrameLayout& in) {
  PeerRound round;
  round.to_ = to;
  round.out_ = out;
  round.from_ = from;
  round.in_ = in;
  if (from != kNobody && !setup.transport->sharesMemory()) {
    SC_TRY(round.landing_, setup.kernels->allocate(in.capacityBytes(), setup.budget));
  }
  return round;
}

Result<Relay> Relay::make(const CollectiveSetup& setup) {
  Relay relay;
  relay.kernels_ = setup.kernels;
  relay.transport_ = setup.transport;
  relay.n_ = setup.n;
  const FrameLayout headerOnly;
  SC_TRY(relay.window_, setup.transport->makeWindow(2 * headerOnly.capacityBytes(), setup.budget));
  relay.sealed_.reserve(kMostFrames);
  SC_TRY(relay.named_, FullRound::make(*setup.transport, *setup.kernels, headerOnly, setup.budget));
  return relay;
}

void Relay::begin(const CollectiveStep& step) {
  kernels_->apply(kRelayBegin, step.control, step.stream);
  note(step);
  sealed_.clear();
}

void Relay::note(const CollectiveStep& step) { kernels_->apply(kRelayNote, step.control, step.stream); }

// A frame that goes to several peers stays as it was when the first of them was told where it lies. What it says of NaN
// and Inf is enough: whatever this rank hears later comes to the others by the frames that it makes of that.
void Relay::sealOnce(const CollectiveStep& step, const PeerRound& round, std::byte* frame) {
  if (std::find(sealed_.begin(), sealed_.end(), frame) != sealed_.end()) return;
  const FrameExpectation identity = step.operation->identity();
  kernels_->seal({frame, round.out_, identity, step.control, transport_->checksumsPayload(), true}, step.stream);
  sealed_.push_back(frame);
}

Status Relay::exchange(const CollectiveStep& step, PeerRound& round, std::byte* frame, uint32_t lists) {
  Operation& operation = *step.operation;
  const FrameExpectation identity = operation.identity();
  const bool withPayload = transport_->checksumsPayload();
  const Outgoing outgoing{round.to_, frame, round.out_};
  Incoming incoming{round.from_, round.landing_.as<>(), round.in_.capacityBytes(), nullptr, 0};
  std::span<const Outgoing> out(&outgoing, round.sends() ? 1 : 0);
  std::span<Incoming> in(&incoming, round.receives() ? 1 : 0);
  if (round.sends()) sealOnce(step, round, frame);
  SC_TRY(transport_->round(operation, out, in, step.stream));
  if (!round.receives()) return {};
  round.frame_ = incoming.frame;
  OpenArgs opened;
  opened.frames = {&incoming.frame, 1};
  opened.bytes = {&incoming.bytes, 1};
  opened.layout = round.in_;
  opened.expected = identity;
  opened.control = step.control;
  opened.withPayload = withPayload;
  opened.relayed = true;
  opened.peer = round.from_;
  SC_TRY(kernels_->open(opened, step.stream));
  ListView view = viewOf(round.frame_);
  if (lists == kNoLists && *view.count != round.in_.capacity)
    return failBy(round.from_, sparsecollCorrupted, "{} numbers instead of {}", *view.count, round.in_.capacity);
  view.parts = lists;
  for (view.part = 0; view.part < lists; ++view.part) SC_TRY(kernels_->checkOrder(view, n_, step.stream));
  return {};
}

Status Relay::end(const CollectiveStep& step) {
  if (step.control->anyNonFinite == 0) return {};
  Operation& operation = *step.operation;
  const FrameExpectation identity = operation.identity();
  const bool withPayload = transport_->checksumsPayload();
  std::byte* const own = window_->data() + (operation.turn % 2) * named_.layout().capacityBytes();
  kernels_->seal({own, named_.layout(), identity, step.control, withPayload}, step.stream);
  SC_TRY(named_.sameToAll(operation, own, step.stream));
  return kernels_->open({named_.frames(), named_.bytes(), named_.layout(), identity, step.control, {}, withPayload},
                        step.stream);
}

}  // namespace sparsecoll
