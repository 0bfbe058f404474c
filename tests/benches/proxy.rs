//! What the filtering proxy costs: throughput of a tunnel beside that of a plain relay, a connect by name beside one
//! through SOCKS, and memory.
//!
//! ```text
//! cargo bench -p tests --bench proxy
//! ```
//!
//! The programs measured are built by it, in the release profile. It takes about half a minute and
//! fails for no figure: the budgets are printed beside what was found.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;
use std::{env, fs};
use tests::bench::{Outcome, finish, judged, machine};
use tests::{Running, Sandbox, echo_server, flood_server, programs};

/// Connects of each kind. Odd.
const CONNECTS: usize = 4001;
/// Samples of each rate. Odd, so that the median is one of them.
const ROUNDS: usize = 15;
/// Bytes of a sample.
const SIZE: usize = 512 << 20;
const TUNNELS: usize = 2000;
/// The first argument of the plain relay; the second is the port that it leads to.
const RELAY: &str = "--relay";

const RATE_BUDGET: f64 = 0.8;
const CONNECT_BUDGET: f64 = 1.3;
const IDLE_BUDGET_KIB: u64 = 12 * 1024;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [RELAY, port] => relay(port),
        _ if arguments.iter().any(|argument| argument == "--bench") => measure(),
        // `cargo test --benches`: that it builds is all that a test can say.
        _ => Ok(()),
    };
    finish(outcome)
}

fn measure() -> Outcome<()> {
    println!("programs: {}", programs().dir.display());
    println!("{}\n", machine()?);
    measure_rate()?;
    measure_connects()?;
    measure_memory()
}

/// A relay as short as it can be: tokio on one thread, as the proxy.
fn relay(port: &str) -> Outcome<()> {
    let target = format!("127.0.0.1:{port}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        loop {
            let (mut client, _) = listener.accept().await?;
            let mut host = tokio::net::TcpStream::connect(&target).await?;
            tokio::spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut client, &mut host).await;
            });
        }
    })
}

fn start_relay(port: u16) -> Outcome<(Child, String)> {
    let mut command = Command::new(env::current_exe()?);
    let mut child = command.args([RELAY, &port.to_string()]).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    let stdout = child.stdout.take().ok_or("no pipe")?;
    BufReader::new(stdout).read_line(&mut line)?;
    Ok((child, line.trim().to_owned()))
}

fn sandbox_for(port: u16) -> Sandbox {
    let literal = format!("127.0.0.1:{port}");
    Sandbox::new()
        .allow_domains(["good.localhost", literal.as_str()])
        .timeout(Duration::from_secs(120))
}

fn measure_rate() -> Outcome<()> {
    let port = flood_server(SIZE);
    let (mut relay, relayed) = start_relay(port)?;
    let sandbox = sandbox_for(port);
    let mut rates = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let outcomes = [
            sandbox.probe_outside(format!("rate-at 127.0.0.1:{port}")),
            sandbox.probe_outside(format!("rate-at {relayed}")),
            sandbox.probe(format!("rate good.localhost:{port}")),
        ];
        for (rates, outcome) in rates.iter_mut().zip(&outcomes) {
            let (_, rate) = outcome.results().next().ok_or("the client failed")?;
            rates.push(rate.parse::<f64>()? / f64::from(1 << 20));
        }
    }
    relay.kill()?;
    relay.wait()?;
    let [direct, relayed, ours] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    let ratio = ours / relayed;
    println!(
        "throughput (MiB/s, medians of {ROUNDS} samples of {} MiB, taken in turn)",
        SIZE >> 20
    );
    println!("  directly {direct:.0}, by a plain relay {relayed:.0}, through the proxy {ours:.0}");
    println!(
        "  proxy / relay {ratio:.2}  (budget {RATE_BUDGET}: {})\n",
        judged(ratio >= RATE_BUDGET)
    );
    Ok(())
}

fn measure_connects() -> Outcome<()> {
    let port = echo_server();
    let outcome = sandbox_for(port).probe(format!("connects {CONNECTS} good.localhost {port}"));
    let (_, times) = outcome.results().next().ok_or("the client failed")?;
    let (name, socks) = times.split_once(' ').ok_or_else(|| format!("no times: {times}"))?;
    let ratio = name.parse::<f64>()? / socks.parse::<f64>()?;
    println!("connects (us, medians of {CONNECTS}, taken in turn)");
    println!("  by name {name}, through SOCKS {socks}");
    println!(
        "  ratio {ratio:.2}  (budget {CONNECT_BUDGET}: {})\n",
        judged(ratio <= CONNECT_BUDGET)
    );
    Ok(())
}

fn measure_memory() -> Outcome<()> {
    let port = echo_server();
    println!("memory of the proxy (VmRSS, KiB)");
    let memory_with = |op: &str, count: usize| {
        let script = format!(
            "ulimit -n 8192; exec {} {op} {count} good.localhost:{port}",
            programs().probe().display()
        );
        let sandbox = sandbox_for(port);
        let mut running = sandbox.spawn(["sh", "-c", &script]);
        running.expect(&format!("{op}={count}"));
        memory_of_proxy(&running)
    };
    let idle = memory_with("hold", 8)?;
    let kept = judged(idle <= IDLE_BUDGET_KIB);
    println!("  after 8 tunnels {idle}  (budget {IDLE_BUDGET_KIB}: {kept})");
    for (op, label) in [("hold", "tunnels"), ("hold-by-name", "connects by name")] {
        let memory = memory_with(op, TUNNELS)?;
        println!("  with {TUNNELS} {label} {memory}, that is {} each", memory / TUNNELS as u64);
    }
    Ok(())
}

fn memory_of_proxy(running: &Running) -> Outcome<u64> {
    for task in fs::read_dir(format!("/proc/{}/task", running.pid()))? {
        for pid in fs::read_to_string(task?.path().join("children"))?.split_whitespace() {
            let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
            if status.starts_with("Name:\tlandstrip-proxy\n") {
                let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
                let text = line.ok_or("no VmRSS")?.trim().trim_end_matches(" kB");
                return Ok(text.parse()?);
            }
        }
    }
    Err("the proxy does not run".into())
}
