// Selections with error feedback as a reducer runs them, from the gradient to the list that travels and the residual.
#include <cmath>

#include "bench/common/random.h"
#include "bench/device/cases.h"
#include "bench/device/wrong.h"
#include "selectors/selectors.h"

namespace bench {

namespace {

// What is selected from as one: the vector, or a network's tensors, of which segments have densities; one of them may
// be huge, as an embedding is.
enum class Units { kWhole, kSegments, kHugeAmongSegments, kFragments };

struct Method {
  sparsecollSelect_t selector = sparsecollSelectTopK;
  sparsecollDataType_t type = sparsecollFloat32;
  sparsecollDistribution_t distribution = sparsecollDistributionDefault;
  Units units = Units::kWhole;
  int ranks = 1;
  double again = 0;      // bytes an element that are read a second time
  bool advances = true;  // its rules go by what the step before delivered, or by the step's number
  bool tells = false;    // they go by the thresholds that ranks tell each other
};

// Select, then clear what was selected from the residual. The same few gradients come again and again with changing
// signs, so that their sum wanders as one of fresh noise does.
class FeedbackLoop {
 public:
  FeedbackLoop(const Vectors& vectors, const Method& method, const sparsecoll::SelectionRequest& request)
      : vectors_(vectors),
        method_(method),
        gradients_(vectors, method.type),
        selection_(vectors.device().select(sparsecoll::selectorRow(method.selector)->plan, request)),
        residual_(vectors.n()),
        selected_(selection_->capacity()) {}

  Outcome run() {
    Operation operation;
    operation.bytes = (static_cast<double>(gradients_.bytes()) + 8 + method_.again) * static_cast<double>(vectors_.n());
    operation.order = Operation::Order::kAny;
    for (uint64_t i = 0; i < vectors_.settings().noises; ++i)
      for (const double sign : {1.0, -1.0})
        operation.steps.push_back([this, i, sign] { step(gradients_.gradient(1 + mixBits(i) % (1u << 20)), sign); });
    const Device& device = vectors_.device();
    Outcome outcome = vectors_.timed(operation);
    device.finish();
    outcome.counters = counters();
    select(gradients_.gradient(1), 1);  // once more, and the residual keeps what went
    device.finish();
    outcome.wrong = wrong();
    return outcome;
  }

 private:
  void step(const void* gradient, double sign) {
    const Device& device = vectors_.device();
    select(gradient, sign);
    device.kernels().zeroAt(residual_.get(), sparsecollFloat32, vectors_.n(), selected_.view(), nullptr,
                            selection_.stream());
    if (!method_.advances) return;
    if (method_.tells) tellItself();
    const sparsecoll::ListView sent = selected_.view();
    check(selection_->observe({&sent, 1}, selection_.stream()));
    selection_->advance(selection_.stream());
  }

  void select(const void* gradient, double sign) {
    sparsecoll::SelectionInput input;
    input.gradient = gradient;
    input.gradientType = gradients_.type();
    input.in = input.out = residual_.get();
    input.scale = sign;
    selection_->pass(input, selection_.stream());
    selection_->afterSurvey(selection_.stream());
    check(selection_->cut(selected_.target(), selection_.stream()));
  }

  // What comes back to the only rank with its own frame.
  void tellItself() {
    const sparsecoll::Control& there = *selection_->control();
    vectors_.device().kernels().copy(&selection_->tables().facts[0].threshold, &there.announced, sizeof there.announced,
                                     selection_.stream());
  }

  std::vector<Counter> counters() const {
    const auto control = onHost(selection_->control());
    const auto k = static_cast<double>(selection_->k());
    return {{"k", k},
            {"selected_per_k", selected_.count() / k},
            {"candidates_per_k", static_cast<double>(control.candidates) / k},
            {"fallbacks", static_cast<double>(control.fallbacks)}};
  }

  uint64_t wrong() const {
    const sparsecoll::Control& tables = selection_->tables();
    const sparsecoll::List list = selected_.target();
    return wrongEntries({residual_.get(), vectors_.n(), tables.windows, tables.windowCount, list.indices,
                         static_cast<const float*>(list.values), selected_.count()},
                        vectors_.device().cudaStream().get());
  }

  const Vectors& vectors_;
  const Method& method_;
  TypedGradients gradients_;
  Device::Selecting selection_;
  DeviceArray<float> residual_;
  DeviceList selected_;
};

// Lengths as a network's tensors have them: of a few orders of magnitude. A huge one has nine tenths of all.
std::vector<sparsecollSegment_t> segmentsOf(uint64_t n, double density, bool oneIsHuge) {
  const uint64_t count = std::min(kSegments, n);
  std::vector<double> weights(count);
  double all = 0;
  for (uint64_t s = 0; s < count; ++s) all += weights[s] = std::pow(10, 3 * unit(mixBits(s)));
  if (oneIsHuge) {
    weights[count / 2] += 9 * all;
    all *= 10;
  }
  std::vector<sparsecollSegment_t> segments(count);
  uint64_t left = n;
  for (uint64_t s = 0; s < count; ++s) {
    const auto wanted = static_cast<uint64_t>(static_cast<double>(n) * weights[s] / all);
    const uint64_t others = count - s - 1;  // an element each
    segments[s].length = others == 0 ? left : std::min(std::max<uint64_t>(wanted, 1), left - others);
    segments[s].density = density;
    left -= segments[s].length;
  }
  return segments;
}

template <const Method& kMethod>
Outcome feedback(const Vectors& vectors, double density) {
  sparsecoll::SelectionRequest request;
  request.n = vectors.n();
  request.density = density;
  request.params.distribution = kMethod.distribution;
  request.ranks = kMethod.ranks;
  std::vector<sparsecollSegment_t> segments;
  if (kMethod.units != Units::kWhole)
    segments = segmentsOf(vectors.n(), kMethod.units == Units::kFragments ? 0 : density,
                          kMethod.units == Units::kHugeAmongSegments);
  request.segments = segments;
  return FeedbackLoop(vectors, kMethod, request).run();
}

constexpr Method kTopK{.selector = sparsecollSelectTopK, .advances = false};
constexpr Method kTopKOfBfloats{
    .selector = sparsecollSelectTopK, .type = sparsecollBfloat16, .advances = false};
constexpr Method kTopKOfHalves{
    .selector = sparsecollSelectTopK, .type = sparsecollFloat16, .advances = false};
constexpr Method kSegmentedTopK{
    .selector = sparsecollSelectTopK, .units = Units::kSegments, .advances = false};
constexpr Method kHugeTopK{
    .selector = sparsecollSelectTopK, .units = Units::kHugeAmongSegments, .advances = false};
// One of several ranks: it learns the norms, shares out the fragments, and reads those of its own share once more.
constexpr Method kDeft{.selector = sparsecollSelectDeft,
                       .units = Units::kFragments,
                       .ranks = kSelectionRanks,
                       .again = 4.0 / kSelectionRanks};
// The only rank of its group: its partition is the whole vector, where one of P ranks finds the P-th part of k.
constexpr Method kMicro{.selector = sparsecollSelectMicro, .tells = true};
constexpr Method kExDyna{.selector = sparsecollSelectExDyna, .tells = true};
constexpr Method kSidcoE{.selector = sparsecollSelectSidco,
                         .distribution = sparsecollDistributionExponential};
constexpr Method kSage{.selector = sparsecollSelectSage};
constexpr Method kGaussianK{.selector = sparsecollSelectGaussian};
constexpr Method kRedSync{.selector = sparsecollSelectRedSync};
constexpr Method kDgc{.selector = sparsecollSelectSampled};
constexpr Method kOkTopk{.selector = sparsecollSelectReusedTopK};

constexpr CaseKind kFeedback[] = {
    {"exact_topk", "top-k with error feedback in its steady state, end to end; 12 bytes an element", true,
     feedback<kTopK>},
    {"exact_topk_bf16", "the same of a gradient of bfloats; 10 bytes an element", true, feedback<kTopKOfBfloats>},
    {"exact_topk_f16", "the same of one of halves", true, feedback<kTopKOfHalves>},
    {"segmented_topk", "exact_topk in each of 300 segments", true, feedback<kSegmentedTopK>},
    {"huge_segment_topk", "the same where one of them has nine tenths of all elements", true, feedback<kHugeTopK>},
    {"deft_select", "DEFT's norms, shares and cut of 300 tensors on one of 8 ranks; 12.5 bytes an element", true,
     feedback<kDeft>},
    {"micro_select", "MiCRO's ladder, threshold and cut on the only rank; 12 bytes an element", true, feedback<kMicro>},
    {"exdyna_select", "the same and ExDyna's blocks", true, feedback<kExDyna>},
    {"sidco_e_select", "SIDCo's sample, exponential fits and cut; 12 bytes an element, the sample not counted", true,
     feedback<kSidcoE>},
    {"sage_select", "the same with SAGE's threshold", true, feedback<kSage>},
    {"gaussiank_select", "with Gaussian-k's", true, feedback<kGaussianK>},
    {"redsync_select", "with RedSync's", true, feedback<kRedSync>},
    {"dgc_select", "with DGC's, without momentum", true, feedback<kDgc>},
    {"oktopk_select", "Ok-Topk's threshold of the step before and cut; 12 bytes an element", true, feedback<kOkTopk>},
};

}  // namespace

std::span<const CaseKind> feedbackCases() { return kFeedback; }

}  // namespace bench
