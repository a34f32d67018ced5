//! The variables and the model key that an attempt gets.

use std::ffi::OsString;

use bailiwick_fleet::ports::{AttemptLaunch, ModelKey};
use bailiwick_model::task::Login;
use bailiwick_model::{Source, Task};
use bailiwick_runner::agents;
use bailiwick_runner::proxy::ModelApi;

use crate::context::set_variable;
use crate::failure::Failure;
use crate::{agent_programs, background, logins};

/// The variables that an attempt gets on another machine: those that were granted to it, where the model is, and one
/// key of it if the task uses it.
pub(in crate::fleet) fn granted(launch: &AttemptLaunch) -> Result<Vec<(String, String)>, Failure> {
    let task = Task::parse(&Source::new("the task", launch.task.as_str()))?;
    if spends_a_login(&task) {
        return Err(Failure::general("a login of this machine cannot be used on a worker")
            .help("use the login api-key in its stack"));
    }
    let mut names = logins::ENDPOINT_VARIABLES.to_vec();
    match (launch.model_key, wire_of(&task)) {
        (ModelKey::Lent, Some(wire)) => names.extend(logins::keys(wire)),
        (ModelKey::Lent | ModelKey::Withheld, _) => {}
    }
    let mut all = Vec::new();
    for name in names {
        all.extend(set_variable(name)?.map(|value| (name.to_owned(), value)));
    }
    all.extend(launch.environment.iter().cloned());
    let environment: Vec<(OsString, OsString)> =
        all.iter().map(|(name, value)| (name.into(), value.into())).collect();
    require_key(&task, &environment)?;
    Ok(all)
}

/// The name of the agent program of a task.
pub(in crate::fleet) fn program_of(launch: &AttemptLaunch) -> Result<String, Failure> {
    let task = Task::parse(&Source::new("the task", launch.task.as_str()))?;
    let name = task.agent.cli.as_ref().map_or(agent_programs::USUAL, |cli| cli.as_str());
    Ok(name.to_owned())
}

fn wire_of(task: &Task) -> Option<ModelApi> {
    let name = task.agent.cli.as_ref().map_or(agent_programs::USUAL, |cli| cli.as_str());
    agents::adapter(name).and_then(|adapter| adapter.model_api())
}

/// The environment of the supervisor of an attempt: variables that programs need to find their files, the admitted
/// variables, and the model key if the task uses it.
pub(super) fn of_supervisor(launch: &AttemptLaunch) -> Result<Vec<(OsString, OsString)>, Failure> {
    let task = Task::parse(&Source::new("the task", launch.task.as_str()))?;
    let variable = |name: &&str| Some((OsString::from(name), std::env::var_os(name)?));
    let needed = background::NEEDED.iter().chain(&logins::ENDPOINT_VARIABLES);
    let mut all: Vec<(OsString, OsString)> = needed.filter_map(variable).collect();
    match launch.model_key {
        ModelKey::Lent => all.extend(logins::CREDENTIAL_VARIABLES.iter().filter_map(variable)),
        ModelKey::Withheld if spends_a_login(&task) => {
            return Err(Failure::general(
                "it is to be paid for with a login of this machine, which is not lent to it",
            )
            .help("grant it a key of its own, or set modelKey of its pool to every-run"));
        }
        ModelKey::Withheld => {}
    }
    all.extend(launch.environment.iter().map(|(name, value)| (name.into(), value.into())));
    require_key(&task, &all)?;
    Ok(all)
}

/// Whether its task names a login that is not a variable. Such a login cannot be withheld, only refused.
fn spends_a_login(task: &Task) -> bool {
    match task.agent.login {
        Login::ApiKey => false,
        Login::Subscription | Login::Bedrock | Login::Vertex => true,
    }
}

/// An agent without a key is not started, since it would fail.
fn require_key(task: &Task, environment: &[(OsString, OsString)]) -> Result<(), Failure> {
    let Some(wire) = wire_of(task).filter(|_| !spends_a_login(task)) else { return Ok(()) };
    let keys = logins::keys(wire);
    if keys.iter().any(|key| environment.iter().any(|(name, _)| name == key)) {
        return Ok(());
    }
    Err(Failure::general("no key of the model is lent to it, and none was granted")
        .help(format!("grant {}, or set modelKey of its pool to every-run", keys.join(" or "))))
}
