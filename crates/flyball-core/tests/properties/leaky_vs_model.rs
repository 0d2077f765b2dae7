//! Random histories of a leaky key give the model's answers, to the unit and to the millisecond.

use flyball_core::{Behavior, Request};
use proptest::prelude::*;

use crate::history::{KeyUnderTest, LEAKY, request, step, steps};
use crate::leaky_model::Model;

fn any_request() -> impl Strategy<Value = Request<'static>> {
    let hits = prop_oneof![3 => Just(0_i64), 10 => 1..4_i64, 3 => 1..25_i64, 2 => -6..0_i64];
    let limit = prop::sample::select(vec![1, 2, 3, 5, 7, 10, 10, 10, 20, 100]);
    let duration = prop::sample::select(vec![1_000, 1_000, 6_000, 60_000, 60_000, 60_000, 100_000]);
    let burst = prop::sample::select(vec![0, 0, 0, 0, 1, 5, 10, 15, 40]);
    let flags = prop::sample::select(vec![0, 0, 0, 0, 0, 0, 1, 16, 32, 32, 8]);
    let max_wait = prop::sample::select(vec![0, 0, 0, 1, 5_999, 6_000, 12_000, 60_000, 400_000]);
    (hits, limit, duration, burst, flags, max_wait).prop_map(
        |(hits, limit, duration, burst, flags, max_wait)| {
            let plain = flags & (8 | 32) != 0 || hits < 0;
            Request {
                burst,
                behavior: Behavior(flags),
                max_wait: if plain { 0 } else { max_wait },
                ..request(LEAKY, hits, limit, duration)
            }
        },
    )
}

fn compare(steps: &[crate::history::Step]) -> Result<(), TestCaseError> {
    let mut key = KeyUnderTest::new();
    let mut model = Model::new(key.rules.schedule_max_wait_ms);
    for (index, step) in steps.iter().enumerate() {
        let got = key.ask(step);
        let behavior = step.request.behavior;
        let want = model.ask(
            &step.request,
            behavior.has(Behavior::RESET_REMAINING),
            behavior.has(Behavior::DRAIN_OVER_LIMIT),
            key.now,
        );
        prop_assert_eq!(got, want, "step {} of {:#?}\nbucket {:?}", index, &steps[..=index], key.bucket);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_history_gives_the_models_answers(steps in steps(any_request(), 24)) {
        compare(&steps)?;
    }

    /// One set of parameters, so that long runs build up fractions.
    #[test]
    fn a_steady_client_gets_the_models_answers(
        first in any_request(),
        asks in prop::collection::vec((0..3_000_i64, 0..4_i64), 1..120),
    ) {
        let steps: Vec<_> = asks
            .into_iter()
            .map(|(after, hits)| step(after, Request { hits, ..first }))
            .collect();
        compare(&steps)?;
    }

    /// The node's clock steps back and forth: going back is standing still.
    #[test]
    fn a_clock_that_steps_back_gives_the_models_answers(
        asks in prop::collection::vec((-2_000..3_000_i64, any_request()), 1..24),
    ) {
        let steps: Vec<_> = asks.into_iter().map(|(after, request)| step(after, request)).collect();
        compare(&steps)?;
    }
}
