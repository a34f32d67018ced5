//! Many concurrent agents, started by one, with real programs: they share its budget.

use std::os::unix::fs::PermissionsExt as _;

use bailiwick_testkit::Depth;
use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::figure;
use bailiwick_testkit::scripted_model::{
    Call, INPUT_TOKENS, OUTPUT_TOKENS, Script, ScriptedModel, Turn,
};
use serde_json::Value;

use super::stage::Stage;

const SPENDER: &str =
    "---\ndescription: Spends.\ncli: codex\nmodel: gpt-5.5\n---\nYou spend what you have.\n";
/// A program of the repository that requests many agents at once, waits for all of them, and repeats
/// this until it gets none.
const CROWD: &str = r#"#!/usr/bin/perl
use IO::Socket::UNIX;
sub ask {
    my $s = IO::Socket::UNIX->new(Peer => "/run/bailiwick/gate/delegate.sock") or die "no socket: $!";
    print $s $_[0] . "\n";
    $s->flush();
    return $s;
}
my ($many, $tokens) = @ARGV;
my $spawn = '{"tool":"spawn_agent","arguments":{"message":"LEAF-WORK","agent_type":"spender","estimated_tokens":'
    . $tokens . '}}';
for (1..20) {
    my @asked = map { ask($spawn) } 1..$many;
    my @ids;
    for my $s (@asked) {
        my $answer = <$s>;
        if ($answer =~ /"agent_id":"([^"]+)"/) { push @ids, $1 } else { print "REFUSED $answer" }
    }
    print "STARTED ", scalar(@ids), "\n";
    last unless @ids;
    for my $id (@ids) {
        for (1..5) {
            my $w = ask("{\"tool\":\"wait\",\"arguments\":{\"ids\":[\"$id\"],\"timeout_ms\":600000}}");
            last if <$w> =~ /"timed_out":false/;
        }
    }
}
"#;

const TOKENS_PER_RESPONSE: u64 = INPUT_TOKENS + OUTPUT_TOKENS;

/// A tree uses at most the budget of its first agent, and one call in flight for each agent.
#[test]
fn many_concurrent_agents_share_one_budget() {
    let count: u64 = match Depth::from_env() {
        Depth::Ci => 8,
        Depth::Full => 64,
    };
    let stage = Stage::new(Cli::Codex);
    stage.scratch.write(".bailiwick/agents/spender.md", SPENDER);
    let settings = format!("[run]\napproval-seconds = 1\n[delegation]\nmost-at-once = {count}\n");
    stage.scratch.write(".bailiwick/settings.toml", &settings);
    stage.scratch.write("src/crowd", CROWD);
    let crowd = stage.scratch.root().join("src/crowd");
    std::fs::set_permissions(crowd, std::fs::Permissions::from_mode(0o755)).unwrap();
    stage.scratch.commit("Spenders");
    // The budget of each agent allows a little more than two responses, so that the third exceeds it the most.
    let child_budget = 2 * TOKENS_PER_RESPONSE + 1;
    let budget = (count + 1) * child_budget;
    let task = format!(
        "[task]\nrole = \"worker\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[agent]\ncli = \
         \"script\"\nallowed-subagents = [\"spender\"]\n[[agent.script]]\ndo = \"shell\"\ncommand = \
         \"./src/crowd {count} {child_budget} > src/crowd.txt 2>&1; true\"\n[budget]\ntokens = {budget}\n\
         [body]\ntext = \"x\"\n"
    );
    let file = stage.scratch.place().join("crowd.toml");
    std::fs::write(&file, task).unwrap();
    let turns = (0..9).map(|n| Turn::Calls(vec![Call::shell(format!("echo {n}"))]));
    let script = Script::new(vec![Turn::say("no")]).when("LEAF-WORK", turns.collect());
    let model = ScriptedModel::start(script);
    let mut command = stage.command(Some(&model), None);
    let ran = command.arg("run").arg(&file).args(["--agent-id", "crowd"]).output().unwrap();
    let output = stage.agent("crowd").text("src/crowd.txt").unwrap_or_default();
    assert!(ran.status.success(), "{output}{}", String::from_utf8_lossy(&ran.stderr));
    let started: Vec<u64> =
        output.lines().filter_map(|line| line.strip_prefix("STARTED ")?.parse().ok()).collect();
    // Many agents ran at once, and at last no budget was left to start one.
    assert!(started[0] >= count.min(16), "{output}");
    assert_eq!(started.last(), Some(&0), "{output}");
    assert!(output.contains("REFUSED "), "{output}");
    let tree = stage.bailiwick(&["agents", "tree", "--all", "-o", "json"]).expect_code(0);
    let nodes: Vec<Value> = serde_json::from_str(&tree.out).unwrap();
    let agents = started.iter().sum::<u64>();
    assert_eq!(u64::try_from(nodes.len()).unwrap(), agents + 1, "{output}{}", tree.out);
    let tokens = |node: &Value, of: &str| node[of]["tokens"].as_u64().unwrap_or_default();
    for node in nodes.iter().filter(|node| node["parent"] == "crowd") {
        assert_eq!(tokens(node, "budget"), child_budget, "{node:#}");
        assert!(tokens(node, "used") <= child_budget + TOKENS_PER_RESPONSE, "{node:#}");
    }
    let used: u64 = nodes.iter().map(|node| tokens(node, "used")).sum();
    let responses =
        model.requests().iter().filter(|one| one.status == 200 && one.method == "POST").count();
    assert_eq!(
        used,
        u64::try_from(responses).unwrap() * TOKENS_PER_RESPONSE,
        "the tokens of all responses are counted"
    );
    assert!(
        used <= budget + agents * TOKENS_PER_RESPONSE,
        "{used} of {budget} by {agents}: {output}"
    );
    // The budget was the limit: without it each agent would get nine responses.
    assert!(
        used > budget / 2 && used < agents * 9 * TOKENS_PER_RESPONSE,
        "{used} of {budget}: {output}"
    );
    figure(&format!("{count} at once, {agents} in all: {used} tokens of {budget}"));
}
