#include "collectives/relay.h"

#include <algorithm>

#include "collectives/rules.h"

namespace sparsecoll {

namespace {

constexpr size_t kMostFrames = 64;  // three rounds for every bit of a rank's number, and some
constexpr FrameLayout kHeaderOnly;

}  // namespace

Result<PeerRound> PeerRound::make(const CollectiveSetup& setup, int to, const FrameLayout& out, int from,
                                  const FrameLayout& in) {
  PeerRound round;
  round.to_ = to;
  round.out_ = out;
  round.from_ = from;
  round.in_ = in;
  if (from != kNobody && !setup.transport->sharesMemory()) {
    SC_TRY(round.landing_, setup.transport->makeWindow(in.capacityBytes(), setup.budget, setup.kernels));
  }
  if (from != kNobody) {
    const auto most = static_cast<uint32_t>(in.capacity);
    SC_TRY(round.most_, setup.kernels->allocate(sizeof most, setup.budget));
    setup.kernels->transfer(round.most_.as<>(), &most, sizeof most, setup.kernels->stream());
  }
  return round;
}

Result<Relay> Relay::make(const CollectiveSetup& setup) {
  Relay relay;
  relay.kernels_ = setup.kernels;
  relay.transport_ = setup.transport;
  relay.n_ = setup.n;
  relay.sealed_.reserve(kMostFrames);
  SC_TRY(relay.named_,
         FullRound::make(*setup.transport, *setup.kernels, kHeaderOnly, FullRound::Sends::kSameToAll, setup.budget));
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
  std::byte* const landing = round.landing_ != nullptr ? round.landing_->data() : nullptr;
  Incoming incoming{round.from_, landing, round.in_.capacityBytes(), nullptr, 0};
  std::span<const Outgoing> out(&outgoing, round.sends() ? 1 : 0);
  std::span<Incoming> in(&incoming, round.receives() ? 1 : 0);
  if (round.sends()) sealOnce(step, round, frame);
  SC_TRY(transport_->round(operation, out, in, step.stream));
  if (!round.receives()) return {};
  round.frame_ = incoming.frame;
  const auto* const most = round.most_.as<const uint32_t>();
  const std::span<const uint32_t* const> counts(&most, lists == kNoLists ? 1 : 0);
  OpenArgs opened;
  opened.frames = {&incoming.frame, 1};
  opened.bytes = {&incoming.bytes, 1};
  opened.layout = round.in_;
  opened.expected = identity;
  opened.control = step.control;
  opened.counts = counts;
  opened.withPayload = withPayload;
  opened.relayed = true;
  opened.peer = round.from_;
  SC_TRY(kernels_->open(opened, step.stream));
  ListView view = streamOf(round.frame_);
  view.parts = lists;
  for (view.part = 0; view.part < lists; ++view.part) SC_TRY(kernels_->checkOrder(view, n_, step.stream));
  return {};
}

Status Relay::end(const CollectiveStep& step) {
  const Control* const seen = kernels_->look(step.control);
  if (seen != nullptr && seen->anyNonFinite == 0) return {};  // who cannot know it takes the round
  return named_.run(*step.operation, step.stream, step.control);
}

}  // namespace sparsecoll
