//! The web page in a real Chromium, over real runs: sign-in by the link, every page in both themes and two widths,
//! an approval by keyboard, and a transcript that updates without a reload.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use bailiwick_testkit::Scratch;
use bailiwick_testkit::browser::{chromium, node_packages};
use serde_json::Value;

use crate::BAILIWICK;
use crate::run::{run, wait_for};

const ROLE: &str = "[role]\nname = \"NAME\"\ndescription = \"d\"\n[capabilities]\nrequired = \
                    [\"policy::git-read-only\", \"scope::files-whitelist\"]\n[tools]\nallowed = [\"*\"]\n";
/// Text that runs code if a page does not escape it.
const HOSTILE: &str = "<img src=x onerror=alert(1)><script>alert(2)</script>\u{202e}\u{7}";

/// The length of a line of one megabyte.
const LONG_LINE: usize = 1_000_000;

fn task(role: &str, id: &str, steps: &[String]) -> String {
    let steps: String = steps.iter().map(|step| format!("[[agent.script]]\n{step}\n")).collect();
    format!(
        "[task]\nrole = \"{role}\"\nagent-id = \"{id}\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n\
         [body]\ntext = {HOSTILE:?}\n[agent]\ncli = \"script\"\n\
         {steps}"
    )
    // Rust and TOML escape these characters differently.
    .replace("\\u{202e}", "\\u202e")
    .replace("\\u{7}", "\\u0007")
}

fn say(text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    format!("do = \"say\"\ntext = {text}")
}

fn shell(command: &str) -> String {
    format!("do = \"shell\"\ncommand = {}", serde_json::to_string(command).unwrap())
}

fn scene() -> Scratch {
    let scratch = Scratch::repository();
    let careful = ROLE.replace("NAME", "careful") + "ask = [\"Bash\"]\n";
    scratch.write(".bailiwick/roles/careful.toml", &careful);
    scratch.write(".bailiwick/roles/helper.toml", &ROLE.replace("NAME", "helper"));
    scratch.write(".bailiwick/settings.toml", "[run]\napproval-seconds = 1200\n");
    scratch.write("src/a.txt", "a\n");
    let write = "do = \"write\"\npath = \"src/a.txt\"\ntext = \"b\\nc\\n\"".to_owned();
    let denied = shell("git push origin main");
    let long = say(&"A".repeat(1_000_000));
    let line = "C".repeat(LONG_LINE);
    let long_line = format!("do = \"write\"\npath = \"src/long.txt\"\ntext = \"{line}\\n\"");
    let no_text = shell("printf '\\377\\376\\n' > src/bytes.txt");
    let echo = shell(&format!("echo '{HOSTILE}'"));
    let cat = shell("cat src/bytes.txt src/long.txt");
    let hostile = [say(HOSTILE), long, denied, echo, write.clone(), long_line, no_text, cat];
    scratch.write("hostile.toml", &task("helper", "hostile", &hostile));
    let asking = [say("I ask first."), write, shell("echo published"), say("Published.")];
    let strict = ROLE.replace("NAME", "strict") + "[escalation]\npolicy = \"fail-fast\"\n";
    scratch.write(".bailiwick/roles/strict.toml", &strict);
    scratch.write("strict.toml", &task("strict", "strict", &[shell("git push origin main")]));
    scratch.write("asking.toml", &task("careful", "asking", &asking));
    scratch.commit("start");
    scratch
}

#[test]
fn pages_work_in_a_browser() {
    let scratch = scene();
    run(&scratch, &["run", "hostile.toml", "--land", "never"]);
    run(&scratch, &["run", "strict.toml", "--land", "never"]).expect_code(2);
    run(&scratch, &["run", "-d", "asking.toml", "--land", "never"]).expect_code(0);
    wait_for(|| run(&scratch, &["approvals", "list"]).out.contains("asking 1"));
    let mut ui = scratch.command("env");
    ui.args(["--default-signal=INT,TERM", BAILIWICK, "ui", "--no-open"]);
    let mut ui = ui.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut link = String::new();
    BufReader::new(ui.stdout.take().unwrap()).read_line(&mut link).unwrap();
    let screenshots = std::env::var_os("SCREENSHOTS")
        .map_or_else(|| scratch.place().join("screenshots"), std::path::PathBuf::from);
    let script = crate::workspace().join("crates/cli/tests/browser/pages.mjs");
    let output = Command::new("node")
        .arg(script)
        .args([link.trim(), "asking"])
        .arg(&screenshots)
        .env("CHROMIUM", chromium())
        .env("NODE_MODULES", node_packages())
        .output()
        .expect("node can be run");
    let _ = ui.kill();
    let _ = ui.wait();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let none = serde_json::json!([]);
    assert_eq!(
        report["faults"], none,
        "errors of scripts, CSP reports and pages that are too wide"
    );
    assert_eq!(report["foreign"], none, "requests to other origins");
    assert_eq!(report["violations"], none, "axe-core");
    assert_eq!(report["executed"], false, "hostile text was executed");
    // The control: axe-core ran, and reports a page with an error.
    assert!(report["control"].as_str().unwrap().contains("image-alt"), "{report:#}");
    assert_eq!(report["titles"]["hostile"], "(3) hostile · Bailiwick");
    let is_strict_run = |text: &&Value| text.as_str().unwrap().contains("bailiwick respawn strict");
    let quarantined = report["waiting"].as_array().unwrap().iter().find(is_strict_run);
    let quarantined = quarantined.expect("a quarantined run is in the inbox");
    assert!(quarantined.as_str().unwrap().contains("denied"), "{quarantined}");
    let columns = report["board"].as_array().unwrap();
    assert!(columns.iter().all(|column| column["counted"] == column["cards"]), "{columns:?}");
    let cards: u64 = columns.iter().map(|column| column["cards"].as_u64().unwrap()).sum();
    assert_eq!(cards, 3, "{columns:?}");
    for view in ["/changes", "/changes?view=split"] {
        let lines = &report["lines"][view];
        assert_eq!(lines["longest"], LONG_LINE, "{view}: the whole line is shown");
        assert_eq!(lines["replaced"], true, "{view}");
    }
    let output = &report["lines"][""];
    assert_eq!(output["replaced"], true, "{output}");
    assert!(output["counted"].as_u64().unwrap() > 0, "{output}");
    assert!(report["asked"].as_str().unwrap().contains("echo published"), "{report:#}");
    assert_eq!(report["live"], serde_json::json!(["approved"]));
    assert_eq!(report["rows"], report["stored"], "the page equals the store");
    assert_eq!(report["signedOut"], true);
    assert_eq!(report["cookies"]["elsewhere"], "", "a program on 127.0.0.1 gets the session");
    let page_cookies = report["cookies"]["beside"].as_str().unwrap();
    assert!(page_cookies.contains("bailiwick_session=bws_"), "positive control: {report:#}");
    let part = |name: &str| report["parts"][name].as_str().unwrap();
    for (name, texts) in [
        ("context", ["scope::files-whitelist", "capability", "SHA-256"].as_slice()),
        ("policy", &["denied", "policy::git-read-only", "capability.toml", "src/**"]),
        ("cost", &["Tokens by agent", "hostile"]),
        ("lineage", &["this agent", "hostile"]),
        ("artifacts", &["task.toml", "prompt.md", "policy.json", "decisions.jsonl"]),
    ] {
        for text in texts {
            assert!(part(name).contains(text), "{name}, {text}: {}", part(name));
        }
    }
    assert_eq!(report["artifact"][0], "attachment");
    assert!(report["artifact"][1].as_str().unwrap().contains("+++ b/src/a.txt"), "{report:#}");
    let status = || run(&scratch, &["status"]).expect_code(0).out;
    assert!(status().contains("bailiwick respawn strict"), "{}", status());
    run(&scratch, &["reject", "strict"]).expect_code(0);
    assert!(!status().contains("strict"), "{}", status());
    let images = std::fs::read_dir(&screenshots).unwrap().count();
    assert_eq!(images, 32, "eight pages, two themes, two widths");
}
