//! The caller that spawns an agent: its limits, and the parameters of its agents that follow from them.

use bailiwick_kit::templates::assignment::{Assignment, assign};
use bailiwick_kit::templates::select::{Inherited, KnownModel, Overrides, Setting, effective};
use bailiwick_lifecycle::delegation::depth::{Depth, Limits};
use bailiwick_model::attempt::Allowance;
use bailiwick_model::globs::{Area, Overlap};
use bailiwick_model::module::GateModule;
use bailiwick_model::settings::DEFAULT_MAX_DEPTH;
use bailiwick_model::template::{AgentType, ContextLimits, Template};
use bailiwick_model::{AgentId, Delegate, RoleName, Settings, Task, task};
use bailiwick_policy::{Policy, ToolStack};
use bailiwick_runner::supervisor::RunDirectory;
use toml::Table;

use super::allowed_types::intersection;
use super::service::DelegationService;
use super::spawn_agent::SpawnAgent;
use crate::agent_programs::USUAL;
use crate::failure::Failure;
use crate::given_issue::GivenIssue;
use crate::verifying::{AgentWork, WorkOptions, settings};
use crate::{policy_file, system};

/// The role of agents that people start by templates which name none. `read_only` of a template takes
/// writing and the network away from it, and leaves every tool that reads.
const USUAL_ROLE: &str = "developer";

/// A caller of `spawn_agent`, with its limits.
pub(super) struct Caller {
    /// Its position in the tree of agents; `None` for a person.
    pub(super) delegate: Option<Delegate>,
    /// Its task.
    pub(super) task: Table,
    /// Its limits.
    pub(super) policy: Option<Policy>,
    pub(super) settings: Settings,
    pub(super) base: String,
    /// The commit whose kit binds it and the agents that it starts.
    pub(super) kit_commit: String,
    pub(super) role: Option<RoleName>,
    pub(super) cli: Option<String>,
    pub(super) model: Option<String>,
    pub(super) effort: Option<String>,
    pub(super) may_start: Vec<String>,
    /// How many levels of agents the issue that it works on allows below it.
    pub(super) issue_levels: Option<u32>,
}

/// The parameters of an agent: those of the call, else of its template.
pub(super) struct AgentParameters {
    pub(super) agent_name: Option<String>,
    pub(super) prompt: Option<String>,
    pub(super) description: String,
    pub(super) model: Option<String>,
    pub(super) effort: Option<String>,
    pub(super) lists: ToolStack,
    pub(super) read_only: bool,
}

impl AgentParameters {
    fn of(assignment: Assignment) -> Self {
        let value = |setting: Option<Setting>| setting.map(|setting| setting.value);
        let name = assignment.agent_type.as_str();
        Self {
            lists: ToolStack::unlimited().narrowed_by(name, &assignment.tools),
            read_only: assignment.sandbox.is_read_only(false),
            agent_name: assignment.agent_name,
            prompt: Some(assignment.prompt),
            description: assignment.description,
            model: value(assignment.settings.model),
            effort: value(assignment.settings.reasoning_effort),
        }
    }

    /// The default note of an agent.
    pub(super) fn note(&self, agent_type: &str) -> Option<String> {
        if agent_type.is_empty() {
            return None;
        }
        let persona = self.agent_name.as_ref().map(|name| format!("; agent_name={name}"));
        let persona = persona.unwrap_or_default();
        let description = &self.description;
        Some(format!("agent_type={agent_type}{persona}; agent_description={description}"))
    }
}

impl DelegationService {
    /// Reads the caller's run, task and policy.
    pub(super) fn read_caller(&self) -> Result<Caller, Failure> {
        let Some(id) = &self.caller else {
            let repository = self.context.require_repository()?;
            let base = repository.head()?;
            let settings = settings(&repository, &base)?;
            return Ok(Caller {
                delegate: None,
                task: Table::new(),
                policy: None,
                cli: settings.run.cli.clone(),
                settings,
                kit_commit: base.clone(),
                base,
                role: None,
                model: None,
                effort: None,
                may_start: vec!["*".to_owned()],
                issue_levels: None,
            });
        };
        let subject = AgentWork::of_agent(&self.context, id, &WorkOptions::default())?;
        let directory = RunDirectory::new(&self.context.state, id.as_str());
        let policy = policy_file::recorded(&directory)?.policy;
        let (run, known) = self
            .context
            .with_store(async |store| Ok((store.get(id).await?, store.delegate(id).await?)))?;
        let task = &subject.bound.task;
        let text = |line: &Option<task::Line>| line.as_ref().map(ToString::to_string);
        let may_start: Vec<String> =
            task.agent.allowed_subagents.iter().map(ToString::to_string).collect();
        let delegate = match known {
            Some(known) => known,
            None => Delegate { repository: Some(self.repository()?), ..root(id, task, &may_start) },
        };
        let table: Table = subject.bound.source.text.parse().map_err(|error| {
            Failure::general(format!("the task of `{id}` cannot be read: {error}"))
        })?;
        Ok(Caller {
            delegate: Some(delegate),
            task: table,
            policy: Some(policy),
            base: run.base.unwrap_or_else(|| subject.base.to_string()),
            kit_commit: subject.kit_commit.clone(),
            role: Some(subject.bound.role.name.clone()),
            cli: text(&task.agent.cli).or_else(|| subject.settings.run.cli.clone()),
            model: text(&task.agent.model),
            effort: text(&task.agent.effort),
            settings: subject.settings.clone(),
            may_start,
            issue_levels: GivenIssue::read(&directory)?.and_then(|given| given.agent_levels),
        })
    }
}

impl Caller {
    /// The depth of the agent that is asked for, and how deep those below it may be.
    pub(super) fn depth(
        &self,
        request: &SpawnAgent,
        template: Option<&Template>,
    ) -> Result<(Depth, Option<Depth>), Failure> {
        let own = Depth(self.delegate.as_ref().map_or(0, |delegate| delegate.depth));
        let limits = Limits {
            template: self.delegate.as_ref().and_then(|own| own.deepest).map(Depth),
            stack: Some(Depth(self.settings.delegation.max_depth.unwrap_or(DEFAULT_MAX_DEPTH))),
            call: None,
            issue: Limits::below(own, self.issue_levels),
        };
        let depth = limits.spawn(own).map_err(Failure::refused_by)?;
        let below = Limits {
            template: Limits::below(depth, template.and_then(|template| template.max_depth)),
            stack: limits.smallest().map(|(most, _)| most),
            call: Limits::below(depth, request.max_depth),
            issue: None,
        };
        Ok((depth, below.smallest().map(|(most, _)| most)))
    }

    pub(super) fn assignment(
        &self,
        request: &SpawnAgent,
        template: Option<&Template>,
        known: &[KnownModel],
    ) -> Result<AgentParameters, Failure> {
        let call = Overrides {
            model: request.model.as_deref(),
            reasoning_effort: request.reasoning_effort.as_deref(),
        };
        // Another agent program has other models.
        let other = template.and_then(|template| template.cli.as_ref());
        let same = other.is_none_or(|cli| cli == self.cli.as_deref().unwrap_or(USUAL));
        let inherited = Inherited {
            model: self.model.as_deref().filter(|_| same),
            reasoning_effort: self.effort.as_deref().filter(|_| same),
        };
        if let Some(template) = template {
            let name = request.agent_name.as_deref();
            let assignment = assign(template, name, call, inherited, known);
            return assignment.map(AgentParameters::of).map_err(Failure::refused_by);
        }
        let plain = effective(call, None, &Template::plain(), inherited);
        plain.check(known).map_err(Failure::refused_by)?;
        Ok(AgentParameters {
            agent_name: None,
            prompt: None,
            description: String::new(),
            model: plain.model.map(|setting| setting.value),
            effort: plain.reasoning_effort.map(|setting| setting.value),
            lists: ToolStack::unlimited(),
            read_only: false,
        })
    }

    /// The role that binds it: the template's, else the caller's.
    pub(super) fn role_of(&self, template: Option<&Template>) -> Result<RoleName, Failure> {
        let named = template.and_then(|template| template.role.clone());
        if let Some(role) = named.or_else(|| self.role.clone()) {
            return Ok(role);
        }
        RoleName::parse(USUAL_ROLE).map_err(Failure::refused_by)
    }

    /// Which templates it may start: those of its template that its caller may start as well.
    pub(super) fn may_start(&self, template: Option<&Template>, all: &[AgentType]) -> Vec<String> {
        match template.and_then(|template| template.allowed_subagents.as_ref()) {
            Some(requested) => intersection(&self.may_start, requested, all),
            None => self.may_start.clone(),
        }
    }

    /// The roles whose capabilities bind it besides its own: those of all above it.
    fn bound_by(&self, own: &RoleName) -> Vec<String> {
        let above = self.role.iter().map(ToString::to_string);
        let task = self.task.get("task").and_then(|task| task.get("bound-by"));
        let further = task.and_then(toml::Value::as_array).into_iter().flatten();
        let further = further.filter_map(toml::Value::as_str).map(str::to_owned);
        let mut all: Vec<String> = Vec::new();
        for role in above.chain(further) {
            if role != own.as_str() && !all.contains(&role) {
                all.push(role);
            }
        }
        all
    }

    /// Returns an error if an agent could write what its caller may not.
    fn require_inside(&self, files: &[String]) -> Result<(), Failure> {
        for policy in self.policy.iter().flat_map(Policy::all) {
            let limited =
                policy.rules.iter().any(|rule| rule.gate == Some(GateModule::ScopeFilesWhitelist));
            if !limited {
                continue;
            }
            let outside = Area::new(files, &policy.whitelist);
            let anywhere = Area::new(&["**".to_owned()], &[]);
            let what = match outside.overlap(&anywhere) {
                Overlap::Never => continue,
                Overlap::At(path) => format!("you may not write {path:?}"),
                Overlap::Unclear(why) => {
                    format!("it cannot be proven that you may write there ({why})")
                }
            };
            let may = policy.whitelist.join(", ");
            return Err(Failure::refused(format!(
                "{what}, so no agent of yours may; name files among {may}"
            )));
        }
        Ok(())
    }

    /// The files that the caller itself was given.
    pub(super) fn context(&self) -> Option<&str> {
        self.task.get("body")?.get("text")?.as_str()
    }

    /// What an agent of it may load: what both its template and the caller's own task let it.
    pub(super) fn context_limits(
        &self,
        template: Option<&Template>,
    ) -> Result<Option<ContextLimits>, Failure> {
        let own = self.task.get("agent").and_then(|agent| agent.get("context"));
        let own: Option<ContextLimits> =
            own.map(|own| own.clone().try_into()).transpose().map_err(|error| {
                Failure::refused(format!("the caller's own limits cannot be read: {error}"))
            })?;
        Ok(match (template.and_then(|template| template.context), own) {
            (Some(limits), Some(own)) => Some(limits.within(own)),
            (limits, own) => limits.or(own),
        })
    }

    /// Its task: what the caller's says of scope and checks, and what the template says of the agent.
    pub(super) fn task_text(
        &self,
        role: &RoleName,
        parameters: &AgentParameters,
        template: Option<&Template>,
        request: &SpawnAgent,
        (delegate, (servers, files)): (&Delegate, (&[String], Option<&[String]>)),
    ) -> Result<String, Failure> {
        let mut all = Table::new();
        for field in ["scope", "verification", "output", "workspace", "parameters"] {
            if let Some(table) = self.task.get(field) {
                all.insert(field.to_owned(), table.clone());
            }
        }
        let mut task = Table::from_iter([("role".to_owned(), role.to_string().into())]);
        task.insert("bound-by".to_owned(), self.bound_by(role).into());
        if let Some(parent) = &delegate.parent {
            task.insert("parent-agent".to_owned(), parent.to_string().into());
        }
        // A caller that is not bound by its own commit cannot start agents that are.
        if self.kit_commit != self.base {
            task.insert("kit-commit".to_owned(), self.kit_commit.clone().into());
        }
        all.insert("task".to_owned(), task.into());
        if let Some(files) = files {
            self.require_inside(files)?;
            let scope = all.entry("scope").or_insert_with(|| Table::new().into());
            if let Some(scope) = scope.as_table_mut() {
                scope.insert("files-whitelist".to_owned(), files.to_vec().into());
            }
        }
        let mut agent = Table::new();
        let own = self.task.get("agent").and_then(toml::Value::as_table);
        let cli = template.and_then(|template| template.cli.clone()).or_else(|| self.cli.clone());
        let texts = [
            ("cli", cli),
            ("model", parameters.model.clone()),
            ("effort", parameters.effort.clone()),
            ("system-prompt", parameters.prompt.clone()),
        ];
        for (key, value) in texts {
            value.map(|value| agent.insert(key.to_owned(), value.into()));
        }
        for field in ["login", "idle-minutes"] {
            own.and_then(|own| own.get(field))
                .map(|value| agent.insert(field.to_owned(), value.clone()));
        }
        if let Some(limits) = self.context_limits(template)? {
            let limits = Table::try_from(limits).map_err(Failure::refused_by)?;
            agent.insert("context".to_owned(), limits.into());
        }
        if let Some(files) = &request.hand_over {
            agent.insert("hand-over".to_owned(), files.clone().into());
        }
        agent.insert("allowed-subagents".to_owned(), delegate.may_start.clone().into());
        if !servers.is_empty() {
            agent.insert("mcp-servers".to_owned(), servers.to_vec().into());
        }
        all.insert("agent".to_owned(), agent.into());
        all.insert("budget".to_owned(), budget(&delegate.reserved).into());
        let body = Table::from_iter([("text".to_owned(), delegate.message.clone().into())]);
        all.insert("body".to_owned(), body.into());
        toml::to_string(&all)
            .map_err(|error| Failure::refused(format!("its task cannot be written: {error}")))
    }
}

/// A run that was not delegated, as the root of a tree.
fn root(id: &AgentId, task: &Task, may_start: &[String]) -> Delegate {
    Delegate {
        run: id.clone(),
        parent: None,
        session: None,
        repository: None,
        depth: 0,
        deepest: None,
        agent_type: String::new(),
        agent_name: None,
        note: None,
        message: task.body.text.clone(),
        model: task.agent.model.as_ref().map(ToString::to_string),
        reasoning_effort: task.agent.effort.as_ref().map(ToString::to_string),
        may_start: may_start.to_vec(),
        reserved: Allowance::default(),
        given: Allowance::default(),
        pending: false,
        closed: false,
        created_at: system::now_ms(),
    }
}

fn budget(reserved: &Allowance) -> Table {
    let mut table = Table::new();
    let whole = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
    let mut set = |key: &str, value: Option<toml::Value>| {
        value.map(|value| table.insert(key.to_owned(), value));
    };
    set("tokens", reserved.tokens.map(|amount| whole(amount).into()));
    set("turns", reserved.turns.map(|amount| whole(amount).into()));
    set("tool-calls", reserved.tool_calls.map(|amount| whole(amount).into()));
    set("minutes", reserved.milliseconds.map(|amount| whole(amount.div_ceil(60_000)).into()));
    set("usd", reserved.micro_usd.map(|amount| (amount as f64 / 1e6).into()));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(task: &str) -> Caller {
        Caller {
            delegate: None,
            task: task.parse().unwrap(),
            policy: None,
            settings: Settings::default(),
            base: String::new(),
            kit_commit: String::new(),
            role: None,
            cli: None,
            model: Some("claude-opus-4-8".to_owned()),
            effort: Some("high".to_owned()),
            may_start: Vec::new(),
            issue_levels: None,
        }
    }

    #[test]
    fn issue_limits_the_depth_of_sub_agents() {
        let depth = |issue_levels, max_depth| {
            let request = SpawnAgent { max_depth, ..SpawnAgent::default() };
            let caller = Caller { issue_levels, ..caller("") };
            caller.depth(&request, None).map(|(depth, deepest)| (depth.0, deepest.unwrap().0)).ok()
        };
        assert_eq!(depth(None, None), Some((1, 2)));
        assert_eq!(depth(Some(0), None), None);
        assert_eq!(depth(Some(1), None), Some((1, 1)));
        // The smallest limit counts: of the settings, and of the call.
        assert_eq!(depth(Some(9), None), Some((1, 2)));
        assert_eq!(depth(Some(2), Some(0)), Some((1, 1)));
    }

    #[test]
    fn template_loads_no_more_than_its_caller_may_load() {
        let limited =
            caller("[agent.context]\nwindow-share = 0.1\nfiles = 9\nskills = 0\nrules = 2\n");
        let limits = ContextLimits { window_share: 0.5, files: 3, skills: 4, rules: 1 };
        let template = Template { context: Some(limits), ..Template::plain() };
        let both = ContextLimits { window_share: 0.1, files: 3, skills: 0, rules: 1 };
        assert_eq!(limited.context_limits(Some(&template)).unwrap(), Some(both));
        let task = ContextLimits { window_share: 0.1, files: 9, skills: 0, rules: 2 };
        assert_eq!(limited.context_limits(None).unwrap(), Some(task));
        assert_eq!(caller("").context_limits(Some(&template)).unwrap(), Some(limits));
        assert_eq!(caller("").context_limits(None).unwrap(), None);
    }

    #[test]
    fn only_the_same_program_inherits_model_and_effort() {
        let efforts = vec!["high".to_owned()];
        let known = [KnownModel { name: "*".to_owned(), efforts }];
        for (caller_cli, template_cli, inherits) in [
            (None, Some("claude-code"), true),
            (None, None, true),
            (None, Some("codex"), false),
            (Some("codex"), Some("codex"), true),
            (Some("codex"), Some("claude-code"), false),
        ] {
            let caller = Caller { cli: caller_cli.map(str::to_owned), ..caller("") };
            let (cli, default_prompt) = (template_cli.map(str::to_owned), "Do it.".to_owned());
            let template = Template { cli, default_prompt, ..Template::plain() };
            let assignment =
                caller.assignment(&SpawnAgent::default(), Some(&template), &known).unwrap();
            let expected = inherits.then_some(("claude-opus-4-8", "high"));
            let both = assignment.model.as_deref().zip(assignment.effort.as_deref());
            assert_eq!(both, expected, "{caller_cli:?} {template_cli:?}");
        }
    }
}
