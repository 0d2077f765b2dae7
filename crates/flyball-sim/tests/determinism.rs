//! One seed, one run: whatever happens twice happens alike. Without this no failure could be replayed.

use flyball_sim::run;

#[test]
fn the_same_seed_gives_the_same_run() {
    let digests: Vec<_> =
        (0..12).map(|seed| run(seed, None, 0).unwrap_or_else(|failed| panic!("{failed}"))).collect();
    for (seed, before) in digests.iter().enumerate() {
        assert_eq!(run(seed as u64, None, 60).ok().as_ref(), Some(before), "seed {seed}");
    }
    let mut different: Vec<u64> = digests.iter().map(|passed| passed.digest).collect();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), digests.len(), "another seed is another run");
}
