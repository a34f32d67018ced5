//! The state of an issue as a person or a program sees it.

use bailiwick_engine::context::Context;
use bailiwick_engine::counted::counted;
use bailiwick_engine::{issues, seen_issues};
use bailiwick_memory::{
    ClaimTable, EventBudget, IgnoredReason, Inconsistency, IssueMemory as _, Loaded, TableClaim,
};
use bailiwick_model::IssueName;
use bailiwick_resources::Moment;
use bailiwick_source_control::issues::AnyIssues;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{self, Format};

pub(super) fn show(context: &Context, issue: &IssueName, format: Format) -> Result<(), Failure> {
    let IssueAndClaims { loaded, table, problem } = IssueAndClaims::load(context, issue)?;
    let now = loaded.read.now;
    // Where the claims are comments of this issue, it shows those of all issues.
    let is_listed = |claim: &&TableClaim| {
        now < claim.leased_until
            && (claim.issue == Some(issue.number)
                || loaded.state.claims.table.claims.contains(claim))
    };
    let claims: Vec<&TableClaim> = table.claims.iter().filter(is_listed).collect();
    if format == Format::Json {
        let mut summary = summary(&loaded);
        if let Some(fields) = summary.as_object_mut() {
            fields.insert("claims".to_owned(), json!(claims));
            fields.insert("problems".to_owned(), json!(problems(&loaded, problem)));
        }
        return output::json(&summary);
    }
    let read = &loaded.read.issue;
    output::line(format_args!("issue     {issue}  {}", read.title));
    output::line(format_args!("state     {}", state_word(&loaded)));
    if let Some(checkpoint) = &loaded.state.checkpoint {
        let budget = checkpoint.budget;
        output::line(format_args!("phase     {}", checkpoint.phase));
        output::line(format_args!(
            "budget    {} of {} tokens used, {} left",
            budget.consumed, budget.total, budget.remaining
        ));
        for entry in &checkpoint.history_tail {
            output::line(format_args!(
                "done      {}  {}: {}",
                entry.timestamp, entry.agent, entry.action
            ));
        }
        output::line(format_args!("next      {}", checkpoint.next_agent.as_deref().unwrap_or("-")));
    }
    if !read.labels.is_empty() {
        output::line(format_args!("labels    {}", read.labels.join(", ")));
    }
    for claim in claims {
        let resources: Vec<String> = claim.resources.iter().map(ToString::to_string).collect();
        output::line(format_args!(
            "claim     {} has {} until {}",
            claim.agent,
            resources.join(", "),
            claim.leased_until
        ));
    }
    for problem in problems(&loaded, problem) {
        output::line(format_args!("problem   {problem}"));
    }
    output::line(format_args!("digest    {}", loaded.state.digest()));
    Ok(())
}

pub(super) fn log(context: &Context, issue: &IssueName, format: Format) -> Result<(), Failure> {
    let loaded = load(context, issue)?;
    let (labels, states) = issues::open_named(context, issue)?.with(async |protocol| {
        let labels = protocol.memory.label_events(issue.number).await?;
        Ok((labels, protocol.memory.state_events(issue.number, None).await?))
    })?;
    let mut entries: Vec<(Moment, String, String, Value)> = Vec::new();
    let counted = loaded.state.events.iter();
    let comments: Vec<u64> = counted.clone().map(|recorded| recorded.comment).collect();
    for recorded in counted {
        let tokens = match recorded.event.budget {
            Some(EventBudget { total: Some(total), .. }) => format!("budget {total} tokens"),
            budget => format!("{} tokens", budget.map_or(0, |budget| budget.consumed)),
        };
        let text = format!(
            "{} by {}: {} ({tokens})",
            recorded.event.kind.as_str(),
            recorded.event.agent,
            recorded.action
        );
        entries.push((recorded.at, recorded.author.clone(), text, json!(recorded.event)));
    }
    for comment in loaded.comments.iter().filter(|comment| !comments.contains(&comment.id)) {
        let text = format!("comment: {}", output::first_line(&comment.body));
        let detail = json!({ "type": "comment", "body": comment.body });
        entries.push((comment.created_at, comment.author.clone(), text, detail));
    }
    for change in labels {
        let sign = if change.is_added { '+' } else { '-' };
        let text = format!("label {sign}{}", change.label);
        entries.push((
            change.at,
            change.by.clone(),
            text,
            json!({ "type": "label", "change": change }),
        ));
    }
    for change in states {
        let text = if change.is_open { "opened again" } else { "closed" };
        let detail = json!({ "type": "state", "change": change });
        entries.push((change.at, change.by.clone(), text.to_owned(), detail));
    }
    entries.sort_by_key(|(at, ..)| *at);
    if format == Format::Json {
        let shown: Vec<Value> = entries
            .into_iter()
            .map(|(at, author, text, detail)| json!({ "at": at, "author": author, "text": text, "detail": detail }))
            .collect();
        return output::json(&shown);
    }
    for (at, author, text, _) in entries {
        output::line(format_args!("{at}  {author}  {text}"));
    }
    Ok(())
}

pub(super) fn verify(context: &Context, issue: &IssueName, format: Format) -> Result<(), Failure> {
    let IssueAndClaims { loaded, table, problem } = IssueAndClaims::load(context, issue)?;
    let mut problems = problems(&loaded, problem);
    problems.extend(table.problems(loaded.read.now).iter().map(ToString::to_string));
    problems.extend(ignored_commits(context, issue)?);
    problems.extend(missing_commit(context, issue)?);
    if format == Format::Json {
        output::json(&json!({
            "issue": issue, "consistent": problems.is_empty(), "problems": problems,
            "events": loaded.state.events.len(), "digest": loaded.state.digest(),
        }))?;
    } else {
        for problem in &problems {
            output::line(format_args!("problem   {problem}"));
        }
        output::line(format_args!(
            "checked   {} of {issue}, {}, digest {}",
            counted(loaded.state.events.len(), "event"),
            counted(problems.len(), "problem"),
            loaded.state.digest()
        ));
    }
    if problems.is_empty() { Ok(()) } else { Err(Failure::AlreadyReported(2)) }
}

/// Commits of an issue in git that were not signed with our key, or are no operation.
fn ignored_commits(context: &Context, issue: &IssueName) -> Result<Vec<String>, Failure> {
    let ignored =
        issues::open_named(context, issue)?.with(async |protocol| match protocol.memory {
            AnyIssues::Local(local) => local.ignored(issue.number),
            AnyIssues::Forge(_) => Ok(Vec::new()),
        })?;
    let sentence =
        |commit| format!("commit {commit} does not count: it is not signed with our key");
    Ok(ignored.into_iter().map(sentence).collect())
}

/// A commit that this machine has seen, if the reference of an issue in git was moved back behind it.
fn missing_commit(context: &Context, issue: &IssueName) -> Result<Option<String>, Failure> {
    if issue.repository.is_some() {
        return Ok(None);
    }
    let missing = seen_issues::missing(context, &issues::local(context)?, issue.number)?;
    Ok(missing.map(|commit| {
        format!(
            "commit {commit}, which this machine has seen, is missing: the issue was moved back; restore it: git \
             update-ref refs/bailiwick/issues/{} {commit}",
            issue.number
        )
    }))
}

fn load(context: &Context, issue: &IssueName) -> Result<Loaded, Failure> {
    let opened = issues::open_named(context, issue)?;
    Ok(opened.with(async |protocol| protocol.load(issue.number).await)?)
}

/// An issue, and the claims of its repository.
struct IssueAndClaims {
    loaded: Loaded,
    table: ClaimTable,
    /// Why there is no table.
    problem: Option<String>,
}

impl IssueAndClaims {
    /// The claims may need other rights than the issue, and others can break their reference.
    fn load(context: &Context, issue: &IssueName) -> Result<Self, Failure> {
        let opened = issues::open_named(context, issue)?;
        Ok(opened.with(async |protocol| {
            let loaded = protocol.load(issue.number).await?;
            let (table, problem) = match protocol.claim_table().await {
                Ok(table) => (table, None),
                Err(error) => {
                    let why = format!("the claims of the repository cannot be read: {error}");
                    (ClaimTable::default(), Some(why))
                }
            };
            Ok(Self { loaded, table, problem })
        })?)
    }
}

/// An issue as JSON.
pub(super) fn summary(loaded: &Loaded) -> Value {
    let read = &loaded.read.issue;
    json!({
        "number": read.number,
        "repository": read.repository,
        "title": read.title,
        "open": read.is_open,
        "locked": read.is_locked,
        "labels": read.labels,
        "assignee": read.assignee,
        "checkpoint": loaded.state.checkpoint,
        "problems": problems(loaded, None),
        "digest": loaded.state.digest(),
    })
}

/// An issue as a row of a table.
pub(super) fn row(loaded: &Loaded) -> Vec<String> {
    let checkpoint = loaded.state.checkpoint.as_ref();
    vec![
        format!("#{}", loaded.read.issue.number),
        state_word(loaded).to_owned(),
        checkpoint.map_or("-", |checkpoint| checkpoint.phase.as_str()).to_owned(),
        checkpoint.map_or_else(|| "-".to_owned(), |one| one.budget.remaining.to_string()),
        loaded.read.issue.title.clone(),
    ]
}

fn state_word(loaded: &Loaded) -> &'static str {
    match (loaded.read.issue.is_open, loaded.read.issue.is_locked) {
        (_, true) => "locked",
        (true, false) => "open",
        (false, false) => "closed",
    }
}

/// Everything that does not fit together, a sentence each; `claims` is what is wrong with the claims.
fn problems(loaded: &Loaded, claims: Option<String>) -> Vec<String> {
    let inconsistencies = loaded.state.inconsistencies.iter().map(|one| match one {
        Inconsistency::Body(error) => error.to_string(),
        Inconsistency::Differs { field, body, recorded } => {
            format!("the checkpoint's {field} is {body}; the comments lead to {recorded}")
        }
        Inconsistency::UnknownRelease(release) => {
            format!(
                "comment {} releases claim {}, which is not live",
                release.comment, release.claim
            )
        }
        Inconsistency::Budget { comment, said, recorded } => {
            format!("comment {comment} found {said} tokens left; {recorded} were")
        }
    });
    let ignored = loaded.state.ignored.iter().filter_map(|one| {
        let why = match &one.reason {
            IgnoredReason::ForeignAuthor(agent) => {
                format!("its author may not speak for `{agent}`")
            }
            IgnoredReason::Edited => "it was edited".to_owned(),
            IgnoredReason::NotSigned => "it is not signed with our key".to_owned(),
            IgnoredReason::OtherIssue(number) => format!("it is about issue {number}"),
            // A repeated exit is not a problem.
            IgnoredReason::Repeated(_) => return None,
            IgnoredReason::Footer(error) => error.to_string(),
        };
        Some(format!(
            "the event of comment {} by {} does not count: {why}",
            one.comment, one.author
        ))
    });
    inconsistencies.chain(ignored).chain(claims).collect()
}
