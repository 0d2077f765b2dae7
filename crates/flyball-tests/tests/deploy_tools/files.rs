//! Container files, read by the parsers of the tools they are for.

use flyball_tests::deploy::root;
use flyball_tests::tools::{Tool, run};
use serde_json::Value;

fn understood(kind: &str, path: &str) -> Value {
    let text = run(Tool::DeployCheck.command().arg(kind).arg(root().join(path))).unwrap().expect_success();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_dockerfile_makes_an_image_of_one_file() {
    let dockerfile = understood("dockerfile", "deploy/Dockerfile");
    assert_eq!(dockerfile["warnings"], Value::Null, "{dockerfile}");
    let stages = dockerfile["stages"].as_array().unwrap();
    let last = stages.last().unwrap();
    assert_eq!((stages.len(), last["from"].as_str()), (2, Some("scratch")));
    let commands: Vec<(&str, &str)> = last["commands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|command| (command["name"].as_str().unwrap(), command["text"].as_str().unwrap()))
        .collect();
    let names: Vec<&str> = commands.iter().map(|(name, _)| *name).collect();
    // There is no shell that RUN could start.
    assert_eq!(
        names,
        ["COPY", "COPY", "ENV", "USER", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT", "CMD"]
    );
}

/// What the image starts, and what it asks of itself, are commands of the binary.
#[test]
fn the_commands_of_the_image_are_the_binarys() {
    let dockerfile = understood("dockerfile", "deploy/Dockerfile");
    let last = dockerfile["stages"][1]["commands"].as_array().unwrap();
    let text = |name: &str| {
        let command = last.iter().find(|command| command["name"] == name).unwrap();
        command["text"].as_str().unwrap().to_owned()
    };
    let list =
        |text: &str| -> Vec<String> { serde_json::from_str(&text[text.find('[').unwrap()..]).unwrap() };
    let entry = list(&text("ENTRYPOINT"));
    let health = list(&text("HEALTHCHECK"));
    let serve = list(&text("CMD"));
    assert_eq!(entry, [health[0].clone()]);
    for command in [&health[1..], &serve[..]] {
        run(Tool::Flyball.command().args(command).arg("--help")).unwrap().expect_success();
    }
    // And the environment that it sets is one that a node starts with.
    let mut flyball = flyball_tests::binary::clean(&Tool::Flyball.path());
    flyball.args(["config", "--validate"]);
    for pair in text("ENV").split_whitespace().skip(1) {
        let (name, value) = pair.split_once('=').unwrap();
        flyball.env(name, value);
    }
    run(&mut flyball).unwrap().expect_success();
}

/// Every node of the composition starts with its environment, and all of them have the same peers.
#[test]
fn the_composition_is_three_nodes_that_know_each_other() {
    let project = understood("compose", "deploy/compose/compose.yaml");
    let services = project["services"].as_object().unwrap();
    assert_eq!(services.len(), 3);
    let mut published = Vec::new();
    for (name, service) in services {
        let environment = service["environment"].as_object().unwrap();
        let peers = environment["FLYBALL_PEERS"].as_str().unwrap();
        assert_eq!(peers.split(',').count(), 3);
        assert!(services.keys().all(|node| peers.contains(&format!("{node}:1051"))), "{peers}");
        assert_eq!(environment["GUBER_ADVERTISE_ADDRESS"], format!("{name}:1051"));
        assert_eq!(service["build"]["dockerfile"], "deploy/Dockerfile");
        let mut flyball = flyball_tests::binary::clean(&Tool::Flyball.path());
        flyball.args(["config", "--validate"]);
        flyball.envs(environment.iter().map(|(name, value)| (name, value.as_str().unwrap())));
        let output = run(&mut flyball).unwrap();
        assert!(output.success && output.stderr.is_empty(), "{name}: {}", output.stderr);
        for port in service["ports"].as_array().unwrap() {
            assert_eq!(port["host_ip"], "127.0.0.1", "{name} is published to everybody");
            published.push(port["published"].as_str().unwrap().to_owned());
        }
    }
    published.sort_unstable();
    published.dedup();
    assert_eq!(published.len(), 6);
}

/// Syntax and the shape of the job; what Nomad makes of it is not tried here.
#[test]
fn the_nomad_job_is_one_group_of_three() {
    let file = understood("hcl", "deploy/nomad/flyball.nomad.hcl");
    let find = |block: &Value, kind: &str| -> Vec<Value> {
        let blocks = block["blocks"].as_array().into_iter().flatten();
        blocks.filter(|block| block["type"] == kind).cloned().collect()
    };
    let jobs = find(&file, "job");
    let groups = find(&jobs[0], "group");
    assert_eq!((jobs.len(), groups.len()), (1, 1));
    assert_eq!(groups[0]["attributes"]["count"], "3");
    let tasks = find(&groups[0], "task");
    let environment = find(&tasks[0], "env");
    let mut flyball = flyball_tests::binary::clean(&Tool::Flyball.path());
    flyball.args(["config", "--validate"]);
    for (name, value) in environment[0]["attributes"].as_object().unwrap() {
        let value = value.as_str().unwrap().trim_matches('"');
        flyball
            .env(name, value.replace("${NOMAD_IP_grpc}", "10.0.0.1").replace("${NOMAD_IP_http}", "10.0.0.1"));
    }
    let output = run(&mut flyball).unwrap();
    assert!(output.success && output.stderr.is_empty(), "{}", output.stderr);
    let paths: Vec<_> = find(&groups[0], "service")
        .iter()
        .flat_map(|service| find(service, "check"))
        .map(|check| check["attributes"]["path"].as_str().unwrap().trim_matches('"').to_owned())
        .collect();
    assert_eq!(paths, ["/readyz", "/livez"]);
}
