use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn key<'a>(name: &'a str, unique_key: &'a str) -> Key<'a> {
    Key { name, unique_key }
}

fn one_thread() -> TopKeys {
    TopKeys::new(1, 7)
}

fn told(top: &TopKeys, now: Timestamp) -> Vec<(String, u64)> {
    top.top(now, 10).into_iter().map(|key| (key.unique_key, key.hits)).collect()
}

proptest! {
    /// The three promises of the sketch, against exact counts.
    #[test]
    fn the_error_bound_holds(
        capacity in 1_usize..12,
        stream in prop::collection::vec((0_u8..40, 1_u64..50), 0..400),
    ) {
        let mut sketch = Sketch::new(capacity);
        let mut exact: HashMap<String, u64> = HashMap::new();
        for (number, hits) in &stream {
            let text = number.to_string();
            // Few different hashes, so that collisions are told apart by the text.
            sketch.add(u64::from(number % 5), CutKey::new(key("n", &text)), *hits);
            *exact.entry(text).or_default() += hits;
        }
        let total: u64 = exact.values().sum();
        let share = total / capacity as u64;
        let mut found = HashMap::new();
        for entry in sketch.entries() {
            let truth = exact[&entry.unique_key()];
            prop_assert!(entry.hits >= truth && entry.hits - entry.error <= truth, "{entry:?}, true {truth}");
            prop_assert!(entry.error <= share, "{entry:?} of {total}");
            prop_assert!(found.insert(entry.unique_key(), entry.hits).is_none(), "twice: {entry:?}");
        }
        prop_assert_eq!(found.values().sum::<u64>(), total);
        prop_assert!(found.len() <= capacity);
        for (text, truth) in exact {
            prop_assert!(truth <= share || found.contains_key(&text), "{} with {} is missing", text, truth);
        }
    }

    #[test]
    fn no_input_panics(name: String, unique_key: String, hits: i64, now: i64, later: i64) {
        let top = one_thread();
        top.refused(Timestamp(now), std::iter::repeat_n((key(&name, &unique_key), hits), 40));
        top.refused(Timestamp(later), std::iter::once((key(&name, &unique_key), hits)));
        let _ = top.top(Timestamp(now), 3);
    }
}

#[test]
fn the_most_refused_come_first() {
    let top = one_thread();
    top.refused(NOW, [(key("n", "a"), 2), (key("n", "b"), 5), (key("n", "a"), 1)].into_iter());
    top.refused(NOW, [(key("n", "c"), 0), (key("n", "d"), -9)].into_iter());
    assert_eq!(told(&top, NOW), [("b".to_owned(), 5), ("a".to_owned(), 3)]);
    assert_eq!(top.top(NOW, 1).len(), 1);
}

#[test]
fn a_pair_is_a_key_and_not_its_joined_text() {
    let top = one_thread();
    top.refused(NOW, [(key("a", "b_c"), 1), (key("a_b", "c"), 2)].into_iter());
    assert_eq!(told(&top, NOW), [("c".to_owned(), 2), ("b_c".to_owned(), 1)]);
}

#[test]
fn long_keys_are_cut_between_characters_and_stay_apart() {
    let top = one_thread();
    let (long, other) = ("é".repeat(100), format!("{}x", "é".repeat(99)));
    top.refused(NOW, [(key(&long, &long), 1), (key(&long, &other), 2)].into_iter());
    let keys = top.top(NOW, 10);
    assert_eq!(keys.iter().map(|key| key.hits).collect::<Vec<_>>(), [2, 1]);
    for key in keys {
        assert_eq!((key.name, key.unique_key), ("é".repeat(32) + "…", "é".repeat(64) + "…"));
    }
}

#[test]
fn a_large_call_is_sampled_and_what_is_sampled_stands_for_the_rest() {
    let top = one_thread();
    // Every third is `often`, which a regular sample of a multiple of three would see always or never.
    for _ in 0..400 {
        let item = |index: usize| (key("n", if index.is_multiple_of(3) { "often" } else { "rest" }), 1);
        top.refused(NOW, (0..960).map(item));
    }
    let seen: HashMap<_, _> = told(&top, NOW).into_iter().collect();
    let (often, rest) = (seen["often"] as f64, seen["rest"] as f64);
    assert!((often / 128_000.0 - 1.0).abs() < 0.1, "{often}");
    assert!((rest / 256_000.0 - 1.0).abs() < 0.1, "{rest}");
}

#[test]
fn what_is_older_than_two_windows_is_forgotten() {
    let top = one_thread();
    top.refused(NOW, std::iter::once((key("n", "old"), 9)));
    let second = NOW.saturating_add(WINDOW_MS);
    top.refused(second, std::iter::once((key("n", "new"), 1)));
    assert_eq!(told(&top, second), [("old".to_owned(), 9), ("new".to_owned(), 1)]);
    assert_eq!(told(&top, second.saturating_add(WINDOW_MS)), [("new".to_owned(), 1)]);
    assert_eq!(told(&top, second.saturating_add(3 * WINDOW_MS)), []);
}

#[test]
fn a_clock_that_steps_back_neither_loses_nor_keeps_for_ever() {
    let top = one_thread();
    top.refused(NOW, std::iter::once((key("n", "k"), 9)));
    let before = NOW.saturating_add(-86_400_000);
    assert_eq!(told(&top, before).len(), 1);
    assert_eq!(told(&top, before.saturating_add(2 * WINDOW_MS)), []);
}

#[test]
fn one_absurd_check_does_not_hide_the_others_for_ever() {
    let top = one_thread();
    top.refused(NOW, std::iter::once((key("n", "absurd"), i64::MAX)));
    assert_eq!(told(&top, NOW), [("absurd".to_owned(), HITS_MAX as u64)]);
}

#[test]
fn a_busy_sketch_is_not_waited_for() {
    let top = one_thread();
    let guard = top.parts[0].lock().unwrap();
    top.refused(NOW, [(key("n", "a"), 1), (key("n", "b"), 1)].into_iter());
    drop(guard);
    assert_eq!((told(&top, NOW), top.missed()), (vec![], 2));
}

#[test]
fn threads_add_up() {
    let top = TopKeys::new(4, 7);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..1_000 {
                    top.refused(NOW, std::iter::once((key("n", "k"), 1)));
                }
            });
        }
    });
    let seen: u64 = told(&top, NOW).iter().map(|(_, hits)| hits).sum();
    assert_eq!(seen + top.missed(), 8_000);
}
