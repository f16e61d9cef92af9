"""Runs of a few steps on a tiny model: events, rewards, the feed, and the end of a run."""
import asyncio
import select

import pytest

import rl
from conftest import PATIENCE_S, run_to_end


def test_a_run_trains_and_is_the_same_twice(open_host):
    digests = []
    for _ in range(2):
        host = open_host(rl.Use.PIPELINE)
        before = host.model.digest
        with host.pipeline(3) as pipeline:
            steps = run_to_end(pipeline)
            assert [event.kind for event in steps] == [rl.EventKind.STEP] * 3
            assert [event.step for event in steps] == [1, 2, 3]
            assert all(e.metrics["training/logprob_max_abs_diff"] == 0 for e in steps)
            assert all(e.metric("critic/rewards/mean") == 0.5 for e in steps)
            stats = pipeline.stats
            assert stats.state is rl.State.DONE and stats.step == 3 and stats.attempts_trained == 6
            pipeline.close_result()
        assert host.model.digest != before and host.model.version == 3
        digests.append(host.model.digest)
    assert digests[0] == digests[1]


def test_a_score_event_has_the_sample_and_its_tag(open_host):
    pipeline = open_host(rl.Use.PIPELINE).pipeline(1)
    pipeline.start()
    with pipeline.next(PATIENCE_S) as event:
        sample = event.sample
        assert event.kind is rl.EventKind.SCORE and sample.tag == "row 0"
        assert sample.prompt_ids.tolist() == [1, 2, 3, 4]
        assert len(sample.logprobs) == len(sample.response_ids) == sample.num_generated == 4
        assert event.sample is sample
    assert event.kind is rl.EventKind.SCORE  # fields stay readable


def test_scores_have_parts_or_say_why_there_is_no_reward(open_host):
    host = open_host(rl.Use.PIPELINE, **{"algo.advantage": "gdpo", "algo.gdpo_weights": "1,2"})
    pipeline = host.pipeline(1)
    pipeline.start()
    ids = [pipeline.next(PATIENCE_S).sample.sample_id for _ in range(2)]
    with pytest.raises(rl.Error) as raised:
        pipeline.score_many([rl.Score(ids[0], 1.0, [0.5, 0.25]), rl.Score(ids[1], 1.0)])
    assert (raised.value.code, raised.value.key) == (rl.Code.INVALID_ARGUMENT, "scores[1]")
    pipeline.score_many([rl.Score(ids[1], failure="the judge is ill")])
    dropped = pipeline.next(PATIENCE_S)
    assert dropped.kind is rl.EventKind.GROUP_DROPPED and "the judge is ill" in dropped.text


def test_scores_of_a_batch_are_set_together_or_not_at_all(open_host):
    batch = open_host().group()
    batch.score(0, [rl.Score(reward=3.0, parts=[1.0]), rl.Score(reward=4.0)])
    assert [sample.reward for sample in batch] == [3.0, 4.0]
    assert batch[0].reward_parts.tolist() == [1.0]
    with pytest.raises(rl.Error) as raised:
        batch.score(0, [rl.Score(reward=5.0), rl.Score(reward=float("inf"))])
    assert raised.value.code == rl.Code.NON_FINITE
    assert [sample.reward for sample in batch] == [3.0, 4.0]


def test_rewards_by_sample_id_are_checked_one_by_one(open_host):
    pipeline = open_host(rl.Use.PIPELINE).pipeline(1)
    pipeline.start()
    ids = [pipeline.next(PATIENCE_S).sample.sample_id for _ in range(2)]
    with pytest.raises(rl.Error) as raised:
        pipeline.score_many({ids[0]: 1.0, 999: 0.0, ids[1]: float("nan")})
    assert [(part.code, part.key) for part in raised.value.parts] == [
        (rl.Code.NOT_FOUND, "scores[1]"), (rl.Code.NON_FINITE, "scores[2]")]
    with pytest.raises(rl.Error) as raised:
        pipeline.score(ids[0], 1.0)
    assert raised.value.code == rl.Code.DUPLICATE
    pipeline.score(ids[1], 0.0)
    assert pipeline.next(PATIENCE_S).kind is rl.EventKind.STEP
    assert (pipeline.stats.unknown_scores, pipeline.stats.duplicate_scores) == (1, 1)


def test_reward_parts_reach_the_estimator(open_host):
    host = open_host(rl.Use.PIPELINE, algo__advantage="gdpo", algo__gdpo_weights="1,2")
    pipeline = host.pipeline(1)
    pipeline.start()
    for _ in range(2):
        event = pipeline.next(PATIENCE_S)
        with pytest.raises(rl.Error) as raised:
            event.score(1.0)
        assert raised.value.code == rl.Code.INVALID_ARGUMENT
        event.score(1.0, parts=[event.sample.slot, 0.5])
    assert pipeline.next(PATIENCE_S).kind is rl.EventKind.STEP


def test_a_sample_without_a_reward_drops_its_group(open_host):
    pipeline = open_host(rl.Use.PIPELINE).pipeline(1)
    pipeline.start()
    pipeline.next(PATIENCE_S).fail("the judge is away")
    kinds = {}
    for event in pipeline:
        kinds[event.kind] = event
    dropped = kinds[rl.EventKind.GROUP_DROPPED]
    assert dropped.view.reason is rl.DropReason.REWARD_ERROR and "judge is away" in dropped.text
    with pytest.raises(rl.Error) as raised:
        dropped.score(1.0)
    assert raised.value.code == rl.Code.FAILED_PRECONDITION


def test_a_feed_takes_rows_until_it_is_full_or_finished(open_host):
    with rl.Pipeline(open_host(rl.Use.PIPELINE).model) as pipeline:
        assert pipeline.feed({"ids": [1, 2], "tag": "an object"})
        assert pipeline.feed('{"ids": [1, 2], "tag": "a text"}')
        assert pipeline.feed_ids([1, 2], "ids")
        count = 3
        while pipeline.feed_ids([1, 2]):
            count += 1
        assert count == pipeline.feed_capacity == pipeline.stats.feed_size
        assert not pipeline.feed_ids([1, 2], timeout=0.01)
        pipeline.finish_feed()
        pipeline.start()
        tags = []
        for event in pipeline:
            if event.kind is rl.EventKind.SCORE:
                tags.append(event.sample.tag)
                event.score(0.0)
        assert tags[:6:2] == ["an object", "a text", "ids"] and len(tags) == 2 * count


def test_the_queue_is_readable_when_an_event_waits(open_host):
    pipeline = open_host(rl.Use.PIPELINE).pipeline(1)
    queue = pipeline.queue()
    assert select.select([queue], [], [], 0)[0] == [] and len(queue) == 0
    pipeline.start()
    assert select.select([queue], [], [], PATIENCE_S)[0] == [queue]
    assert pipeline.next(0).kind is rl.EventKind.SCORE


def test_an_event_loop_serves_two_pipelines_at_once(open_host):
    kinds = []

    async def serve(pipeline, name):
        async for event in pipeline:
            kinds.append((name, event.kind))
            if event.kind is rl.EventKind.SCORE:
                await asyncio.sleep(0)
                event.score(float(event.sample.slot))

    async def serve_both():
        pipelines = [open_host(rl.Use.PIPELINE).pipeline(2) for _ in "ab"]
        for pipeline in pipelines:
            pipeline.start()
        await asyncio.wait_for(asyncio.gather(*map(serve, pipelines, "ab")), PATIENCE_S)

    asyncio.run(serve_both())
    for name in "ab":
        assert kinds.count((name, rl.EventKind.SCORE)) == 4
        assert kinds.count((name, rl.EventKind.STEP)) == 2


def test_a_stopped_run_leaves_a_checkpoint_to_resume_from(open_host, tmp_path):
    where = {"checkpoint__dir": tmp_path / "checkpoints", "checkpoint__resume": "auto"}
    whole = open_host(rl.Use.PIPELINE)
    run_to_end(whole.pipeline(2))
    first = open_host(rl.Use.PIPELINE, **where)
    with first.pipeline(2) as pipeline:
        pipeline.start()
        for event in pipeline:
            if event.kind is rl.EventKind.STEP:
                break
            event.score(float(event.sample.slot))
        pipeline.stop()
        path = pipeline.checkpoint(PATIENCE_S)
    second = open_host(rl.Use.PIPELINE, **where)
    with second.pipeline(2) as pipeline:
        assert pipeline.resumed_from == path
        assert [event.step for event in run_to_end(pipeline)] == [2]
    assert second.model.digest == whole.model.digest


def test_an_evaluation_and_a_report(open_host, tmp_path):
    rows = tmp_path / "eval.jsonl"
    rows.write_text('{"ids": [5, 6], "tag": "held out"}\n', encoding="utf-8")
    pipeline = open_host(rl.Use.PIPELINE, eval__path=rows).pipeline(1)
    pipeline.evaluate()
    others = run_to_end(pipeline)
    evaluation = next(event for event in others if event.kind is rl.EventKind.EVAL)
    assert evaluation.view.count == 1 and evaluation.view.value == 0.0
    pipeline.write_report(tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 1000


def test_functions_of_the_host_give_advantages_and_losses(open_host):
    host = open_host(rl.Use.PIPELINE, algo__advantage="custom", algo__policy_loss="custom")
    pipeline, seen = host.pipeline(2), []

    def advantage(tokens, advantages):
        seen.append(sum(tokens.lengths))
        for index in range(len(advantages)):
            advantages[index] = 1.0

    def policy_loss(tokens, weights, gradient):
        for index, weight in enumerate(weights):
            gradient[index] = -weight * tokens.advantages[index]
        return -sum(w * a * p for w, a, p in zip(weights, tokens.advantages, tokens.logprobs))

    pipeline.set_advantage(advantage)
    pipeline.set_loss(policy_loss)
    steps = run_to_end(pipeline)
    assert len(steps) == 2 and seen == [8, 8]
    assert all(event.metric("actor/grad_norm") > 0 for event in steps)


def test_what_a_function_of_the_host_raises_comes_out_of_next(open_host):
    host = open_host(rl.Use.PIPELINE, algo__advantage="custom")
    pipeline = host.pipeline(1)

    def advantage(tokens, advantages):
        raise KeyError("no such answer")

    pipeline.set_advantage(advantage)
    with pytest.raises(rl.Error) as raised:
        run_to_end(pipeline)
    assert raised.value.code == rl.Code.CANCELLED and "no such answer" in str(raised.value)
    assert isinstance(raised.value.__cause__, KeyError)


def test_options_change_between_steps(open_host):
    host = open_host(rl.Use.PIPELINE)
    pipeline = host.pipeline(2)
    options = host.options.clone()
    options.update({"pipeline.total_steps": 1, "data.path": host.directory / "rows.jsonl"})
    pipeline.set_options(options)
    assert len(run_to_end(pipeline)) == 1
    options["runtime.seed"] = 8
    with pytest.raises(rl.Error) as raised:
        pipeline.set_options(options)
    assert raised.value.code == rl.Code.NOT_CHANGEABLE and raised.value.key == "runtime.seed"


def test_a_plan_adds_up(open_host):
    plan = open_host(rl.Use.PIPELINE).pipeline(1).plan()
    assert len(plan) == len(list(plan)) > 3 and plan.info.total_bytes > 0
    assert sum(i.bytes for i in plan if i.kind is rl.PlanKind.ARENA) == plan.info.arena_bytes
    assert all(item.name in str(plan) for item in plan)


def test_a_fit_keeps_the_budget_and_a_refusal_has_knobs(open_host):
    host = open_host(rl.Use.PIPELINE)
    machine = host.runtime.probe()
    assert machine.f32_flops > 0 and machine.copy_bytes_per_s > 0 and machine.threads >= 1
    plan = rl.Plan(host.options, rl.Use.PIPELINE)
    assert plan.knobs() and all(knob.value != knob.proposed for knob in plan.knobs())
    options = plan.options()
    options["runtime.memory_budget_bytes"] = plan.info.least_bytes
    fit, time = rl.Plan.fit(host.runtime, options, rl.Use.PIPELINE, machine, rl.KnobEffect.SPEED)
    assert fit.info.total_bytes <= plan.info.least_bytes and time.total_s > time.train_s > 0
    options["runtime.memory_budget_bytes"] = 1
    with pytest.raises(rl.Error) as raised:
        rl.Plan(options, rl.Use.PIPELINE)
    assert raised.value.knobs and raised.value.knobs[0].key


def test_turns_are_answered_with_ids_and_finished(open_host):
    pipeline = open_host(rl.Use.PIPELINE).pipeline(1, pipeline__turns="always")
    turns, responses = [], []
    pipeline.start()
    for event in pipeline:
        if event.kind is rl.EventKind.TURN:
            turns.append(event.view.count)
            if event.view.count == 1:
                event.reply(ids=[7, 9])
            else:
                event.finish()
        if event.kind is rl.EventKind.SCORE:
            responses.append(event.sample)
            event.score(float(event.sample.slot))
    assert sorted(turns) == [1] * len(responses) + [2] * len(responses)
    for sample in responses:
        mask = list(sample.loss_mask)
        at = mask.index(0)
        assert mask.count(0) == 2 and list(sample.response_ids)[at:at + 2] == [7, 9]


def test_wrong_replies_are_refused(open_host):
    pipeline = open_host(rl.Use.PIPELINE).pipeline(1, pipeline__turns="always")
    pipeline.start()
    for event in pipeline:
        if event.kind is rl.EventKind.TURN:
            with pytest.raises(rl.Error) as refused:
                pipeline.reply_many([rl.Reply(event.sample.sample_id),
                                     rl.Reply(999, ids=[1])])
            assert len(refused.value.parts) == 2
            event.finish()
        if event.kind is rl.EventKind.SCORE:
            event.score(float(event.sample.slot))


def test_groups_are_judged_together(open_host):
    pipeline, groups = open_host(rl.Use.PIPELINE).pipeline(2, pipeline__score_events="group"), 0
    pipeline.start()
    for event in pipeline:
        assert event.kind is not rl.EventKind.SCORE
        if event.kind is rl.EventKind.GROUP:
            groups += 1
            assert [sample.slot for sample in event.samples] == list(range(event.view.count))
            pipeline.score_many({s.sample_id: float(s.slot) for s in event.samples})
    assert groups == 2


def test_token_rewards_are_one_per_token(open_host):
    pipeline = open_host(rl.Use.PIPELINE).pipeline(1, algo__advantage="reinforce_pp")
    pipeline.start()
    for event in pipeline:
        if event.kind is rl.EventKind.SCORE:
            count = event.sample.num_generated
            with pytest.raises(rl.Error):
                event.score(0.0, token_rewards=[1.0] * (count + 1))
            event.score(0.0, token_rewards=[float(event.sample.slot)] * count)
