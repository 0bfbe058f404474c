use landstrip_client::{Command, EndedBy, FilesystemRules, Policy};
use std::path::Path;

pub fn test_in_a_sandbox(landstrip: &Path) -> std::io::Result<()> {
    let policy = Policy {
        extends: vec!["agent".into()],
        filesystem: FilesystemRules {
            allow_write: vec!["~/.cache/tool".into()],
            ..Default::default()
        },
        ..Default::default()
    };
    let output = Command::new(landstrip, "npm").arg("test").policy(policy).output()?;
    if output.outcome.ended_by == EndedBy::Landstrip {
        panic!("{:?}", output.outcome.error);
    }
    println!("{} {}", output.outcome.status, String::from_utf8_lossy(&output.stdout));
    for denial in &output.outcome.denials {
        println!("refused: {} {:?}", denial.operation, denial.target);
    }
    for rule in &output.outcome.advice {
        println!("to allow this: {} += [{:?}]", rule.key, rule.value);
    }
    Ok(())
}
