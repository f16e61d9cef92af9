#include "simulator.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>

#include "core/error.h"
#include "pipeline/groups/board_schedule.h"
#include "pipeline/loop/run_state.h"

namespace rl::testing {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kMostTurns = 20'000;  // of a run that makes progress

struct LawBroken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void require(bool holds, const std::string& law) {
  if (!holds) throw LawBroken(law);
}

uint64_t mixed(uint64_t a, uint64_t b) { return Dice(a * 0x9E3779B97F4A7C15u + b).roll(); }

// The host or the disk ends the run in the middle.
struct Crash {};

// What a run is like, and what follows from the seed for each sample and group, whenever it is
// drawn.
class Script {
 public:
  explicit Script(const SimOptions& options) : options_(options) {
    Dice dice(mixed(options.seed, 1));
    mode = options.mode ? *options.mode : static_cast<SimMode>(dice.below(3));
    group_size = 1 + dice.below(3);
    rules.batch_groups = 1 + dice.below(4);
    rules.by_batch = mode != SimMode::kAsync;
    rules.max_staleness = mode == SimMode::kOneStepOff ? 1 : 0;
    if (mode == SimMode::kAsync) set_async(Dice(mixed(options.seed, 10)));
    total_steps = 2 + dice.below(8);
    max_seqs = 1 + dice.below(8);
    long_tail = dice.one_in(2);
    max_rounds = dice.below(3);
    if (options.feeds && dice.one_in(4)) num_rows = dice.below(20);
    if (options.filters && dice.one_in(2)) filter_share = 1 + dice.below(3);
    if (!options.faults) return;
    if (mode == SimMode::kAsync && !options.bounds) lower(Dice(mixed(options.seed, 11)));
    timeout_ns = dice.one_in(2) ? kSecond : 0;
    crash_turn = num_rows < 0 && dice.one_in(4) ? 20 + dice.below(200) : -1;
    memory_fails_at = dice.one_in(16) ? dice.below(300) : -1;
    stop_turn = dice.one_in(8) ? dice.below(300) : -1;
  }

  void set_async(Dice dice) {
    rules.max_staleness = dice.below(4);
    rules.queue_batches = dice.below(rules.max_staleness + 1);
    if (options_.bounds) rules.max_staleness = rules.queue_batches = *options_.bounds;
    if (rules.queue_batches < rules.max_staleness) rules.surplus_groups = dice.below(4);
    if (rules.max_staleness > 0 && dice.one_in(3)) {
      rules.max_off_policy = dice.below(rules.max_staleness);
    }
    partial = rules.max_off_policy >= 0 || dice.one_in(2);
    max_across = partial && dice.one_in(2) ? 1 + dice.below(2) : 0;
    mask = partial && dice.one_in(4);
    if (dice.one_in(4)) rules.rollout_turns = 1 + dice.below(6);
    if (dice.one_in(4)) rules.train_turns = 1 + dice.below(6);
  }

  // The host lowers the bound on staleness between two steps, as far as the other bounds let it.
  void lower(Dice dice) {
    const int64_t room = rules.queue_batches + (rules.surplus_groups > 0 ? 1 : 0);
    const int64_t least = std::max(room, rules.max_off_policy + 1);
    if (least >= rules.max_staleness || !dice.one_in(4)) return;
    lowered_staleness = least + dice.below(rules.max_staleness - least);
    lowered_step = 1 + dice.below(total_steps);
  }

  int64_t length(uint64_t ordinal, uint32_t slot) const {
    const uint64_t r = mixed(mixed(options_.seed, 2), ordinal * 64 + slot);
    const auto tokens = 1 + static_cast<int64_t>(r % 5);
    return long_tail && (r >> 8) % 8 == 0 ? 8 * tokens : tokens;
  }
  bool filtered(uint64_t ordinal) const {
    return filter_share > 0 &&
           mixed(mixed(options_.seed, 3), ordinal) % 8 < static_cast<uint64_t>(filter_share);
  }
  bool zero_advantage(uint64_t ordinal) const {
    return options_.filters && mixed(mixed(options_.seed, 4), ordinal) % 16 == 0;
  }
  // 0: it is scored; 1: twice; 2: first with a NaN; 3: it fails; 4: it is late; 5: never.
  int64_t fate(uint64_t sample) const {
    if (!options_.faults) return 0;
    const auto r = static_cast<int64_t>(mixed(mixed(options_.seed, 5), sample) % 64);
    if (r >= 6) return 0;
    return timeout_ns == 0 && r >= 4 ? 0 : r;
  }
  bool skips(int64_t step) const {
    return options_.faults && mixed(mixed(options_.seed, 6), static_cast<uint64_t>(step)) % 16 == 0;
  }
  bool evaluates(int64_t step) const {
    return mixed(mixed(options_.seed, 7), static_cast<uint64_t>(step)) % 4 == 0;
  }
  bool saves(int64_t step) const {
    return mixed(mixed(options_.seed, 8), static_cast<uint64_t>(step)) % 2 == 0;
  }

  SimMode mode;
  FlowRules rules;
  int64_t group_size, total_steps, max_seqs, max_rounds;
  int64_t filter_share = 0, max_across = 0, timeout_ns = 0;
  int64_t num_rows = -1;  // of a feed; -1: a file, which never ends
  int64_t crash_turn = -1, memory_fails_at = -1, stop_turn = -1;
  int64_t lowered_staleness = 0, lowered_step = -1;  // from which step on; -1: never
  bool partial = false, mask = false, long_tail;

 private:
  const SimOptions& options_;
};

// What outlives a crash.
struct Disk {
  RunState state;
  uint64_t version = 0, digest = 0;
  std::set<uint64_t> trained;  // ordinals
};

class World final : public RolloutPort, public UpdatePort, public WaitPort {
 public:
  World(const SimOptions& options, const Script& script, Disk& disk, RunSchedule& schedule,
        SimResult& result)
      : options_(options),
        script_(script),
        disk_(disk),
        schedule_(schedule),
        board_schedule_(schedule),
        result_(result),
        dice_(mixed(options.timing, 9)),
        rules_(script.rules),
        told_(script.rules),
        store_(script.group_size, 1,
               script.rules.batch_groups * (script.rules.queue_batches + 1) +
                   script.rules.surplus_groups),
        here_(disk) {
    const RunState& s = here_.state;
    store_.board().observe(board_schedule_);
    store_.board().restore(s.ledger, s.open_ordinals.empty() ? s.cursor : s.open_ordinals.front());
    reopened_.assign(s.open_ordinals.begin(), s.open_ordinals.end());
    next_ordinal_ = s.cursor;
    if (options.bug == Bug::kDrawsTooFarAhead) told_.max_staleness += 2;
    if (options.bug == Bug::kDrawsTooFarAhead) told_.queue_batches += 2;
    if (options.bug == Bug::kNeverCancels) told_.max_off_policy = -1;
    if (options.bug == Bug::kForgetsTheCursor && result.crashed) next_ordinal_ = 0;
  }

  // False if the run is a replay that was resumed here.
  bool run(bool may_crash) {
    Flow flow(told_, {*this, *this, *this});
    bool more = true;
    for (int64_t turn = 0; more; ++turn) {
      if (may_crash && turn == script_.crash_turn) throw Crash();
      require(turn < kMostTurns, "the run makes no progress");
      if (turn == script_.memory_fails_at) fails_ = !schedule_.replaying();
      if (turn == script_.stop_turn) stops_ = !schedule_.replaying();
      try {
        more = flow.turn();
      } catch (const std::bad_alloc&) {
        result_.failed = true;  // and its books close all the same
        break;
      }
      check();
    }
    if (schedule_.resumes()) return false;
    result_.failed ? schedule_.abandon() : schedule_.finish();
    close();
    return true;
  }

  const Disk& here() const { return here_; }
  void apply(const ScheduledEvent& input) { apply_input(store_.board(), input); }

  // RolloutPort
  FlowGroups groups() override {
    host_acts();
    schedule_.look();
    FlowGroups out = store_.board().waiting_groups();
    if (options_.bug == Bug::kIgnoresSlowGroups && chooses_batch_) out.unfinished.clear();
    chooses_batch_ = false;
    return out;
  }

  int64_t draw(int64_t count, bool all) override {
    if (options_.bug == Bug::kSwallowsFailures && fails_) return 0;
    fail_now();
    require(!at_boundary_, "a prompt is drawn before what is due between two steps");
    int64_t drawn = 0;
    for (; drawn < count && !reopened_.empty(); ++drawn) {
      open(reopened_.front());
      reopened_.pop_front();
    }
    if (drawn == count || ended_) return drawn;
    const int64_t rows = rows_there();
    if (rows < (all ? count - drawn : 1)) {
      ended_ = script_.num_rows >= 0 && fed() == script_.num_rows;
      return drawn;
    }
    for (int64_t i = std::min(rows, count - drawn); i > 0; --i, ++drawn) {
      if (options_.bug == Bug::kSkipsGroups && next_ordinal_ == 3) ++next_ordinal_;
      open(next_ordinal_++);
    }
    return drawn;
  }

  bool source_ended() override { return ended_; }
  bool can_generate() override { return !running_.empty() || (admitting_ && !waiting_.empty()); }
  bool generating() override { return !running_.empty() || !waiting_.empty(); }

  Turn generate() override {
    if (must_stop()) return Turn::kEnd;
    work();
    while (admitting_ && !waiting_.empty() &&
           static_cast<int64_t>(running_.size()) < script_.max_seqs) {
      running_.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    std::vector<SamplePtr> goes_on;
    for (SamplePtr& s : running_) {
      append_token(*s);
      if (s->generated() == script_.length(s->ordinal, s->slot)) {
        deliver(s);
      } else {
        goes_on.push_back(std::move(s));
      }
    }
    running_ = std::move(goes_on);
    schedule_.note(ScheduledKind::kForward, {here_.version, running_.size()});
    serve();
    return Turn::kWorked;
  }

  bool decide() override {
    const int64_t before = store_.board().unscored();
    if (options_.bug != Bug::kForgetsDeadlines) store_.board().expire(now_);
    changes_ += store_.board().unscored() != before;
    schedule_.look();
    return store_.board().decided();
  }

  FlowJudged commit() override {
    schedule_.look();
    return store_.commit_all(
        [&](std::span<const double> rewards) {
          return script_.filtered(static_cast<uint64_t>(rewards.front())) ? std::string("filtered")
                                                                          : std::string();
        },
        script_.mask && options_.bug != Bug::kUnmasksOldTokens);
  }

  void end_batch(int64_t rounds, int64_t not_replaced) override {
    require(script_.max_rounds == 0 || rounds <= script_.max_rounds, "too many rounds");
    require(not_replaced == 0 || ended_ || rounds == script_.max_rounds, "groups are missing");
  }
  int64_t max_rounds() override { return script_.max_rounds; }

  void hold_back(bool held) override {
    if (!held && options_.bug == Bug::kKeepsHoldingBack) return;
    admitting_ = !held;
  }

  int64_t num_bound() override { return options_.bug == Bug::kPublishesAtOnce ? 0 : bound(); }

  void cancel_drawn_before(int64_t steps_done) override {
    schedule_.look();
    cancel_since(steps_done);
  }

  // UpdatePort
  FlowProgress progress() override {
    const auto done = static_cast<int64_t>(here_.state.step);
    return {done, script_.total_steps - done, training_};
  }

  bool needs_engine() override {
    return options_.bug != Bug::kEvaluatesMeanwhile && script_.evaluates(progress().steps_done) &&
           evaluated_ != progress().steps_done;
  }

  Turn between_steps() override {
    const int64_t done = progress().steps_done;
    if (script_.evaluates(done) && evaluated_ != done) {
      require(!generating(), "an evaluation shares the engine");
      evaluated_ = done;
    }
    if (script_.saves(done)) save();
    if (script_.lowered_step >= 0 && done >= script_.lowered_step) lower_staleness();
    at_boundary_ = false;
    return done < script_.total_steps && !must_stop() ? Turn::kWorked : Turn::kEnd;
  }

  int64_t drop_stale() override {
    chooses_batch_ = true;
    const auto most = static_cast<uint64_t>(rules_.max_staleness);
    if (options_.bug == Bug::kDropsSlowGroups) cancel_since(progress().steps_done);
    if (options_.bug == Bug::kEvictsFreshGroups) return store_.drop_older_than(here_.version + 1);
    return here_.version > most ? store_.drop_older_than(here_.version - most) : 0;
  }

  Turn begin(int64_t groups) override {
    work();
    fail_now();
    if (options_.bug == Bug::kTakesTooFew) --groups;
    const int64_t dropped = store_.drop_filtered(groups, [&](std::span<const SamplePtr> batch) {
      std::vector<GroupStore::Rejected> out;
      for (const SamplePtr& s : batch) {
        if (s->slot == 0 && script_.zero_advantage(s->ordinal)) out.push_back({s->ordinal, "zero"});
      }
      return out;
    });
    batch_ = store_.take(groups - dropped);
    if (options_.bug == Bug::kThrowsSurplusAway) store_.drop_older_than(here_.version + 1);
    if (options_.bug == Bug::kTrainsPartOfAGroup && !batch_.empty()) batch_.pop_back();
    board_schedule_.taken(here_.state.step + 1, batch_);
    if (rules_.by_batch) {
      // What filters and failures left of it.
      require(static_cast<int64_t>(batch_.size()) <= groups * script_.group_size, "too many");
    } else {
      require(static_cast<int64_t>(batch_.size()) ==
                  (rules_.batch_groups - dropped) * script_.group_size,
              "the batch is not whole");
    }
    training_ = true;
    left_ = 1 + static_cast<int64_t>(batch_.size()) / 2;
    check_batch();
    return Turn::kWorked;
  }

  Turn next() override {
    work();
    serve();
    return left_-- > 0 ? Turn::kWorked : Turn::kNothing;
  }

  void publish() override {
    schedule_.look();
    require(rules_.by_batch || must_stop() || bound() == 0, "weights of a sample under way change");
    const bool skipped = script_.skips(progress().steps_done);
    if (skipped) {
      store_.board().drop_reserved(DropReason::kNonFinite, {});
      if (options_.bug == Bug::kTrainsSkippedSteps) {
        for (const SamplePtr& s : batch_) train(*s);
      }
    } else {
      for (const SamplePtr& s : batch_) train(*s);
      store_.board().commit();
      here_.version += !batch_.empty();
    }
    if (options_.bug == Bug::kDropsSilently) store_.take(1);
    training_ = false;
    ++here_.state.step;
    at_boundary_ = true;
    save_state();
    schedule_.note(ScheduledKind::kPublish, {here_.state.step, here_.version});
    batch_.clear();
  }

  // WaitPort
  uint64_t num_changes() override { return changes_; }

  // The host acts between the look and the wait, too.
  Turn wait(uint64_t seen) override {
    if (must_stop()) return Turn::kEnd;
    if (schedule_.replaying()) {
      schedule_.check_waiting();
      return Turn::kWorked;
    }
    if (dice_.one_in(3)) {
      now_ += dice_.below(kSecond / 8);
      serve();
    }
    if (changes_ != seen) return Turn::kWorked;
    std::optional<int64_t> until = store_.board().next_expiry();
    const auto sooner = [&](int64_t at) { until = until ? std::min(*until, at) : at; };
    if (until) ++*until;
    if (!scores_.empty()) sooner(scores_.begin()->first);
    if (script_.num_rows >= 0 && fed() < script_.num_rows) sooner(next_row_ns());
    require(until.has_value(), "the run waits for nothing");
    now_ = std::max(now_, *until);
    serve();
    return Turn::kWorked;
  }

 private:
  bool must_stop() { return schedule_.stops(stops_); }

  void save() {
    schedule_.sync();
    if (options_.bug == Bug::kTearsCheckpoints) {
      disk_ = std::exchange(unsaved_, here_);
      disk_.state = here_.state;
      return;
    }
    disk_ = here_;
  }

  void lower_staleness() {
    if (rules_.max_staleness == script_.lowered_staleness) return;
    rules_.max_staleness = told_.max_staleness = script_.lowered_staleness;
    drawn_before_ = next_ordinal_;
  }

  // Cancels the groups in generation that were drawn before so many steps were done.
  void cancel_since(int64_t steps_done) {
    ScoreBoard& board = store_.board();
    for (const uint64_t ordinal : board.generating_since(steps_done)) {
      board.drop(ordinal, DropReason::kCancelled, "cancelled");
      end_samples(running_, ordinal);
      end_samples(waiting_, ordinal);
    }
  }

  void work() {
    ++result_.events;
    now_ += 1 + dice_.below(kSecond / 20);
  }

  void fail_now() {
    if (!fails_ || options_.bug == Bug::kSwallowsFailures) return;
    fails_ = false;
    throw std::bad_alloc();
  }

  void open(uint64_t ordinal) {
    require(here_.trained.count(ordinal) == 0, "a group that was trained on is drawn again");
    int64_t steps_done = progress().steps_done;
    if (options_.bug == Bug::kForgetsItsAge) steps_done -= resumed_step_;
    store_.board().open(ordinal, -1, steps_done);
    const int32_t prompt = 1;
    board_schedule_.drawn(store_.board().sample_id(ordinal, 0), steps_done, {&prompt, 1});
    for (uint32_t slot = 0; slot < script_.group_size; ++slot) {
      auto s = std::make_shared<Sample>();
      s->id = store_.board().sample_id(ordinal, slot);
      s->ordinal = ordinal;
      s->slot = slot;
      s->ids = {1};
      s->prompt_tokens = 1;
      waiting_.push_back(std::move(s));
    }
  }

  void append_token(Sample& s) {
    s.ids.push_back(1);
    s.logprobs.push_back(-1);
    s.logprobs_sampled.push_back(-1);
    s.versions.push_back(options_.bug == Bug::kKeepsOldWeights ? 0 : here_.version);
    s.loss_mask.push_back(1);
  }

  static std::set<uint64_t> versions_of(const Sample& s) {
    return {s.versions.begin(), s.versions.end()};
  }

  // Whether the tokens of its last version alone carry loss.
  static bool has_newest_loss(const Sample& s) {
    for (size_t t = 0; t < s.versions.size(); ++t) {
      if ((s.loss_mask[t] != 0) != (s.versions[t] == s.versions.back())) return false;
    }
    return true;
  }

  // Samples that a publication must wait for.
  int64_t bound() const {
    if (!script_.partial) return static_cast<int64_t>(running_.size());
    if (script_.max_across == 0) return 0;
    return std::ranges::count_if(running_, [&](const SamplePtr& s) {
      return static_cast<int64_t>(versions_of(*s).size()) > script_.max_across;
    });
  }

  void deliver(const SamplePtr& s) {
    const bool expires = script_.timeout_ns > 0 && !schedule_.replaying();
    s->finish = FinishReason::kLength;
    board_schedule_.finished(*s);
    if (!store_.board().finish(s, expires ? now_ + script_.timeout_ns : -1)) return;
    if (schedule_.replaying()) return;
    const int64_t fate = script_.fate(s->id);
    if (fate == 5) return;
    const int64_t delay = 1 + dice_.below(kSecond / 4) + (fate == 4 ? 2 * kSecond : 0);
    scores_.emplace(now_ + delay, s->id);
    if (options_.bug == Bug::kCountsTokensTwice) s->prompt_tokens = 0;
  }

  template <typename Samples>
  void end_samples(Samples& of, uint64_t ordinal) {
    std::erase_if(of, [&](const SamplePtr& s) {
      if (s->ordinal != ordinal) return false;
      s->finish = FinishReason::kAborted;
      store_.board().finish(s, -1);
      return true;
    });
  }

  // The host gives the scores that are due.
  // At any moment, so that one turn may look before and after it.
  void host_acts() {
    if (schedule_.replaying() || !dice_.one_in(8)) return;
    now_ += dice_.below(kSecond / 8);
    serve();
  }

  void serve() {
    while (!scores_.empty() && scores_.begin()->first <= now_) {
      const uint64_t id = scores_.begin()->second;
      scores_.erase(scores_.begin());
      score(id);
      if (options_.bug != Bug::kLosesAChange) ++changes_;
    }
    if (script_.num_rows >= 0 && fed() > seen_rows_) {
      seen_rows_ = fed();
      ++changes_;
    }
  }

  void score(uint64_t id) {
    ScoreBoard& board = store_.board();
    const auto ordinal = static_cast<double>(board.ordinal_of(id));
    const auto attempt = [&](double reward, Code expected) {
      try {
        board.score(id, reward, now_);
        board_schedule_.scored(
            id, {.scored = true, .reward = reward, .parts = {}, .token_rewards = {}});
        require(expected == Code::kOk, "a wrong score is taken");
      } catch (const Error& e) {
        if (e.code == Code::kInternal) throw;
        require(e.code == expected || e.code == Code::kLate || e.code == Code::kDuplicate,
                str("a score is refused: ", e.message));
      }
    };
    const int64_t fate = script_.fate(id);
    if (fate == 3) {
      try {
        board.fail(id, "broken", now_);
        board_schedule_.failed(id, "broken");
      } catch (const Error& e) {
        require(e.code == Code::kLate, e.message);
      }
      return;
    }
    constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
    if (fate == 2) attempt(options_.bug == Bug::kTakesNaN ? 0 : kNoNumber, Code::kNonFinite);
    attempt(ordinal, Code::kOk);
    if (fate == 1) attempt(ordinal, Code::kDuplicate);
  }

  // Rows of a feed come one by one.
  int64_t fed() const { return std::min(script_.num_rows, 4 + now_ / kSecond * 3); }
  int64_t next_row_ns() const { return (now_ / kSecond + 1) * kSecond; }
  int64_t rows_there() const {
    if (script_.num_rows < 0) return std::numeric_limits<int64_t>::max();
    return fed() - static_cast<int64_t>(next_ordinal_);
  }

  void train(const Sample& s) {
    here_.trained.insert(s.ordinal);
    here_.digest = mixed(here_.digest, s.id);
    for (size_t t = 0; t < s.versions.size(); ++t) {
      here_.digest = mixed(here_.digest, 2 * s.versions[t] + s.loss_mask[t]);
    }
  }

  void save_state() {
    RunState& state = here_.state;
    state.cursor = next_ordinal_;
    state.open_ordinals = store_.board().ledger().open_ordinals();
    state.ledger = store_.board().ledger().counts().without_open();
    if (options_.bug == Bug::kForgetsOpenGroups) state.open_ordinals.clear();
    if (options_.bug == Bug::kRedrawsTrainedGroup && !here_.trained.empty()) {
      state.open_ordinals = {*here_.trained.begin()};
    }
  }

  void check_batch() {
    const auto step = static_cast<uint64_t>(progress().steps_done);
    std::map<uint64_t, int64_t> slots;
    for (const SamplePtr& s : batch_) {
      ++slots[s->ordinal];
      require(here_.trained.count(s->ordinal) == 0, "a group is trained on twice");
      require(s->generated() == script_.length(s->ordinal, s->slot), "a sample is cut");
      const uint64_t oldest = oldest_version(*s);
      require(!rules_.by_batch || oldest == oldest_version(*batch_.front()),
              "a batch has several versions");
      require(oldest == kUnknownVersion ||
                  here_.version - oldest <= static_cast<uint64_t>(rules_.max_staleness),
              "a sample is too old");
      require(!script_.mask || has_newest_loss(*s), "an older token carries loss");
      const auto versions = static_cast<int64_t>(versions_of(*s).size());
      if (!script_.partial) require(versions == 1, "a sample has two versions");
      if (script_.max_across > 0) {
        require(versions <= script_.max_across + 1, "a sample has too many versions");
      }
      if (rules_.max_off_policy >= 0) {
        require(versions <= rules_.max_off_policy + 1, "a group lived through too many steps");
      }
    }
    for (const auto& [ordinal, count] : slots) {
      require(count == script_.group_size, "a group is not whole");
    }
    require(script_.mode != SimMode::kSync || batch_.empty() ||
                oldest_version(*batch_.front()) == here_.version,
            str("a sample of sync is old in step ", step));
  }

  // After every piece of work.
  void check() {
    const ScoreBoard& board = store_.board();
    board.ledger().check();
    const FlowGroups groups = board.waiting_groups();
    const auto waiting = static_cast<int64_t>(groups.unfinished.size() + groups.complete.size());
    // After the bound was lowered no group is drawn until so many are left.
    const int64_t most = rules_.batch_groups * (rules_.max_staleness + 1 - (training_ ? 1 : 0));
    require(waiting <= (drawn_before_ > 0 ? std::max(most, waited_) : most),
            "rollout is too far ahead");
    waited_ = waiting;
    check_deadlines();
    require(waiting <= rules_.batch_groups * (rules_.queue_batches + 1) + rules_.surplus_groups,
            "the queue is too long");
    for (const ScoreBoard::Dropped& d : store_.board().take_dropped()) {
      result_.reasons.insert(d.reason);
      require(d.reason != DropReason::kStale || d.ordinal < drawn_before_, "a group became stale");
      require(d.reason != DropReason::kCancelled || rules_.max_off_policy >= 0,
              "a group is cancelled for being slow");
      dropped_.insert(d.ordinal);
    }
  }

  // By groups the producer looks at deadlines whenever it has a turn; by batches once nothing is
  // generated.
  void check_deadlines() const {
    if (rules_.by_batch || stops_) return;
    const std::optional<int64_t> expiry = store_.board().next_expiry();
    require(!expiry || now_ <= *expiry + kSecond, "a deadline has passed unnoticed");
  }

  // The host has stopped the run, or it has ended.
  void close() {
    store_.abandon(result_.failed ? DropReason::kAborted : DropReason::kShutdown, running_);
    for (const ScoreBoard::Dropped& d : store_.board().take_dropped()) {
      result_.reasons.insert(d.reason);
      dropped_.insert(d.ordinal);
    }
    const LedgerCounts& c = store_.board().ledger().counts();
    require(c.attempts_in_flight == 0 && c.tokens_in_flight == 0 && c.prompts_open == 0,
            "something is in flight at the end");
    require(c.prompts_trained == static_cast<int64_t>(here_.trained.size()),
            "the ledger does not know what was trained on");
    require(c.prompts_drawn == static_cast<int64_t>(next_ordinal_ - reopened_.size()),
            "a prompt was lost");
    result_.digest = here_.digest;
    result_.books = c;
  }

  const SimOptions& options_;
  const Script& script_;
  Disk& disk_;
  RunSchedule& schedule_;
  BoardSchedule board_schedule_;
  SimResult& result_;
  Dice dice_;
  FlowRules rules_;
  FlowRules told_;  // to the state machines
  GroupStore store_;
  Disk here_;
  Disk unsaved_;  // what a torn checkpoint lacks
  const int64_t resumed_step_ = static_cast<int64_t>(here_.state.step);
  std::deque<uint64_t> reopened_;
  std::deque<SamplePtr> waiting_;
  std::vector<SamplePtr> running_;
  std::multimap<int64_t, uint64_t> scores_;  // that the host will give
  std::vector<SamplePtr> batch_;
  std::set<uint64_t> dropped_;
  uint64_t next_ordinal_ = 0, changes_ = 0;
  uint64_t drawn_before_ = 0;  // the first ordinal after the bound on staleness was lowered
  int64_t waited_ = 0;         // groups, at the last check
  int64_t now_ = 0, left_ = 0, evaluated_ = -1, seen_rows_ = 0;
  bool admitting_ = true, ended_ = false, training_ = false, fails_ = false, stops_ = false;
  bool at_boundary_ = true;     // what is due there is not done
  bool chooses_batch_ = false;  // the next look at groups is for it
};

// A run, which a crash may end in the middle: then another one resumes from the disk.
void run(const SimOptions& options, const Script& script, SimResult& result) {
  Disk disk;
  FileSystem* const files = options.record_to;
  try {
    RunSchedule schedule;
    if (files != nullptr) {
      schedule.record(std::make_unique<ScheduleWriter>(*files, kSimRecord, ScheduleInfo{}));
    }
    World(options, script, disk, schedule, result).run(true);
  } catch (const Crash&) {
    result.crashed = true;
    RunSchedule schedule;
    if (files != nullptr) {
      schedule.record(ScheduleWriter::go_on(*files, kSimRecord, {disk.state.step, 0}));
      schedule.resume(resumption(disk.state));
    }
    World(options, script, disk, schedule, result).run(false);
  }
}

void repeat(const SimOptions& options, const Script& script, SimResult& result) {
  World* world = nullptr;
  RunSchedule schedule;
  schedule.replay(std::make_unique<ScheduleReader>(*options.replay_from, kSimRecord),
                  [&](const ScheduledEvent& input) { world->apply(input); });
  for (Disk disk;;) {
    World here(options, script, disk, schedule, result);
    world = &here;
    if (here.run(false)) return;
    disk = here.here();
    schedule.resume(resumption(disk.state));
  }
}

}  // namespace

uint64_t Dice::roll() {
  uint64_t z = state_ += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

SimResult simulate(const SimOptions& options) {
  const Script script(options);
  SimResult result;
  try {
    options.replay_from != nullptr ? repeat(options, script, result) : run(options, script, result);
  } catch (const std::exception& e) {
    result.broken = str("seed ", options.seed, ": ", e.what());
  }
  return result;
}

}  // namespace rl::testing
