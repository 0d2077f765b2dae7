//! What finding an owner costs, and building the ring in which it is found.
//!
//! `cargo bench -p flyball-core --bench ring`

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use flyball_core::ring::{Hash, Replicas, Ring};

fn ring(peers: usize, hash: Hash) -> Ring {
    let peers: Vec<String> =
        (0..peers).map(|number| format!("10.0.{}.{}:1051", number / 250, number % 250)).collect();
    Ring::new(peers.iter().map(String::as_str), hash, Replicas::default())
}

/// Many keys, so that neither caches nor branch predictors learn the way. Joined they are 33 bytes long.
const KEYS: usize = 4_096;

fn lookups(criterion: &mut Criterion) {
    let keys: Vec<String> =
        (0..KEYS).map(|n| format!("acct:{:08x}", (n as u32).wrapping_mul(0x9e37_79b9))).collect();
    let name = "requests_per_minute";
    assert_eq!(name.len() + 1 + keys[0].len(), 33);
    // Each call uses the answer before to choose its key: what one lookup takes, not how many overlap.
    let next = |at: usize, answer: usize| (at + 1 + (answer & 1)) % KEYS;
    for hash in [Hash::Fnv1, Hash::Fnv1a] {
        for peers in [3, 100, 1_000] {
            let ring = ring(peers, hash);
            let mut at = 0;
            criterion.bench_function(&format!("owner among {peers} peers, {hash:?}"), |bencher| {
                bencher.iter(|| {
                    let owner = ring.owner_index(black_box(name), &keys[at]).unwrap_or_default();
                    at = next(at, owner);
                });
            });
        }
    }
    let ring = ring(100, Hash::Fnv1);
    let mut at = 0;
    criterion.bench_function("owners of 1000 keys of a call, 100 peers", |bencher| {
        bencher.iter(|| {
            at = (at + 1_000) % (KEYS - 1_000);
            let owners =
                keys[at..at + 1_000].iter().map(|key| ring.owner_index(name, key).unwrap_or_default());
            owners.sum::<usize>()
        });
    });
}

/// The two halves of a lookup.
fn halves(criterion: &mut Criterion) {
    let ring = ring(100, Hash::Fnv1);
    let (name, key) = ("requests_per_minute", "acct:01234567");
    let joined = format!("{name}_{key}");
    criterion.bench_function("hash of 33 bytes in three parts", |bencher| {
        let mut answer = 0;
        bencher.iter(|| {
            // A part that depends on the hash before: a chain, as above.
            answer = ring.place(&black_box(name)[(answer & 1) as usize..], key);
            answer
        });
    });
    criterion.bench_function("hash of 33 bytes in one part", |bencher| {
        let mut answer = 0;
        bencher.iter(|| {
            answer = Hash::Fnv1.of(&[&black_box(joined.as_bytes())[(answer & 1) as usize..]]);
            answer
        });
    });
    criterion.bench_function("owner of a place, 100 peers", |bencher| {
        let mut place = 0_u64;
        bencher.iter(|| {
            let owner = ring.owner_at(place).unwrap_or_default();
            place = (place ^ owner as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
        });
    });
}

fn building(criterion: &mut Criterion) {
    for peers in [3, 100, 1_000] {
        criterion.bench_function(&format!("a ring of {peers} peers"), |bencher| {
            bencher.iter(|| ring(black_box(peers), Hash::Fnv1));
        });
    }
    let (before, after) = (ring(100, Hash::Fnv1), ring(101, Hash::Fnv1));
    criterion.bench_function("shares of 100 peers", |bencher| bencher.iter(|| before.shares()));
    criterion.bench_function("what a 101st peer takes", |bencher| bencher.iter(|| before.moved(&after)));
}

criterion_group!(benches, lookups, halves, building);
criterion_main!(benches);
