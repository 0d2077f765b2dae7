//! The inputs that fuzzing starts from, `fuzz/corpus/TARGET`: made from the recorded answers, so that every
//! feature of the wire is reached at once, and small. Committed; a test compares.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::root;
use crate::wire::{Item, message};

/// Files by their path below `fuzz/corpus`.
type Seeds = BTreeMap<String, Vec<u8>>;

/// Longer bodies say nothing that shorter ones do not.
const BODY_BYTES_MAX: usize = 1_024;
/// Of each file of recorded answers so many calls are taken, spread over it.
const CALLS_PER_FILE: usize = 8;

/// Writes all seeds, and removes those that are no longer made.
pub fn write() -> Result<()> {
    let corpus = root().join("fuzz/corpus");
    let seeds = seeds()?;
    for target in targets(&seeds) {
        let folder = corpus.join(target);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    for (name, bytes) in &seeds {
        let file = corpus.join(name);
        fs::write(&file, bytes).with_context(|| format!("cannot write {}", file.display()))?;
    }
    println!("{} seeds, {} bytes", seeds.len(), seeds.values().map(Vec::len).sum::<usize>());
    Ok(())
}

fn targets(seeds: &Seeds) -> BTreeSet<&str> {
    seeds.keys().filter_map(|name| name.split('/').next()).collect()
}

fn seeds() -> Result<Seeds> {
    let mut seeds = Seeds::new();
    let mut bodies = BTreeSet::new();
    for (file, scenarios) in recorded()? {
        let steps: Vec<&Value> =
            scenarios.iter().flat_map(|s| s["steps"].as_array().into_iter().flatten()).collect();
        let calls: Vec<&Value> = steps.iter().map(|step| &step["request"]).filter(|r| r.is_array()).collect();
        let distance = calls.len().div_ceil(CALLS_PER_FILE).max(1);
        for (index, call) in calls.iter().step_by(distance).enumerate() {
            let items: Vec<Item> = call.as_array().into_iter().flatten().filter_map(item).collect();
            let bytes = message(&items);
            if bytes.len() <= BODY_BYTES_MAX {
                // Flags and the step of time, as the targets read them: both semantics get their turn.
                let head = [&[(index % 2) as u8][..], &1_000_i64.to_le_bytes()].concat();
                seeds.insert(format!("check_decode/{file}-{index}"), [head, bytes].concat());
            }
        }
        let sent = steps.iter().filter_map(|step| step["http"]["body"].as_str());
        bodies.extend(sent.filter(|body| !body.is_empty() && body.len() <= BODY_BYTES_MAX).map(plain));
    }
    for (index, body) in bodies.into_iter().enumerate() {
        seeds.insert(format!("json_decode/{index:03}"), body.into_bytes());
    }
    for (file, lines) in gossip()? {
        for (index, bytes) in lines.into_iter().enumerate() {
            seeds.insert(format!("gossip_decode/{file}-{index:02}"), bytes);
        }
    }
    for (index, text) in CONFIG.iter().enumerate() {
        seeds.insert(format!("config/{index:02}"), text.as_bytes().to_vec());
    }
    for (index, moves) in STORE_MOVES.iter().enumerate() {
        seeds.insert(format!("store_model/{index}"), moves.to_vec());
    }
    Ok(seeds)
}

/// The recorded scenarios by the file's name.
fn recorded() -> Result<BTreeMap<String, Vec<Value>>> {
    let folder = root().join("crates/flyball-tests/testdata/conformance/vectors");
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let scenarios = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>();
        let scenarios = scenarios.with_context(|| format!("{} is not JSON lines", path.display()))?;
        all.insert(stem(&path), scenarios);
    }
    if all.is_empty() {
        bail!("there are no recorded answers in {}", folder.display());
    }
    Ok(all)
}

/// The recorded gossip by the file's name: packets, and what came over connections.
fn gossip() -> Result<BTreeMap<String, Vec<Vec<u8>>>> {
    let mut all = BTreeMap::new();
    for file in ["gossip-plain", "gossip-encrypted"] {
        let path = root().join(format!("crates/flyball-discovery/testdata/{file}.txt"));
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let lines =
            text.lines().filter_map(|line| line.strip_prefix("packet ").or(line.strip_prefix("stream ")));
        let bytes = lines.map(unhex).collect::<Option<Vec<_>>>();
        all.insert(file.to_owned(), bytes.with_context(|| format!("{} is not hexadecimal", path.display()))?);
    }
    Ok(all)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The replay tool's placeholders are filled with something that is valid in their place.
fn plain(text: &str) -> String {
    text.replace("%RUN%", "run").replace("%T%", "1700000000000").replace("%T+5%", "1700000000005")
}

/// One item, unless it has something that only JSON can say.
fn item(value: &Value) -> Option<Item> {
    let number = |field: &str| match &value[field] {
        Value::Null => Some(0),
        Value::Number(number) => number.as_i64(),
        Value::String(digits) => digits.parse().ok(),
        _ => None,
    };
    let text = |field: &str| plain(value[field].as_str().unwrap_or_default());
    Some(Item {
        name: text("name"),
        unique_key: text("unique_key"),
        hits: number("hits")?,
        limit: number("limit")?,
        duration: number("duration")?,
        algorithm: number("algorithm")?,
        behavior: number("behavior")?,
        burst: number("burst")?,
        created_at: value["created_at"].as_i64(),
        max_wait: number("max_wait")?,
    })
}

/// Environment, `KEY=VALUE` file and TOML file, with a line `---` between them. Every kind of value, good and bad.
const CONFIG: [&str; 14] = [
    "GUBER_GRPC_ADDRESS=127.0.0.1:1051\nGUBER_HTTP_ADDRESS=:1050\nGUBER_ADVERTISE_ADDRESS=localhost:1051\n",
    "GUBER_GRPC_ADDRESS=[::1]:0\nGUBER_HTTP_ADDRESS=nowhere\nGUBER_DATA_CENTER=dc-1\nGUBER_INSTANCE_ID=a\n",
    "GUBER_CACHE_SIZE=50000\nGUBER_WORKER_COUNT=-1\nGUBER_GRPC_MAX_CONN_AGE_SEC=30\nGUBER_DEBUG=T\n",
    "GUBER_BATCH_TIMEOUT=1m30s\nGUBER_BATCH_WAIT=500\u{b5}s\nGUBER_BATCH_LIMIT=1001\nGUBER_DISABLE_BATCHING=f\n",
    "GUBER_GLOBAL_TIMEOUT=.5s\nGUBER_GLOBAL_SYNC_WAIT=-1ns\nGUBER_GLOBAL_BATCH_LIMIT=0\nGUBER_FORCE_GLOBAL=yes\n",
    "GUBER_SCHEDULE_MAX_WAIT=9223372036854775807h\nGUBER_LOG_LEVEL=warning\nGUBER_LOG_FORMAT=JSON\n",
    "GUBER_PEER_PICKER=replicated-hash\nGUBER_PEER_PICKER_HASH=crc32\nGUBER_REPLICATED_HASH_REPLICAS=512\n",
    "GUBER_PEER_DISCOVERY_TYPE=none\nGUBER_MEMBERLIST_KNOWN_NODES=10.0.0.1,a/b:7\nGUBER_MEMBERLIST_SECRET_KEYS=MDEyMzQ1Njc4OWFiY2RlZg==\nGUBER_TLS_CERT=a.pem\nGUBER_CAHCE=1\n",
    "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317\nOTEL_TRACES_SAMPLER=traceidratio\n\
     OTEL_TRACES_SAMPLER_ARG=0.25\nOTEL_RESOURCE_ATTRIBUTES=a=b,c=%20\nOTEL_EXPORTER_OTLP_HEADERS=k=v\n",
    "FLYBALL_SEMANTICS=gubernator\nFLYBALL_TIME_ZONE=Europe/Berlin\nFLYBALL_CACHE_BYTES=1GiB\n\
     FLYBALL_CREATED_AT_TOLERANCE=5s\nFLYBALL_KEY_BYTES_MAX=4096\n",
    "\n---\n# the original's sample\nGUBER_GRPC_ADDRESS = 0.0.0.0:1051\n\n GUBER_DEBUG=true\nGUBER_CACHE_SIZE=\n",
    "GUBER_DEBUG=true\n---\nGUBER_DEBUG=false\nno equals sign\nA=B=C\n---\nsemantics = \"exact\"\n",
    "\n---\n\n---\nsemantics = \"exact\"\ntime_zone = \"UTC\"\n\n[grpc]\naddress = \"127.0.0.1:1051\"\n\n\
     [cache]\nbytes = \"256MiB\"\nentries = 1\n\n[log]\nlevel = \"debug\"\nformat = \"text\"\n",
    "\n---\n\n---\nsemantic = 3\n[grpc\n",
];

/// Moves as the target reads them, three bytes each: what, key, how much.
const STORE_MOVES: [&[u8]; 4] = [
    &[0, 0, 1, 0, 1, 2, 0, 0, 200, 0, 1, 255],
    &[1, 0, 3, 4, 0, 10, 1, 0, 3, 4, 0, 255, 1, 0, 3, 5, 0, 0, 0, 0, 1],
    &[2, 5, 9, 2, 5, 9, 2, 5, 9, 4, 0, 1, 2, 5, 9, 6, 5, 0, 2, 5, 1],
    &[3, 7, 20, 3, 7, 30, 4, 0, 100, 3, 7, 20, 4, 0, 255, 5, 0, 0, 3, 7, 20],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_seeds_are_current() {
        let corpus = root().join("fuzz/corpus");
        let wanted = seeds().unwrap();
        let mut there = Seeds::new();
        for target in targets(&wanted) {
            for file in fs::read_dir(corpus.join(target)).unwrap() {
                let path = file.unwrap().path();
                let name = format!("{target}/{}", path.file_name().unwrap().to_string_lossy());
                there.insert(name, fs::read(&path).unwrap());
            }
        }
        assert!(there == wanted, "the fuzz seeds are out of date: run `cargo xtask reference`");
        assert!(wanted.values().map(Vec::len).sum::<usize>() < 300 * 1024, "seeds are to stay small");
    }
}
