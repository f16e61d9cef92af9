//! What a host says of samples: rewards with parts, rewards of tokens, and that there is none.
mod common;

use common::{model, options, pipeline, scored_group};
use rl::{Score, Status};

#[test]
fn rewards_of_a_batch_are_set_together_or_not_at_all() {
    let engine = rl::Engine::new(&model(&options(), rl::Use::Generate), None).unwrap();
    let mut batch = scored_group(&engine);
    let tokens = vec![0.5; batch.sample(1).unwrap().answer().len()];
    let parts = Score::new(0, 7.0).parts(&[1.0, 2.0]);
    let by_token = Score::new(0, 8.0).token_rewards(&tokens);
    batch.score(0, &[parts.clone(), by_token]).unwrap();
    let sample = batch.sample(0).unwrap();
    assert_eq!((sample.reward, sample.reward_parts), (Some(7.0), &[1.0, 2.0][..]));
    assert_eq!(batch.sample(1).unwrap().token_rewards, tokens);
    let error = batch.score(2, &[parts, Score::new(0, f64::NAN)]).unwrap_err();
    assert_eq!((error.status, error.key.starts_with("scores[1]")), (Status::NonFinite, true));
    assert_eq!(batch.sample(2).unwrap().reward, Some(2.0));
    assert!(batch.score(0, &[Score::failed(0, "")]).is_err());
}

#[test]
fn every_refused_score_has_its_code() {
    let (_model, pipeline) = pipeline(1);
    pipeline.start().unwrap();
    let event = pipeline.next(None).unwrap().ready().unwrap();
    let id = event.sample().unwrap().sample_id;
    let scores = [Score::new(id, 1.0), Score::new(id, 1.0), Score::new(u64::MAX, 0.0)];
    let (codes, result) = pipeline.score_many(&scores);
    assert_eq!(codes, [Status::Ok, Status::Duplicate, Status::NotFound]);
    let error = result.unwrap_err();
    assert_eq!((error.status, error.parts.len()), (Status::Duplicate, 2));
    assert_eq!(error.parts[1].key, "scores[2]");
}
