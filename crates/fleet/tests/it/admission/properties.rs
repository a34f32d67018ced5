//! Random worlds: rights can only shrink.

use bailiwick_fleet::admission::Decision;
use bailiwick_resources::{EventSource, Kind};
use bailiwick_testkit::Depth;
use bailiwick_testkit::random::Random;
use serde_json::{Value, json};

use super::world::World;

fn pick<'a, T>(random: &mut Random, list: &'a [T]) -> &'a T {
    &list[random.below(list.len())]
}

fn subject(random: &mut Random) -> Value {
    let (kind, name) = *pick(
        random,
        &[
            ("service-account", "fixer"),
            ("agent-stack", "fixer"),
            ("user", "ada"),
            ("team", "builders"),
            ("runner-pool", "trusted"),
            ("runner-pool", "untrusted"),
            ("agent-stack", "other"),
        ],
    );
    json!({ "kind": kind, "name": name })
}

fn grant(random: &mut Random, deny: bool) -> Value {
    json!({
        "subject": subject(random),
        "secretRef": { "name": "model", "keys": ["api-key"] },
        "purpose": "model-provider-token",
        "allowedRepositories": pick(random, &[json!(["acme/*"]), json!(["acme/web"]), json!(["x/*"]), json!([])]),
        "allowedRefs": pick(random, &[
            json!({ "include": [], "exclude": [] }),
            json!({ "include": ["main", "refs/pull/**"], "exclude": [] }),
            json!({ "include": ["main"], "exclude": [] }),
            json!({ "include": [], "exclude": ["main"] }),
        ]),
        "allowedTriggerSources": pick(random, &[json!([]), json!(["ci"]), json!(["manual"])]),
        "allowUntrusted": random.once_in(2),
        "requiredApproval": pick(random, &["never", "always", "on-untrusted-ref"]),
        "deny": deny,
    })
}

fn world(random: &mut Random) -> World {
    let mut world = World::good();
    world.remove(Kind::AgentSecretGrant, "fixer-model");
    world.set_stack("/permissionRefs/secretGrants", json!([]));
    world.situation.memberships = vec!["builders".into()];
    world.set_stack("/secretPolicy/allowOnForks", json!(random.once_in(2)));
    world.set(Kind::AgentSecretGrant, "docs-key", "/allowUntrusted", json!(true));
    for index in 0..=random.below(3) {
        let spec = grant(random, false);
        world.add(Kind::AgentSecretGrant, &format!("g{index}"), spec);
    }
    world.situation.source = *pick(random, &[EventSource::Ci, EventSource::Manual]);
    world
}

/// A world in which everything is granted without approval: a random world is rarely like that.
fn fully_granted(random: &mut Random) -> World {
    let mut world = world(random);
    world.objects.retain(|(kind, name), _| *kind != Kind::AgentSecretGrant || name == "docs-key");
    let mut spec = grant(random, false);
    for (key, value) in [
        ("subject", json!({ "kind": "agent-stack", "name": "fixer" })),
        ("allowedRepositories", json!(["acme/*"])),
        ("allowedRefs", json!({ "include": [], "exclude": [] })),
        ("allowedTriggerSources", json!([])),
        ("allowUntrusted", json!(false)),
        ("requiredApproval", json!("never")),
    ] {
        spec[key] = value;
    }
    world.add(Kind::AgentSecretGrant, "g0", spec);
    world
}

#[test]
fn denial_or_narrower_setting_never_allows_more() {
    let mut random = Random::rotating("narrowing");
    let (mut narrowed, mut allowed) = (0, 0);
    for case in 0..Depth::from_env().cases(300) {
        let world = if case == 0 { fully_granted(&mut random) } else { world(&mut random) };
        let before = world.review();
        let mut narrower = world.clone();
        let change = random.below(5);
        match if case == 0 { 1 } else { change } {
            0 => {
                let denial = grant(&mut random, true);
                narrower.add(Kind::AgentSecretGrant, "no", denial);
            }
            1 => narrower.set_stack("/secretPolicy/allowedSecretRefs", json!(["docs-key"])),
            2 => {
                let kind = *pick(
                    &mut random,
                    &[Kind::Secret, Kind::ServiceAccount, Kind::AgentSecretGrant],
                );
                narrower.unlistable.insert(kind);
            }
            3 => {
                narrower.set(Kind::AgentServiceAccount, "fixer", "/allowedRepositories", json!([]))
            }
            _ => {
                let only = json!({ "include": ["release/*"], "exclude": [] });
                narrower.set(Kind::AgentSecretGrant, "g0", "/allowedRefs", only);
                // After one of several grants is narrowed, another may apply; together they never allow more.
                let approval =
                    narrower.spec(Kind::AgentSecretGrant, "g0")["requiredApproval"].clone();
                if approval != "never" {
                    continue;
                }
            }
        }
        let after = narrower.review();
        assert!(after.decision >= before.decision, "{:#?}\n{:#?}", before.reasons, after.reasons);
        assert!(after.mounts().len() <= before.mounts().len());
        narrowed += usize::from(after.decision > before.decision);
        allowed += usize::from(before.decision == Decision::Allowed);
    }
    assert!(narrowed > 0 && allowed > 0, "{narrowed} {allowed}");
}

#[test]
fn fork_never_allows_more() {
    let mut random = Random::rotating("forks");
    let (mut narrowed, mut unchanged) = (0, 0);
    for case in 0..Depth::from_env().cases(300) {
        let mut trusted = if case == 0 { fully_granted(&mut random) } else { world(&mut random) };
        // The pool depends on the trust tier: grants to a pool would hide the effect of the trust tier.
        trusted.objects.retain(|(kind, _), object| {
            *kind != Kind::AgentSecretGrant || object.spec["subject"]["kind"] != "runner-pool"
        });
        let mut fork = trusted.clone();
        let same_ref = trusted.situation.reference.clone();
        fork.fork();
        fork.situation.reference = same_ref;
        let (before, after) = (trusted.review(), fork.review());
        assert!(after.decision >= before.decision, "{:#?}\n{:#?}", before.reasons, after.reasons);
        for (secret, _, _) in after.mounts() {
            assert!(before.mounts().iter().any(|(other, _, _)| other.need == secret.need));
        }
        narrowed += usize::from(after.decision > before.decision);
        unchanged += usize::from(after.decision == before.decision);
    }
    assert!(narrowed > 0 && unchanged > 0, "{narrowed} {unchanged}");
}
