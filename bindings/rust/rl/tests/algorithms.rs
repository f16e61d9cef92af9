//! The helpers on arrays of the host.
use rl::{algorithms, AlgoTokens, Packing, Status};

fn tokens() -> AlgoTokens<'static> {
    AlgoTokens::default()
        .lengths(&[2, 1])
        .logprobs(&[-0.5, -1.0, -2.0])
        .ref_logprobs(&[-0.5, -1.5, -2.0])
        .advantages(&[1.0, 1.0, -1.0])
        .rewards(&[1.0, 0.0])
}

#[test]
fn advantages_of_a_group_are_its_rewards_standardized() {
    let values = algorithms::advantages(None, &tokens()).unwrap();
    // (1 - 0.5) / std of (1, 0) with n - 1; algo.adv_eps moves the fifth digit at most.
    let expected = 0.5 / 0.5f64.sqrt();
    assert!((values[0] - expected).abs() < 1e-4, "{values:?}");
    assert_eq!((values[1], values[2]), (values[0], -values[0]));
}

#[test]
fn loss_at_the_old_policy_is_minus_the_weighted_advantages() {
    let loss = algorithms::policy_loss(None, &tokens()).unwrap();
    let weights = algorithms::weights(None, &tokens()).unwrap();
    assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{weights:?}");
    let expected = weights[2] - weights[0] - weights[1];
    assert!((loss.loss.policy_loss - expected).abs() < 1e-12, "{loss:?}");
    assert_eq!(loss.loss.num_tokens, 3);
    assert!(loss.gradient[0] < 0.0 && loss.gradient[2] > 0.0, "{loss:?}");
}

#[test]
fn nothing_is_corrected_by_default() {
    let corrections = algorithms::corrections(None, &tokens()).unwrap();
    assert_eq!((corrections.weights, corrections.keep), (vec![1.0; 3], vec![1; 3]));
}

#[test]
fn kl_is_zero_where_the_policies_agree() {
    let kl = algorithms::kl(None, &tokens()).unwrap();
    assert_eq!((kl.values[0], kl.values[2]), (0.0, 0.0));
    assert!(kl.values[1] > 0.0 && kl.gradient[1] != 0.0, "{kl:?}");
}

#[test]
fn sequences_are_packed_within_a_budget() {
    let one = algorithms::pack(None, &[3, 2, 2, 1], &Packing::default()).unwrap();
    assert_eq!(one, (vec![0; 4], 1));
    let packing = Packing::default().max_tokens(4);
    let (bins, count) = algorithms::pack(None, &[3, 2, 2, 1], &packing).unwrap();
    assert_eq!((bins.len(), count), (4, 2));
    let refused = algorithms::pack(None, &[5], &packing).unwrap_err();
    assert_eq!(refused.status, Status::OutOfRange);
    assert_eq!(algorithms::pack(None, &[5], &packing.oversize_alone(true)).unwrap().1, 1);
}

#[test]
fn array_of_wrong_length_is_refused_before_the_library_reads_it() {
    let wrong = tokens().rewards(&[1.0]);
    let error = algorithms::advantages(None, &wrong).unwrap_err();
    assert_eq!((error.status, error.key.as_str()), (Status::InvalidArgument, "tokens.rewards"));
    let negative = tokens().lengths(&[-1, 4]);
    assert!(algorithms::advantages(None, &negative).is_err());
    let missing = tokens().rewards(&[]);
    assert!(algorithms::advantages(None, &missing).is_err());
}
