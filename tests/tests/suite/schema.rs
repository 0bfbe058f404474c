//! The JSON Schema of policies, judged by an implementation of JSON Schema that editors' are like: it takes what
//! landstrip takes, and refuses what landstrip refuses.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use tests::{Sandbox, skipped};

/// Says of each policy on standard input whether the schema takes it.
const JUDGE: &str = "import json, jsonschema, sys, yaml
schema = json.load(open(sys.argv[1]))
jsonschema.Draft7Validator.check_schema(schema)
validator = jsonschema.Draft7Validator(schema)
print(json.dumps([validator.is_valid(yaml.safe_load(text)) for text in json.load(sys.stdin)]))";

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Whether the schema takes each of these; nothing where there is nobody to judge.
fn judged(policies: &[String]) -> Option<Vec<bool>> {
    let can = Command::new("/usr/bin/python3").args(["-c", "import jsonschema, yaml"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        skipped("not here: python3-jsonschema and python3-yaml");
        return None;
    }
    let sandbox = Sandbox::new().input(json!(policies).to_string());
    let schema =
        sandbox.file("schema", fs::read(repository().join("broker/policy.schema.json")).unwrap());
    let outcome = sandbox.run_outside([
        "/usr/bin/python3",
        "-W",
        "ignore",
        "-c",
        JUDGE,
        schema.to_str().unwrap(),
    ]);
    outcome.succeeds();
    Some(serde_json::from_str(&outcome.stdout).unwrap())
}

/// Whether landstrip takes it.
fn checked(policy: &str) -> bool {
    let sandbox = Sandbox::new();
    // What policies extend.
    sandbox.file("base.json", "{}");
    let path = sandbox.file("p.yaml", policy);
    sandbox.landstrip(["-p", path.to_str().unwrap(), "--check"]).status == Some(0)
}

#[test]
fn policies_that_come_with_landstrip_fit_the_schema() {
    let mut policies = Vec::new();
    for directory in ["broker/presets", "tests/examples"] {
        for entry in fs::read_dir(repository().join(directory)).unwrap() {
            let path = entry.unwrap().path();
            if !path.ends_with("docker-seccomp.json") {
                policies.push(fs::read_to_string(path).unwrap());
            }
        }
    }
    assert!(policies.len() > 8, "{policies:?}");
    let sandbox = Sandbox::new();
    sandbox.file("work/Cargo.toml", "");
    policies.push(sandbox.landstrip(["--init"]).stdout);
    let Some(judged) = judged(&policies) else { return };
    for (policy, fits) in policies.iter().zip(judged) {
        assert!(fits, "{policy}");
    }
}

#[test]
fn the_schema_and_landstrip_agree() {
    let cases = [
        (json!({}), true),
        (json!({"$schema": "policy.schema.json", "filesystem": {"allowWrite": ["."]}}), true),
        (json!({"extends": "agent"}), true),
        (json!({"extends": ["build", "./base.json"]}), true),
        (json!({"filesystem": null, "network": {"allowNetwork": null, "mitmProxy": null}}), true),
        (json!({"filesystem": {"denyRead": "a\n b \n\nc", "allowRead": null}}), true),
        (json!({"environment": {"allow": ["A*"], "deny": [], "set": {"A": "b", "C": null}}}), true),
        (
            json!({"network": {"allowedDomains": ["example.com:443"], "allowLocalBinding": true}}),
            true,
        ),
        (json!({"network": {"httpProxyPort": 65535}}), true),
        (json!({"windows": {"anything": 1}, "network": {"strictAllowlist": true}}), true),
        (json!(null), false),
        (json!([]), false),
        (json!({"filesytem": {}}), false),
        (json!({"$schema": "x", "filesystem": {"allowWrites": ["."]}}), false),
        (json!({"allowWrite": ["."]}), false),
        (json!({"filesystem": []}), false),
        (json!({"filesystem": {"allowWrite": [1]}}), false),
        (json!({"filesystem": {"allowWrite": [""]}}), false),
        (json!({"filesystem": {"allowWrite": true}}), false),
        (json!({"network": {"allowNetwork": "yes"}}), false),
        (json!({"network": {"httpProxyPort": 0}}), false),
        (json!({"network": {"socksProxyPort": 65536}}), false),
        (json!({"network": {"mitmProxy": {}}}), false),
        (json!({"environment": {"set": {"A": 1}}}), false),
        (json!({"environment": {"set": ["A"]}}), false),
        (json!({"credentials": {}}), false),
    ];
    let texts: Vec<_> =
        cases.iter().map(|(policy, _): &(Value, bool)| policy.to_string()).collect();
    for ((_, expected), text) in cases.iter().zip(&texts) {
        assert_eq!(checked(text), *expected, "landstrip about {text}");
    }
    let Some(judged) = judged(&texts) else { return };
    for (((_, expected), text), fits) in cases.iter().zip(&texts).zip(judged) {
        assert_eq!(fits, *expected, "the schema about {text}");
    }
}

#[test]
fn the_name_of_the_schema_is_accepted_without_a_word() {
    let sandbox = Sandbox::new();
    let check = |policy: &str| {
        let path = sandbox.file("p.json", policy);
        let outcome = sandbox.landstrip(["-p", path.to_str().unwrap(), "--check"]);
        outcome.succeeds();
        outcome.stdout
    };
    assert_eq!(check(r#"{"$schema":"/nonexistent/x.json"}"#), check("{}"));
    assert!(check(r#"{"macos":{}}"#).contains("macos"));
}
