//! Whole clusters: join, leave, death, return, loss, partitions, load.

use super::net::{MS, Net, S, name};
use crate::gossip::swim::Event;

fn all(count: usize) -> Vec<usize> {
    (0..count).collect()
}

fn died(event: &Event) -> bool {
    matches!(event, Event::Died { .. })
}

#[test]
fn whoever_joins_one_is_known_by_all() {
    for count in [2, 3, 7, 40] {
        let mut net = Net::new(count, 1);
        for number in 1..count {
            net.join(number, 0);
            net.run(MS(100));
        }
        let took = net.until(S(10), |net| net.agree(&all(count)));
        assert!(took <= S(5), "{count} nodes took {took:?}");
        assert_eq!(net.count(|_, event| died(event)), 0);
    }
}

#[test]
fn the_same_seed_is_the_same_history() {
    let history = |seed| {
        let mut net = Net::joined(8, seed);
        net.loss = 0.3;
        net.kill(3);
        net.run(S(200));
        net.log
    };
    assert_eq!(history(5), history(5));
    assert_ne!(history(5), history(6));
}

/// The original's time: at most a round of probes, one probe, and a suspicion of 30 s.
#[test]
fn the_dead_are_gone_after_the_time_that_originals_take() {
    for seed in 0..10 {
        let mut net = Net::joined(5, seed);
        net.kill(4);
        let took = net.until(S(60), |net| net.agree(&all(4)));
        assert!((S(30)..S(56)).contains(&took), "{took:?}");
        // Nobody else is held to be dead.
        assert_eq!(net.count(|_, event| *event == Event::Died { node: name(4) }), 4);
        assert_eq!(net.count(|_, event| died(event)), 4);
        // And after a minute it is forgotten.
        net.run(S(120));
        assert!(all(4).into_iter().all(|number| net.swim(number).state().len() == 4));
    }
}

#[test]
fn a_leave_is_heard_within_a_second_also_when_packets_are_lost() {
    for (count, loss) in [(2, 0.0), (6, 0.2), (40, 0.2), (100, 0.2)] {
        let mut net = Net::joined(count, 3);
        net.loss = loss;
        let now = net.now;
        net.swim(0).leave(now);
        net.until(MS(1_000), |net| (1..count).all(|number| !net.sees(number).contains(&0)));
        assert_eq!(net.count(|_, event| matches!(event, Event::Left { .. })), count - 1);
        net.run(S(1));
        assert!(net.swim(0).has_left());
        // Nobody suspects it afterwards, and nobody hears of it from it.
        net.kill(0);
        net.run(S(90));
        assert_eq!(net.count(|_, event| died(event)), 0);
    }
}

#[test]
fn nobody_to_tell_is_no_reason_to_wait() {
    let mut net = Net::new(1, 1);
    let now = net.now;
    net.swim(0).leave(now);
    assert!(net.swim(0).has_left());
}

#[test]
fn a_node_returns_under_its_name_after_a_kill_and_after_a_leave() {
    for (leaves, away) in [(true, S(2)), (false, S(2)), (false, S(45)), (true, S(90)), (false, S(150))] {
        let mut net = Net::joined(5, 4);
        if leaves {
            let now = net.now;
            net.swim(2).leave(now);
            net.run(S(1));
        }
        net.kill(2);
        net.run(away);
        net.start_again(2);
        net.join(2, 0);
        let took = net.until(S(10), |net| net.agree(&all(5)));
        assert!(took <= S(5), "away for {away:?}: {took:?}");
        net.run(S(100));
        assert!(net.agree(&all(5)));
    }
}

#[test]
fn a_fifth_of_all_packets_lost_kills_nobody() {
    for seed in 0..4 {
        let mut net = Net::joined(6, seed);
        net.loss = 0.2;
        net.run(S(3_600));
        assert_eq!(net.count(|_, event| died(event)), 0, "seed {seed}: {:?}", net.log);
        assert!(net.agree(&all(6)));
        // The dead are found all the same.
        net.kill(5);
        let took = net.until(S(120), |net| net.agree(&all(5)));
        assert!(took < S(75), "{took:?}");
    }
}

#[test]
fn two_that_do_not_reach_each_other_do_not_accuse_each_other_while_others_reach_both() {
    let mut net = Net::joined(5, 9);
    net.cut(&[0], &[1]);
    net.run(S(1_200));
    assert_eq!(
        net.count(|_, event| died(event) || matches!(event, Event::Suspected { .. })),
        0,
        "{:?}",
        net.log
    );
}

#[test]
fn a_short_partition_kills_nobody_and_a_longer_one_heals() {
    let mut net = Net::joined(4, 2);
    net.cut(&[0, 1], &[2, 3]);
    net.run(S(20));
    net.heal();
    net.run(S(60));
    assert_eq!(net.count(|_, event| died(event)), 0);
    assert!(net.agree(&all(4)));
    // As long as the dead are not forgotten they are told, and say that they are not dead.
    net.cut(&[0, 1], &[2, 3]);
    net.until(S(120), |net| net.agree(&[0, 1]) && net.agree(&[2, 3]));
    net.run(S(20));
    net.heal();
    net.until(S(5), |net| net.agree(&all(4)));
}

#[test]
fn halves_that_forgot_each_other_meet_again_when_one_asks_a_seed() {
    let mut net = Net::joined(4, 2);
    net.cut(&[0, 1], &[2, 3]);
    net.run(S(600));
    net.heal();
    net.run(S(100));
    assert_eq!(net.sees(0), [0, 1]);
    net.join(3, 0);
    net.until(S(5), |net| net.agree(&all(4)));
}

#[test]
fn a_node_that_hardly_ever_runs_accuses_nobody() {
    for pause in [MS(700), S(2), S(4), S(9), S(31)] {
        let mut net = Net::joined(5, 6);
        let begun = net.now;
        while net.now.saturating_since(begun) < S(900) {
            net.freeze(0);
            net.run(pause);
            net.thaw(0);
            net.run(MS(30));
        }
        let accuses = |number, event: &Event| {
            number == 0 && matches!(event, Event::Suspected { by, .. } if *by == name(0))
        };
        assert_eq!(net.count(accuses), 0, "pauses of {pause:?}: {:?}", net.log);
        // Others are right not to rely on it when it is away for long, but nobody else is ever held to be dead.
        let kills = |_, event: &Event| matches!(event, Event::Died { node } if *node != name(0));
        assert_eq!(net.count(kills), 0, "pauses of {pause:?}: {:?}", net.log);
    }
}

#[test]
fn a_node_that_was_frozen_for_long_comes_back_and_blames_nobody() {
    for (frozen, dead) in [(S(20), false), (S(50), true)] {
        let mut net = Net::joined(5, 7);
        net.freeze(0);
        net.run(frozen);
        assert_eq!(net.count(|_, event| died(event)) > 0, dead);
        let before = net.log.len();
        net.thaw(0);
        net.until(S(10), |net| net.agree(&all(5)));
        net.run(S(60));
        let blames =
            |event: &Event| died(event) || matches!(event, Event::Suspected { node, .. } if *node != name(0));
        assert_eq!(net.log[before..].iter().filter(|(_, _, event)| blames(event)).count(), 0);
        assert!(net.agree(&all(5)));
    }
}

#[test]
fn a_node_whose_own_probes_fail_probes_slower() {
    let mut net = Net::joined(3, 8);
    net.cut(&[0], &[1, 2]);
    net.run(S(60));
    assert!(net.swim(0).health >= 2);
    net.heal();
    net.run(S(400));
    assert_eq!(net.swim(0).health, 0);
}
