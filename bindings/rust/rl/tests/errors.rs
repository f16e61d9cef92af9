//! Failures of the library reach the host as errors with all their fields.
mod common;

use std::time::Duration;

#[test]
fn unknown_option_names_the_key_and_the_nearest_ones() {
    let mut options = rl::Options::new().unwrap();
    let error = options.set("engine.blok_size", "64").unwrap_err();
    assert_eq!(error.status, rl::Status::UnknownOption);
    assert_eq!(error.key, "engine.blok_size");
    assert_eq!(error.nearest.first().map(String::as_str), Some("engine.block_size"));
    assert!(error.message.contains("engine.blok_size"), "{}", error.message);
    assert_eq!(error.to_string(), error.summary);
    assert!(error.summary.starts_with("RL_UNKNOWN_OPTION"), "{}", error.summary);
}

#[test]
fn value_outside_its_range_says_what_is_expected() {
    let mut options = rl::Options::new().unwrap();
    let error = options.set_i64("engine.block_size", -1).unwrap_err();
    assert_eq!(error.status, rl::Status::OutOfRange);
    assert_eq!(error.key, "engine.block_size");
    assert!(!error.expected.is_empty());
    assert_eq!(options.get_i64("engine.block_size").unwrap(), default_of("engine.block_size"));
}

fn default_of(key: &str) -> i64 {
    rl::option(key).unwrap().default_text.parse().unwrap()
}

#[test]
fn several_violations_are_parts_with_their_places() {
    let mut options = rl::Options::new().unwrap();
    let document = r#"{"options": {"engine.blok_size": 64, "optimizer.lr": "fast"}}"#;
    let error = options.import_json(document).unwrap_err();
    assert_eq!(error.parts.len(), 2);
    let keys: Vec<&str> = error.parts.iter().map(|part| part.key.as_str()).collect();
    assert!(keys.contains(&"engine.blok_size") && keys.contains(&"optimizer.lr"), "{keys:?}");
    assert!(error.parts.iter().all(|part| part.location.contains("/options")), "{error:?}");
}

#[test]
fn missing_file_keeps_the_systems_code() {
    let mut options = rl::Options::new().unwrap();
    options.set("model.path", "/nowhere/model.gguf").unwrap();
    let runtime = rl::Runtime::new(&options).unwrap();
    let error = rl::Model::open(&runtime, None, rl::Use::Model).unwrap_err();
    assert!(error.summary.contains("/nowhere/model.gguf"), "{error}");
    let mut codes = vec![error.system_code];
    let mut cause = error.cause.as_ref();
    while let Some(inner) = cause {
        codes.push(inner.system_code);
        cause = inner.cause.as_ref();
    }
    assert!(codes.contains(&2), "no ENOENT in {error:?}");
}

#[test]
fn errors_go_to_other_threads_and_outlive_their_objects() {
    let thread = std::thread::spawn(|| rl::Options::new().unwrap().set("x", "1").unwrap_err());
    let error: Box<dyn std::error::Error + Send + Sync> = Box::new(thread.join().unwrap());
    assert!(error.to_string().contains("\"x\""), "{error}");
}

#[test]
fn every_status_of_the_library_has_a_name_here() {
    let known = (0..100).map(rl::Status::from_raw).filter(|s| s.name() != "RL_UNKNOWN_CODE");
    let mut count = 0;
    for status in known {
        assert!(!matches!(status, rl::Status::Other(_)), "{} is Other", status.name());
        assert_eq!(rl::constant(status.name()).unwrap(), i64::from(status.raw()));
        count += 1;
    }
    assert!(count >= 30);
}

#[test]
fn text_is_counted_so_nul_in_it_is_seen() {
    let mut options = rl::Options::new().unwrap();
    options.set_string("model.path", "a \u{3c0} b").unwrap();
    assert_eq!(options.get_string("model.path").unwrap(), "a \u{3c0} b");
    let error = options.set("engine.block_size\0", "64").unwrap_err();
    assert_eq!(error.status, rl::Status::InvalidArgument);
}

#[test]
fn lists_come_back_as_they_were_set() {
    let mut options = rl::Options::new().unwrap();
    options.set_i64_list("sampling.stop_token_ids", &[3, 1, 2]).unwrap();
    assert_eq!(options.get_i64_list("sampling.stop_token_ids").unwrap(), [3, 1, 2]);
    options.set_string_list("sampling.stop", &["a,b", "", "\u{3c0}"]).unwrap_err();
    options.set_string_list("sampling.stop", &["a,b", "\u{3c0}"]).unwrap();
    assert_eq!(options.get_string_list("sampling.stop").unwrap(), ["a,b", "\u{3c0}"]);
}

#[test]
fn sample_with_an_array_of_wrong_length_is_refused_before_the_library_reads_it() {
    let buffer = rl::Buffer::new(&common::options(), 16).unwrap();
    let ids = [1, 2, 3, 4, 5];
    let mut sample = rl::Sample::new(&ids, 2);
    sample.reward = Some(1.0);
    sample.logprobs = &[-1.0, -2.0];
    let error = buffer.put(&sample).unwrap_err();
    assert_eq!((error.status, error.key.as_str()), (rl::Status::InvalidArgument, "logprobs"));
    sample.logprobs = &[-1.0, -2.0, -3.0];
    sample.top_ids = &[1, 2, 3];
    assert_eq!(buffer.put(&sample).unwrap_err().key, "top_ids");
    sample.top_ids = &[];
    sample.num_prompt = 6;
    assert_eq!(buffer.put(&sample).unwrap_err().status, rl::Status::OutOfRange);
    sample.num_prompt = 2;
    buffer.put(&sample).unwrap();
    assert_eq!(buffer.put(&sample).unwrap_err().status, rl::Status::Duplicate);
    let stats = buffer.stats().unwrap();
    assert_eq!((stats.samples, stats.whole_groups), (1, 0));
}

#[test]
fn every_result_is_an_outcome_and_no_failure() {
    let options = common::options();
    let model = common::model(&options, rl::Use::Parts);
    let engine = rl::Engine::new(&model, &options).unwrap();
    let trainer = rl::Trainer::new(&model, &options).unwrap();
    assert!(matches!(engine.take().unwrap(), rl::Outcome::Idle));
    assert!(matches!(engine.step().unwrap(), rl::Outcome::Idle));
    let batch = common::scored_group(&engine);
    engine.submit(&rl::Request::new(&[1, 2, 3])).unwrap();
    assert!(matches!(engine.take().unwrap(), rl::Outcome::WouldBlock));
    assert_eq!(engine.take().unwrap().into_result().unwrap_err().status, rl::Status::WouldBlock);
    engine.pause().unwrap();
    assert!(matches!(engine.run().unwrap(), rl::Outcome::Paused));
    engine.unpause().unwrap();
    assert_eq!(trainer.step(&batch).unwrap_err().status, rl::Status::Busy); // requests run
    assert!(engine.step().unwrap().is_ready());
    assert!(matches!(engine.drain(Some(Duration::ZERO)).unwrap(), rl::Outcome::Timeout));
    assert!(engine.drain(None).unwrap().is_ready());
}
