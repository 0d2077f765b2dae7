//! Steps on simulated nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use flyball_core::cluster::{BatchSettings, GlobalSettings, OwnedKey, RingSettings, Unreachable};
use flyball_core::ring::Ring;
use flyball_core::{Decision, Rules};

use super::parse::{Ask, Line, Step};
pub use crate::message::Via;
use crate::message::{Asked, NodeId, address};
use crate::network::Network;
use crate::node::NodeSettings;
use crate::world::{TIMEOUT, World};

/// An answer later than this never comes.
const PATIENCE: Duration = Duration::from_secs(3);

/// How an answer is written into a story.
pub fn render(answer: Option<&Decision>, via: Via) -> String {
    let via = match via {
        Via::Own => "own",
        Via::Replica => "replica",
        Via::Owner => "owner",
        Via::Fallback => "fallback",
    };
    match answer {
        Some(decision) => format!("{} {} via {via}", decision.status.name(), decision.remaining),
        None => format!("error via {via}"),
    }
}

/// Plays a story and returns it with the answers that were given.
pub fn play(lines: &[Line]) -> Result<String> {
    let mut stage = Stage::new(lines);
    let mut told = String::new();
    for line in lines {
        told.push_str(&line.text);
        let Some(step) = &line.step else { continue };
        let answer = stage.step(step).with_context(|| format!("line {}", line.number))?;
        if let Some(answer) = answer {
            told.push_str(&format!("= {answer}\n"));
        }
    }
    Ok(told)
}

struct Stage {
    world: World,
    ids: BTreeMap<String, NodeId>,
    running: Vec<NodeId>,
    keys: BTreeMap<String, OwnedKey>,
    settings: NodeSettings,
}

impl Stage {
    fn new(lines: &[Line]) -> Self {
        let settings = NodeSettings {
            rules: Rules::default(),
            ring: RingSettings::default(),
            batch: BatchSettings::default(),
            hits: GlobalSettings::default(),
            broadcast: GlobalSettings::default(),
            unreachable: Unreachable::default(),
            fault: None,
        };
        let mut ids = BTreeMap::new();
        for line in lines {
            let names = match &line.step {
                Some(Step::Nodes(names)) => names.as_slice(),
                Some(Step::Join(name)) => std::slice::from_ref(name),
                _ => &[],
            };
            for name in names {
                let next = ids.len();
                ids.entry(name.clone()).or_insert(next);
            }
        }
        let world = World::new(1, ids.len(), &settings, Network::quick(), 0);
        Self { world, ids, running: Vec::new(), keys: BTreeMap::new(), settings }
    }

    fn id(&self, name: &str) -> Result<NodeId> {
        self.ids
            .get(name)
            .copied()
            .with_context(|| format!("there is no node {name:?}; nodes come by `nodes` or `join`"))
    }

    fn all(&self, names: &[String]) -> Result<Vec<NodeId>> {
        names.iter().map(|name| self.id(name)).collect()
    }

    fn start(&mut self, node: NodeId) {
        if !self.running.contains(&node) {
            self.world.start(node);
            self.running.push(node);
            self.running.sort_unstable();
        }
    }

    fn tell(&mut self, peers: &[NodeId]) -> Result<()> {
        for node in &self.running {
            self.world.tell_peers(*node, peers.to_vec(), Duration::ZERO);
        }
        self.pass(Duration::from_millis(1))
    }

    fn pass(&mut self, time: Duration) -> Result<()> {
        Ok(self.world.run_until(self.world.now.saturating_add(time))?)
    }

    fn step(&mut self, step: &Step) -> Result<Option<String>> {
        match step {
            Step::Nodes(names) => {
                for node in self.all(names)? {
                    self.start(node);
                }
                self.tell(&self.running.clone())?;
            }
            Step::Join(name) => {
                self.start(self.id(name)?);
                self.tell(&self.running.clone())?;
            }
            Step::Start(name) => {
                let node = self.id(name)?;
                self.start(node);
                self.world.tell_peers(node, self.running.clone(), Duration::ZERO);
                self.pass(Duration::from_millis(1))?;
            }
            Step::Crash(name) => {
                let node = self.id(name)?;
                self.running.retain(|running| *running != node);
                self.world.crash(node)?;
            }
            Step::Stop(name) => {
                let node = self.id(name)?;
                self.running.retain(|running| *running != node);
                self.world.stop(node)?;
                self.pass(TIMEOUT)?;
            }
            Step::Peers(names) => self.tell(&self.all(names)?)?,
            Step::Freeze(name, time) => self.world.freeze(self.id(name)?, *time),
            Step::Partition(some, others) => {
                for a in self.all(some)? {
                    for b in self.all(others)? {
                        self.world.network.cut.extend([(a, b), (b, a)]);
                    }
                }
            }
            Step::Cut(from, to) => {
                self.world.network.cut.insert((self.id(from)?, self.id(to)?));
            }
            Step::Heal => self.world.network.cut.clear(),
            Step::Advance(time) => self.pass(*time)?,
            Step::Ask(node, ask) => return self.ask(node, ask).map(Some),
        }
        Ok(None)
    }

    fn ask(&mut self, name: &str, ask: &Ask) -> Result<String> {
        let node = self.id(name)?;
        let asked = Asked {
            key: self.key(ask)?,
            hits: ask.hits,
            limit: ask.limit,
            duration: ask.duration,
            algorithm: ask.algorithm,
            behavior: ask.behavior,
            burst: ask.burst,
            created_at: None,
            max_wait: ask.max_wait,
        };
        self.world.take_answers();
        if self.world.ask(node, vec![asked])?.is_empty() {
            bail!("node {name:?} is down or frozen, so nobody can ask it");
        }
        let until = self.world.now.saturating_add(PATIENCE);
        loop {
            if let Some((_, told)) = self.world.take_answers().first() {
                return Ok(render(told.answer.as_ref(), told.via));
            }
            if self.world.now >= until {
                bail!("no answer within {PATIENCE:?}");
            }
            self.pass(Duration::from_millis(1))?;
        }
    }

    /// A key that the story's owner owns: numbers are tried until one does.
    fn key(&mut self, ask: &Ask) -> Result<OwnedKey> {
        if let Some(known) = self.keys.get(&ask.key) {
            return Ok(known.clone());
        }
        let addresses: Vec<String> = self.running.iter().map(|node| address(*node)).collect();
        let RingSettings { hash, replicas } = self.settings.ring;
        let ring = Ring::new(addresses.iter().map(String::as_str), hash, replicas);
        let owner = ask.owner.as_ref().map(|name| self.id(name)).transpose()?.map(address);
        for number in 0..10_000 {
            let unique_key = format!("{number}-{}", ask.key);
            let at = ring.owner_index("scenario", &unique_key).map(|index| ring.peers().nth(index));
            if owner.is_none() || at.flatten() == owner.as_deref() {
                let key = OwnedKey { name: "scenario".into(), unique_key: unique_key.into() };
                self.keys.insert(ask.key.clone(), key.clone());
                return Ok(key);
            }
        }
        bail!("no key was found that {:?} owns; does it run?", ask.owner)
    }
}
