#include "src/auto_reducer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "core/environment.h"
#include "src/agreement.h"
#include "src/blob.h"
#include "src/methods.h"
#include "src/names.h"
#include "src/structs.h"

namespace sparsecoll {

namespace {

constexpr uint32_t kMagic = 0x31415053;  // "SPA1"
constexpr uint32_t kVersion = 1;

// As its caller would write it with this version of the header.
template <class T>
Result<T> readCopy(const T* user, const char* name) {
  SC_TRY(T copy, readStructOr(user, name));
  const T own = SPARSECOLL_INIT(T);
  std::memcpy(&copy, &own, kStructHeadBytes);
  return copy;
}

// A density or k of one rank, as one of all ranks' entries together.
void countAllRanks(ReducerSpec& spec, int ranks) {
  const double factor = ranks;
  spec.params.density = std::min(1.0, spec.params.density * factor);
  spec.params.k = std::min(spec.params.k, spec.n) * static_cast<uint64_t>(ranks);
  spec.params.k = std::min(spec.params.k, spec.n);
  spec.maxDensity = std::min(1.0, spec.maxDensity * factor);
}

uint64_t hashOfPlan(std::span<const sparsecollChoice_t> plan) {
  AgreedFields fields;
  for (const sparsecollChoice_t& choice : plan) {
    fields.push_back({"step", choice.step});
    fields.push_back({"selector", static_cast<uint32_t>(choice.selector)});
    fields.push_back({"collective", static_cast<uint32_t>(choice.collective)});
  }
  return hashOf("plan", fields);
}

uint64_t nowNs() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

}  // namespace

Result<std::optional<AutoSpec>> readAutoSpec(uint64_t n, int32_t type, const sparsecollParams_t* userParams,
                                             const sparsecollReducerConfig_t* userConfig, bool onHost) {
  SC_TRY(sparsecollParams_t params, readCopy(userParams, "params"));
  SC_TRY(sparsecollReducerConfig_t config, readCopy(userConfig, "config"));
  const bool nothing = (params.flags & SPARSECOLL_SELECT_NOTHING) != 0;
  if (userParams == nullptr || params.selector != sparsecollSelectAuto || !onHost || config.transactional != 0 ||
      nothing || params.collective != sparsecollCollAuto)
    return std::optional<AutoSpec>();
  AutoSpec spec;
  spec.denseNs = config.denseNs;
  if ((config.plan == nullptr) != (config.planCount == 0)) return invalid("config.plan and planCount belong together");
  if (config.plan != nullptr) {
    spec.plan.assign(config.plan, config.plan + config.planCount);
  } else if (const char* const path = environmentText(variable::kTunerFile); path != nullptr) {
    SC_TRY(TunerFile tuner, TunerFile::read(path));
    spec.tuner = std::make_shared<const TunerFile>(std::move(tuner));
  }
  config.plan = nullptr;
  config.planCount = 0;
  for (size_t candidate = 0; candidate < kCandidateCount; ++candidate) {
    const CandidateRow& row = kCandidates[candidate];
    SC_TRY(const PresetRow* const preset, findPreset(row.preset));
    params.selector = preset->selector;
    params.collective = preset->collective;
    params.teams = preset->teams;
    params.teamGather = preset->teamGather;
    Result<ReducerSpec> read = readReducerSpec(n, type, &params, &config);
    const bool first = spec.parts.empty();
    if (!read.ok()) {
      Status failed = read.takeStatus();
      if (first || failed.result() != sparsecollUnsupported) return failed;
      continue;
    }
    ReducerSpec part = std::move(*read);
    part.takesTurns = true;
    part.makesResidual = first;
    part.reason = "auto";
    if (first) {
      spec.asked = part;
      spec.asked.params.selector = sparsecollSelectAuto;
      spec.asked.params.collective = sparsecollCollAuto;
      // Residual, velocity and the warm-up are the first one's.
      config.buffer = config.velocity = nullptr;
      config.densitySchedule = nullptr;
      config.densityScheduleCount = config.scheduleSteps = 0;
    }
    spec.parts.push_back({candidate, std::move(part)});
  }
  return std::optional<AutoSpec>(std::move(spec));
}

Result<std::shared_ptr<AutoReducer>> AutoReducer::make(const std::shared_ptr<Communicator>& comm, const char* call,
                                                       AutoSpec spec) {
  std::shared_ptr<AutoReducer> reducer(new AutoReducer(comm, std::move(spec)));
  SC_TRY(const AgreedFields fields, reducer->prepare());
  SC_TRY(reducer->makeCandidates(call, fields));
  return reducer;
}

Result<AgreedFields> AutoReducer::prepare() {
  std::vector<Plan::Candidate> known;
  for (const AutoSpec::Part& part : spec_.parts) {
    const int32_t selector = part.spec.dense() ? sparsecollSelectDefault : part.spec.selector->id;
    known.push_back({part.row().preset, selector, part.spec.collective->id});
  }
  plan_ =
      Plan(std::move(known), {spec_.asked.n, elementBytes(spec_.asked.type), static_cast<uint64_t>(comm_->ranks())});
  SC_TRY(plan_.replay(spec_.plan));
  candidates_.reserve(spec_.parts.size());
  able_.assign(spec_.parts.size(), 1);
  asked_ = spec_.asked.params.density;
  AgreedFields fields = agreedOfReducer(spec_.asked);
  fields.push_back({"plan", hashOfPlan(spec_.plan), Shown::kHash});
  fields.push_back({"tunerFile", spec_.tuner != nullptr ? spec_.tuner->hash() : 0, Shown::kHash});
  if (spec_.tuner != nullptr) node_ = comm_->node();
  tunedNs_.reserve(spec_.parts.size());
  return fields;
}

// Once the ranks have agreed, a rank without memory must not leave the others waiting for the next candidate: they meet
// it in another call then, and all of them learn of it.
Status AutoReducer::makeCandidates(const char* call, std::span<const AgreedField> fields) {
  SC_TRY(const Agreement agreement, agree(*comm_, call, fields, spec_.denseNs));
  created_ = agreement.sequence;
  plan_.knowDense(*std::ranges::max_element(agreement.numbers));
  SC_TRY(takeTuner());
  try {
    for (const AutoSpec::Part& part : spec_.parts) {
      ReducerSpec spec = part.spec;
      if (part.row().countsAllRanks) countAllRanks(spec, comm_->ranks());
      SC_TRY(std::shared_ptr<Reducer> made, Reducer::make(comm_, call, std::move(spec)));
      candidates_.push_back(std::move(made));
    }
  } catch (const std::bad_alloc&) {
    return agreeMade(*comm_, fail(sparsecollOutOfMemory, "out of memory"));
  }
  comm_->tellPlan(info());
  return {};
}

// What it says may have been measured elsewhere.
Status AutoReducer::takeTuner() {
  if (spec_.tuner == nullptr) return {};
  SC_TRY(const Agreement met, agree(*comm_, "nodes", {}, node_));
  uint64_t nodes = 0;
  for (size_t r = 0; r < met.numbers.size(); ++r)
    if (std::ranges::count(met.numbers.first(r), met.numbers[r]) == 0) ++nodes;
  const auto ranks = static_cast<uint64_t>(comm_->ranks());
  const char* const engine = transportName(comm_->transport().kind());
  const char* const type = dataTypeName(spec_.asked.type);
  const TunerFile::Maker& made = spec_.tuner->maker();
  tuned_ = made.ranks == ranks && made.nodes == nodes && made.engine == engine && made.type == type;
  if (!tuned_)
    comm_->tellTuner("{} is not used: it was made for {} ranks on {} nodes over {}, {}; here are {} on {} over {}, {}",
                     variable::kTunerFile, made.ranks, made.nodes, made.engine, made.type, ranks, nodes, engine, type);
  return {};
}

Status AutoReducer::run(const void* gradient, void* out, Stream stream) {
  SC_TRY(now().checkRun(gradient, out));  // before anything that all ranks take part in
  now().beginStep();
  if (Status followed = candidates_[0]->followSchedule(stream); !followed.ok()) {
    if (!isFatal(followed.result())) differ();  // all ranks have met it
    return followed;
  }
  if (candidates_[0]->scheduleEnded()) {
    try {
      askOthers();
    } catch (const std::bad_alloc&) {
      // A candidate that keeps an old density here has Mismatch on all ranks, and the next step asks again.
    }
    if (plan_.k() != candidates_[0]->entries()) startTrials();
  }
  SC_TRY(meet());
  turnTo(plan_.next());
  if (std::exchange(told_, plan_.decisions()) != plan_.decisions() && comm_->rank() == 0)
    comm_->log().write(sparsecollLogInfo, "plan", "step {}: {}", plan_.steps(), plan_.line());
  const uint64_t begin = nowNs();
  const Status status = now().runChecked(gradient, out, stream);
  const uint64_t total = nowNs() - begin;
  if (status.result() == sparsecollMismatch) {
    differ();
    return status;
  }
  StepCost cost;
  if (plan_.measures()) {
    SC_TRY(const sparsecollStats_t stats, now().stats());
    cost = costOf(plan_.name(current_), comm_->rank(), {total, stats.lastExchangeNs});
  }
  plan_.stepped(status.ok(), cost);
  return status;
}

// Times are told before the next step and not behind their own, which by then has taken effect and must not fail. A
// timed step begins when all ranks have met here: who came late to it plays no part in its time.
Status AutoReducer::meet() {
  if (!plan_.meets()) return {};
  const AgreedField fields[] = {{"created", created_}};  // steps of another reducer take another time
  Result<Agreement> agreement = agree(*comm_, "trial", fields, plan_.own());
  if (agreement.ok()) {
    plan_.hear(agreement->numbers);
    return {};
  }
  Status failed = agreement.takeStatus();
  if (failed.result() == sparsecollMismatch) differ();
  return failed;
}

// A rank may have been elsewhere in its trials than the others, or know other times. All of them met the Mismatch, so
// all forget what they know, and begin anew where the density has come to stay.
void AutoReducer::differ() {
  plan_.differed();
  plan_.forgetCosts();
}

void AutoReducer::startTrials() {
  const uint64_t k = candidates_[0]->entries();
  const uint64_t n = spec_.asked.n;
  tunedNs_.clear();
  if (tuned_)
    for (const AutoSpec::Part& part : spec_.parts)
      tunedNs_.push_back(spec_.tuner->nsOf(part.candidate, n, static_cast<double>(k) / static_cast<double>(n)));
  plan_.start(k, able_, tunedNs_);
}

// For what the first candidate asks for: a SetDensity, or the method's density where a warm-up has ended, which may be
// one that began anew behind a SetDensity. Where memory runs out it can be called again.
void AutoReducer::askOthers() {
  const double density = candidates_[0]->density();
  if (asked_ == density) return;
  const bool asMade = density == spec_.asked.params.density;
  for (size_t c = 1; c < candidates_.size(); ++c) {
    if (dense(c)) continue;
    const double factor = spec_.parts[c].row().countsAllRanks ? comm_->ranks() : 1;
    const Status taken =
        asMade ? candidates_[c]->askAsMade() : candidates_[c]->setDensity(std::min(1.0, density * factor));
    able_[c] = taken.ok() ? 1 : 0;  // no memory was planned for more than the method's own density
  }
  asked_ = density;
}

void AutoReducer::turnTo(size_t candidate) {
  if (candidate == current_) return;
  Reducer& next = *candidates_[candidate];
  next.startAnew(plan_.steps());
  next.takeResidual(now());
  current_ = candidate;
}

Status AutoReducer::runSparse(const void*, sparsecollVector_t&, Stream) {
  return unsupported("sparse sums by auto, which may take the dense collective");
}

Status AutoReducer::setDensity(double density) {
  plan_.makeRoom();
  SC_TRY(candidates_[0]->setDensity(density));
  if (candidates_[0]->density() == density) askOthers();  // else the next step enters the warm-up's last stage
  return {};
}

Status AutoReducer::setScales(ScalePair scales) {
  for (const auto& candidate : candidates_) SC_TRY(candidate->setScales(scales));
  return {};
}

Status AutoReducer::reset(Stream stream) {
  SC_TRY(now().reset(stream));
  plan_.reset();
  turnTo(0);
  now().startAnew(0);
  return {};
}

Result<uint64_t> AutoReducer::exportState(void* blob, uint64_t room, Stream stream) {
  Writer head;
  head.write(kMagic);
  head.write(kVersion);
  plan_.save(head, current_);
  const uint64_t before = head.bytes().size();
  SC_TRY(const uint64_t method, now().exportState(nullptr, 0, stream));
  const uint64_t need = before + method + kBlobSumBytes;
  if (blob == nullptr) return need;
  SC_TRY(fitsBlob(need, room));
  auto* const begin = static_cast<std::byte*>(blob);
  std::memcpy(begin, head.bytes().data(), before);
  SC_TRY(now().exportState(begin + before, method, stream).takeStatusOrOk());
  seal(begin, begin + before + method);
  return need;
}

Status AutoReducer::importState(std::span<const std::byte> blob, Stream stream) {
  return restore(blob, false, Merge::kReplace, stream);
}

Status AutoReducer::importStateFrom(std::span<const std::byte> blob, Merge merge, Stream stream) {
  return restore(blob, true, merge, stream);
}

// Other ranks take another time: with their state comes their residual, and trials begin anew.
Status AutoReducer::restore(std::span<const std::byte> blob, bool otherRanks, Merge merge, Stream stream) {
  SC_TRY(const auto body, bodyOf(blob));
  Reader reader(body);
  SC_TRY(const auto magic, reader.read<uint32_t>());
  SC_TRY(const auto version, reader.read<uint32_t>());
  if (magic != kMagic) return invalid("this is not the state of an auto reducer");
  if (version != kVersion) return unsupported("state of version {}, this library reads {}", version, kVersion);
  Plan plan = plan_;
  SC_TRY(const size_t saved, plan.load(reader));
  if (otherRanks || candidates_[0]->warmsUpAt(plan.steps())) plan.forgetCosts();

  // Where it fails, for want of memory too, the candidates' thresholds are as they were: only the residual has changed
  // hands, and comes back.
  struct Lent {
    Reducer& before;
    Reducer& after;
    bool comesBack = false;
    ~Lent() {
      if (comesBack) before.takeResidual(after);
    }
  } lent{now(), *candidates_[saved]};
  Reducer& after = lent.after;
  if (&lent.before != &after) {
    after.takeResidual(lent.before);
    lent.comesBack = true;
  }
  const auto rest = body.subspan(body.size() - reader.left());
  SC_TRY(otherRanks ? after.importStateFrom(rest, merge, stream) : after.importState(rest, stream));
  lent.comesBack = false;
  plan_ = std::move(plan);
  current_ = saved;
  if (otherRanks) {
    turnTo(0);
  } else if (current_ != 0) {
    candidates_[0]->startAnew(plan_.steps());  // the warm-up is over
  }
  return {};
}

Result<AnyReducer::Moved> AutoReducer::moveTo(const std::shared_ptr<Communicator>& comm) {
  if (!comm->descendsFrom(*comm_)) return invalid("the communicator is not made of the reducer's");
  AutoSpec spec = spec_;
  spec.denseNs = 0;  // the caller's was of other ranks
  spec.plan.clear();
  const ScalePair scales = now().scales();
  SC_TRY(const bool ended, candidates_[0]->scheduleEndedOnAll(*comm, candidates_[0]->scheduleEnded()));
  for (ReducerSpec* const one : {&spec.asked, &spec.parts[0].spec}) {
    one->buffer = one->velocity = nullptr;
    if (!ended) continue;
    one->densitySchedule.clear();
    one->scheduleSteps = 0;
  }
  std::shared_ptr<AutoReducer> made;
  AgreedFields fields;
  SC_TRY(makeTogether(*comm, [&]() -> Status {  // the ranks may have met by now
    made.reset(new AutoReducer(comm, std::move(spec)));
    SC_TRY(fields, made->prepare());
    return {};
  }));
  SC_TRY(made->makeCandidates("ReducerMove", fields));
  SC_TRY(made->setScales(scales));
  now().copyResidual(made->now());
  Moved result;
  result.reducer = made;
  return result;
}

sparsecollReducerInfo_t AutoReducer::info() const {
  sparsecollReducerInfo_t info = now().info();
  info.workspaceBytes = info.memoryBoundBytes = 0;
  for (const auto& candidate : candidates_) {
    const sparsecollReducerInfo_t one = candidate->info();
    info.workspaceBytes += one.workspaceBytes;
    info.memoryBoundBytes += one.memoryBoundBytes;
  }
  const Text<128> line = plan_.line();
  std::memset(info.reason, 0, sizeof info.reason);
  line.view().copy(info.reason, sizeof info.reason - 1);
  return info;
}

// The last* fields are those of the candidate that ran last.
Result<sparsecollStats_t> AutoReducer::stats() const {
  size_t last = 0;
  uint64_t latest = 0;
  for (size_t c = 0; c < candidates_.size(); ++c) {
    SC_TRY(const sparsecollStats_t one, candidates_[c]->stats());
    if (one.lastSequence > latest) last = c;
    latest = std::max(latest, one.lastSequence);
  }
  sparsecollStats_t total = SPARSECOLL_INIT(sparsecollStats_t);
  uint64_t bytes = 0;
  uint64_t peak = 0;
  for (size_t c = 1; c <= candidates_.size(); ++c) {
    SC_TRY(const sparsecollStats_t one, candidates_[(last + c) % candidates_.size()]->stats());
    accumulateStats(total, one);
    bytes += one.workspaceBytes;
    peak += one.workspacePeakBytes;
  }
  total.workspaceBytes = bytes;
  total.workspacePeakBytes = peak;
  return total;
}

std::vector<sparsecollChoice_t> AutoReducer::choices() const { return {plan_.record().begin(), plan_.record().end()}; }

}  // namespace sparsecoll
