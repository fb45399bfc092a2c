#include "tools/flight/join.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "tools/flight/words.h"

namespace flight {

namespace {

// What ranks in one operation have in common. k may differ: of vectors and of shards it is each rank's own.
using Meaning = std::tuple<std::string, std::string, std::string, std::string, uint64_t, uint64_t, std::string>;
Meaning meaningOf(const Entry& entry) {
  return {entry.call, entry.preset, entry.selector, entry.collective, entry.tag, entry.n, entry.plan};
}

template <class Key>
using RanksBy = std::map<Key, std::vector<int>>;

// The operation that ranks were in last, and how far each of them is.
class Front {
 public:
  explicit Front(const Group& group) : group_(group) {
    for (const auto& [rank, recording] : group.of)
      if (const Entry* const latest = recording.latest())
        if (first_ == nullptr || *latest->sequence > *first_->sequence) first_ = latest;
    if (first_ == nullptr) return;
    for (const auto& [rank, recording] : group.of) {
      const Entry* const entry = recording.find(*first_->sequence);
      if (entry == nullptr)
        behind_.push_back(rank);
      else if (!entry->succeeded())
        waiting_.emplace(rank, entry);
    }
  }

  const Entry* first() const { return first_; }
  uint64_t sequence() const { return *first_->sequence; }
  const std::vector<int>& behind() const { return behind_; }
  bool anyWaits() const { return !waiting_.empty(); }

  // "ranks 0-2 wait for rank 3 in round 2, for 29.9 s until Timeout", one after the other.
  std::string waits() const {
    struct Wait {
      std::vector<int> ranks;
      int64_t longestNs = 0;
    };
    std::map<std::tuple<std::vector<int>, uint64_t, std::string>, Wait> waits;
    for (const auto& [rank, entry] : waiting_) {
      Wait& wait = waits[{whomFor(*entry), entry->rounds, entry->result.value_or("")}];
      wait.ranks.push_back(rank);
      const int64_t until = entry->endNs.value_or(group_.of.at(rank).writtenNs);
      wait.longestNs = std::max(wait.longestNs, until - entry->roundNs.value_or(entry->startNs));
    }
    std::string text;
    for (const auto& [how, wait] : waits) {
      const auto& [whom, round, result] = how;
      const bool one = wait.ranks.size() == 1;
      text += (text.empty() ? "" : "; ") + ranksText(wait.ranks);
      if (result.empty())
        text += one ? " waits" : " wait";
      else
        text += " waited";
      if (!whom.empty()) text += " for " + ranksText(whom);
      text += round == 0 ? " before the first round" : " in round " + std::to_string(round);
      text += result.empty() ? ", since " : ", for ";
      text += durationText(wait.longestNs) + (result.empty() ? "" : " until " + result);
    }
    return text;
  }

  // Ranks that others wait for and that wait in an earlier round than those; empty: none can be told apart.
  std::vector<int> slowest() const {
    uint64_t least = UINT64_MAX, most = 0;
    for (const auto& [rank, entry] : waiting_) {
      least = std::min(least, entry->rounds);
      most = std::max(most, entry->rounds);
    }
    std::vector<int> slow;
    for (const auto& [rank, entry] : waiting_)
      if (entry->rounds == least && least < most && isWaitedFor(rank)) slow.push_back(rank);
    return slow;
  }
  bool isWaitedFor(int rank) const {
    return std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& one) {
      const std::vector<int> whom = whomFor(*one.second);
      return std::find(whom.begin(), whom.end(), rank) != whom.end();
    });
  }

 private:
  // Engines that do not tell what is missing may still name who failed.
  static std::vector<int> whomFor(const Entry& entry) {
    if (!entry.waitsFor.empty() || !entry.peer) return entry.waitsFor;
    return {*entry.peer};
  }

  const Group& group_;
  const Entry* first_ = nullptr;
  std::vector<int> behind_;
  std::map<int, const Entry*> waiting_;
};

// Where a rank is that has not come to an operation.
std::string whereIs(const Recording& recording) {
  const Entry* const latest = recording.latest();
  if (latest == nullptr) return "it has begun none";
  const std::string which = "operation " + std::to_string(*latest->sequence) + ", " + operationText(*latest);
  if (latest->underWay()) return "it is still in " + which;
  const std::string ago = durationText(recording.writtenNs - *latest->endNs);
  return "its last was " + which + ", which ended with " + *latest->result + " " + ago + " before its file was written";
}

void addMismatch(const Group& group, std::vector<Finding>& findings) {
  std::set<uint64_t> sequences;
  for (const auto& [rank, recording] : group.of)
    for (const Entry& entry : recording.entries)
      if (entry.sequence) sequences.insert(*entry.sequence);
  for (const uint64_t sequence : sequences) {
    RanksBy<Meaning> meanings;
    for (const auto& [rank, recording] : group.of)
      if (const Entry* const entry = recording.find(sequence)) meanings[meaningOf(*entry)].push_back(rank);
    if (meanings.size() < 2) continue;
    std::vector<std::vector<int>> parts;
    for (const auto& [meaning, ranks] : meanings) parts.push_back(ranks);
    // Who is alone is named first.
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    Finding finding{Finding::Kind::kMismatch, parts.front(), sequence, {}};
    finding.text = "operation " + std::to_string(sequence) + ": ";
    std::set<std::string> texts;
    for (const std::vector<int>& ranks : parts) {
      const std::string what = operationText(*group.of.at(ranks.front()).find(sequence));
      finding.text += (texts.empty() ? "" : ", ") + ranksText(ranks) + " called " + what;
      if (!texts.insert(what).second) finding.text += " with other parameters";
    }
    findings.push_back(finding);
    return;  // what comes later follows from it
  }
}

void addLag(const Group& group, const Front& front, std::vector<Finding>& findings) {
  if (!front.anyWaits()) return;
  const std::string which = "operation " + std::to_string(front.sequence()) + ", " + operationText(*front.first());
  std::vector<int> silent;
  for (const int rank : group.missing())
    if (front.isWaitedFor(rank)) silent.push_back(rank);
  Finding finding{Finding::Kind::kLag, front.behind(), front.sequence(), {}};
  if (!front.behind().empty()) {
    finding.text = ranksText(front.behind()) + " never began " + which;
    for (const int rank : front.behind()) {
      finding.text += front.behind().size() == 1 ? ": " : "; rank " + std::to_string(rank) + ": ";
      finding.text += whereIs(group.of.at(rank));
    }
    finding.text += "; ";
  } else if (!silent.empty()) {
    finding.ranks = silent;
    finding.text = ranksText(silent) + (silent.size() == 1 ? " holds" : " hold") + " up " + which + ": ";
  } else if (const std::vector<int> slow = front.slowest(); !slow.empty()) {
    finding.ranks = slow;
    finding.text = ranksText(slow) + (slow.size() == 1 ? " is" : " are") + " behind in " + which + ": ";
  } else {
    finding.kind = Finding::Kind::kWait;
    finding.ranks = group.here();
    finding.text = "in " + which + ": ";
  }
  finding.text += front.waits();
  findings.push_back(finding);
}

void addMissing(const Group& group, std::vector<Finding>& findings) {
  const std::vector<int> missing = group.missing();
  if (missing.empty()) return;
  findings.push_back({Finding::Kind::kMissing,
                      missing,
                      {},
                      ranksText(missing) + " left no file: stopped, killed, or its folder is another one"});
}

void addFailures(const Group& group, std::vector<Finding>& findings) {
  struct Told {
    std::vector<int> ranks;
    Failure failure;
  };
  std::map<std::tuple<uint64_t, std::string, std::string>, Told> failures;
  for (const auto& [rank, recording] : group.of) {
    if (!recording.failure) continue;
    const Failure& failure = *recording.failure;
    Told& told = failures[{failure.sequence, failure.result, failure.text}];
    told.ranks.push_back(rank);
    told.failure = failure;
  }
  for (const auto& [key, told] : failures) {
    Finding finding{Finding::Kind::kFailure, told.ranks, {}, ranksText(told.ranks) + ": " + told.failure.result};
    if (told.failure.sequence != 0) {
      finding.sequence = told.failure.sequence;
      finding.text += " in operation " + std::to_string(told.failure.sequence);
    }
    finding.text += ": " + told.failure.text;
    findings.push_back(finding);
  }
}

// Calls outside of operations, which have no number to be compared by.
void addOtherWaits(const Group& group, std::vector<Finding>& findings) {
  RanksBy<std::string> waits;
  for (const auto& [rank, recording] : group.of)
    if (!recording.entries.empty())
      if (const Entry& last = recording.entries.back(); !last.sequence && last.underWay())
        waits["in " + last.call + " since " + durationText(recording.writtenNs - last.startNs)].push_back(rank);
  for (const auto& [text, ranks] : waits)
    findings.push_back(
        {Finding::Kind::kWait, ranks, {}, ranksText(ranks) + (ranks.size() == 1 ? " is " : " are ") + text});
}

}  // namespace

std::vector<int> Group::here() const {
  std::vector<int> all;
  for (const auto& [rank, recording] : of) all.push_back(rank);
  return all;
}

std::vector<int> Group::missing() const {
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank)
    if (of.count(rank) == 0) all.push_back(rank);
  return all;
}

const char* nameOf(Finding::Kind kind) {
  constexpr const char* kNames[] = {"lag", "mismatch", "failure", "missing", "wait"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<Group> groupsOf(std::vector<Recording> recordings, std::vector<std::string>& notes) {
  std::map<std::pair<std::string, int>, Group> groups;  // ranks that count differently do not belong together
  for (Recording& recording : recordings) {
    Group& group = groups[{recording.communicator, recording.ranks}];
    group.communicator = recording.communicator;
    group.name = recording.name;
    group.transport = recording.transport;
    group.ranks = recording.ranks;
    const auto known = group.of.find(recording.rank);
    if (known == group.of.end()) {
      group.of.emplace(recording.rank, std::move(recording));
      continue;
    }
    const bool later = recording.writtenNs > known->second.writtenNs;
    notes.push_back((later ? known->second.path : recording.path) + ": left out, rank " +
                    std::to_string(recording.rank) + " has a later file");
    if (later) known->second = std::move(recording);
  }
  std::vector<Group> all;
  for (auto& [key, group] : groups) all.push_back(std::move(group));
  return all;
}

std::vector<Finding> findingsOf(const Group& group) {
  std::vector<Finding> findings;
  const Front front(group);
  addMismatch(group, findings);
  addLag(group, front, findings);
  addMissing(group, findings);
  addOtherWaits(group, findings);
  addFailures(group, findings);
  return findings;
}

}  // namespace flight
