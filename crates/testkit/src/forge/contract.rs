//! What Gitea 1.27 says of its own API, as far as we use it: which requests there are, what they take,
//! and which fields of which kind an answer has. The stand-in holds its clients and itself to it, and
//! `gitea-contract` compares it with the description that a Gitea serves.

use std::collections::BTreeMap;

use serde_json::Value;

/// `METHOD path ?query body -> status answer`; paths begin behind `/repos/{owner}/{repo}`.
const REQUESTS: &str = "
GET / -> 200 Repository
GET /issues ?state,type,created_by,since,page,limit -> 200 [Issue]
POST /issues CreateIssueOption -> 201 Issue
GET /issues/comments ?since,page,limit -> 200 [Comment]
GET /issues/{index}/timeline ?since,page,limit -> 200 [TimelineComment]
GET /issues/{index} -> 200 Issue
GET /issues/{index}/comments ?since,before -> 200 [Comment]
POST /issues/{index}/comments CreateIssueCommentOption -> 201 Comment
PATCH /issues/{index} EditIssueOption -> 201 Issue
GET /issues/{index}/labels -> 200 [Label]
POST /issues/{index}/labels IssueLabelsOption -> 200 [Label]
DELETE /issues/{index}/labels/{id} -> 204 -
PUT /issues/{index}/lock LockIssueOption -> 204 -
DELETE /issues/{index}/lock -> 204 -
POST /labels CreateLabelOption -> 201 Label
GET /pulls ?base_branch,state,sort,page,limit -> 200 [PullRequest]
POST /pulls CreatePullRequestOption -> 201 PullRequest
GET /pulls/{index} -> 200 PullRequest
GET /pulls/{index}/files ?page,limit -> 200 [ChangedFile]
GET /pulls/{index}/reviews ?page,limit -> 200 [PullReview]
POST /pulls/{index}/reviews CreatePullReviewOptions -> 200 PullReview
GET /labels ?page,limit -> 200 [Label]
GET /branches ?page,limit -> 200 [Branch]
GET /branches/{branch} -> 200 Branch
GET /branch_protections -> 200 [BranchProtection]
GET /compare/{basehead} -> 200 Compare
GET /teams -> 200 [Team]
GET /assignees -> 200 [User]
GET /activities/feeds ?date,page,limit -> 200 [Activity]
GET /collaborators/{collaborator} -> 204 -
GET /collaborators/{collaborator}/permission -> 200 RepoCollaboratorPermission
GET /tags/{tag} -> 200 Tag
GET /commits/{ref}/statuses ?sort,state,page,limit -> 200 [CommitStatus]
POST /statuses/{sha} CreateStatusOption -> 201 CommitStatus
GET /releases ?page,limit -> 200 [Release]
POST /releases CreateReleaseOption -> 201 Release
PATCH /releases/{id} EditReleaseOption -> 200 Release
GET /actions/runs ?event,branch,status,actor,head_sha,page,limit -> 200 ActionWorkflowRunsResponse
GET /actions/runs/{run} -> 200 ActionWorkflowRun
GET /actions/runs/{run}/jobs ?status,page,limit -> 200 ActionWorkflowJobsResponse
POST /actions/runs/{run}/rerun -> 201 ActionWorkflowRun
POST /actions/runs/{run}/jobs/{job_id}/rerun -> 201 ActionWorkflowJob
GET /actions/jobs/{job_id} -> 200 ActionWorkflowJob
GET /actions/jobs/{job_id}/logs -> 200 -
";

/// `Name: field=kind …`; a kind is text, number, truth, time, map, any, a name, or one of these in brackets.
const SHAPES: &str = "
User: id=number login=text full_name=text email=text
Repository: id=number name=text full_name=text owner=User private=truth fork=truth html_url=text clone_url=text default_branch=text permissions=Permission
Permission: admin=truth push=truth pull=truth
Team: id=number name=text permission=text units_map=map
Compare: total_commits=number
Activity: id=number op_type=text act_user=User ref_name=text content=text created=time
PullRequestMeta: merged=truth
TimelineComment: id=number type=text body=text user=User label=Label created_at=time updated_at=time
Label: id=number name=text color=text
Issue: id=number number=number title=text body=text state=text user=User labels=[Label] assignee=User is_locked=truth content_version=number html_url=text created_at=time updated_at=time pull_request=PullRequestMeta
Comment: id=number body=text user=User html_url=text issue_url=text pull_request_url=text created_at=time updated_at=time
PRBranchInfo: label=text ref=text sha=text repo_id=number repo=Repository
PullRequest: id=number number=number title=text body=text state=text user=User labels=[Label] html_url=text head=PRBranchInfo base=PRBranchInfo merged=truth draft=truth created_at=time updated_at=time
ChangedFile: filename=text status=text additions=number deletions=number changes=number
PullReview: id=number body=text state=text commit_id=text user=User html_url=text comments_count=number submitted_at=time dismissed=truth
RepoCollaboratorPermission: permission=text role_name=text user=User
PayloadCommit: id=text message=text url=text
BranchProtection: rule_name=text enable_push=truth enable_push_whitelist=truth push_whitelist_usernames=[text] push_whitelist_teams=[text]
Branch: name=text commit=PayloadCommit protected=truth user_can_push=truth
CommitMeta: sha=text url=text
Tag: name=text id=text commit=CommitMeta message=text
CommitStatus: id=number status=text context=text description=text target_url=text creator=User created_at=time updated_at=time
Release: id=number tag_name=text name=text body=text draft=truth prerelease=truth html_url=text author=User created_at=time published_at=time
PullRequestMinimalHeadRepo: id=number name=text url=text
PullRequestMinimalHead: ref=text sha=text repo=PullRequestMinimalHeadRepo
PullRequestMinimal: id=number number=number url=text head=PullRequestMinimalHead base=PullRequestMinimalHead
ActionWorkflowStep: number=number name=text status=text conclusion=text started_at=time completed_at=time
ActionWorkflowRun: id=number run_number=number run_attempt=number event=text display_title=text path=text status=text conclusion=text head_branch=text head_sha=text html_url=text actor=User trigger_actor=User repository=Repository head_repository=Repository pull_requests=[PullRequestMinimal] started_at=time completed_at=time
ActionWorkflowRunsResponse: total_count=number workflow_runs=[ActionWorkflowRun]
ActionWorkflowJob: id=number run_id=number run_attempt=number name=text status=text conclusion=text head_branch=text head_sha=text html_url=text labels=[text] steps=[ActionWorkflowStep] created_at=time started_at=time completed_at=time
ActionWorkflowJobsResponse: total_count=number jobs=[ActionWorkflowJob]
CreateIssueOption: title=text body=text
CreateIssueCommentOption: body=text
EditIssueOption: body=text content_version=number assignees=[text] milestone=number state=text
IssueLabelsOption: labels=[any]
LockIssueOption: lock_reason=text
CreateLabelOption: name=text color=text
CreatePullRequestOption: title=text body=text head=text base=text
CreatePullReviewComment: path=text body=text new_position=number old_position=number
CreatePullReviewOptions: body=text event=text commit_id=text comments=[CreatePullReviewComment]
CreateStatusOption: state=text context=text description=text target_url=text
CreateReleaseOption: tag_name=text name=text body=text
EditReleaseOption: name=text body=text
";

/// A request in Gitea's API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Such as `POST`.
    pub method: String,
    /// Behind the repository, with its parameters in braces.
    pub path: String,
    /// The parameters of the query.
    pub query: Vec<String>,
    /// The name of the body's shape, if it has one.
    pub body: Option<String>,
    /// The status of a good answer.
    pub status: u16,
    /// The name of its shape, in brackets if it is a list; none if it is not JSON.
    pub answer: Option<String>,
}

/// Every request.
pub fn requests() -> Vec<Known> {
    let lines = REQUESTS.lines().filter(|line| !line.is_empty());
    lines.map(|line| known(line).unwrap_or_else(|| panic!("the contract has `{line}`"))).collect()
}

fn known(line: &str) -> Option<Known> {
    let (asked, answered) = line.split_once(" -> ")?;
    let mut words = asked.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut query, mut body) = (Vec::new(), None);
    for word in words {
        match word.strip_prefix('?') {
            Some(names) => query = names.split(',').map(str::to_owned).collect(),
            None => body = Some(word.to_owned()),
        }
    }
    let (status, answer) = answered.split_once(' ')?;
    let answer = (answer != "-").then(|| answer.to_owned());
    Some(Known { method, path, query, body, status: status.parse().ok()?, answer })
}

/// Every shape: its fields and their kinds.
pub fn shapes() -> BTreeMap<&'static str, BTreeMap<&'static str, &'static str>> {
    let lines = SHAPES.lines().filter_map(|line| line.split_once(": "));
    let fields = |text: &'static str| text.split(' ').filter_map(|field| field.split_once('='));
    lines.map(|(name, text)| (name, fields(text).collect())).collect()
}

/// Finds the definition of a request; a parameter in the last place matches the rest of the path.
pub fn find(method: &str, path: &[&str]) -> Option<Known> {
    requests().into_iter().find(|known| {
        let parts: Vec<&str> = known.path.split('/').filter(|part| !part.is_empty()).collect();
        let open = |part: &str| matches!(part, "{branch}" | "{tag}");
        let long = parts.last().is_some_and(|part| open(part)) && path.len() > parts.len();
        known.method == method
            && (parts.len() == path.len() || long)
            && parts.iter().zip(path).all(|(part, is)| part.starts_with('{') || part == is)
    })
}

/// The violations of a shape by a value.
pub fn faults(shape: &str, value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    check(shape, value, shape, &mut faults);
    faults
}

fn check(kind: &str, value: &Value, place: &str, faults: &mut Vec<String>) {
    let inner = kind.strip_prefix('[').and_then(|kind| kind.strip_suffix(']'));
    if let Some(inner) = inner {
        match value.as_array() {
            Some(items) => items.iter().for_each(|item| check(inner, item, place, faults)),
            // Go writes an empty list as null in some answers.
            None if value.is_null() => {}
            None => faults.push(format!("{place} is no list: {value}")),
        }
        return;
    }
    let fits = match kind {
        "text" => value.is_string(),
        "number" => value.is_i64() || value.is_u64(),
        "truth" => value.is_boolean(),
        "any" => true,
        "map" => value.is_object(),
        "time" => value.as_str().is_some_and(|text| text.parse::<jiff::Timestamp>().is_ok()),
        name => return check_fields(name, value, place, faults),
    };
    if !fits {
        faults.push(format!("{place} is not {kind}: {value}"));
    }
}

fn check_fields(name: &str, value: &Value, place: &str, faults: &mut Vec<String>) {
    let shapes = shapes();
    let (Some(shape), Some(fields)) = (shapes.get(name), value.as_object()) else {
        // Missing values are null in Gitea's responses.
        if !value.is_null() {
            faults.push(format!("{place} is no {name}: {value}"));
        }
        return;
    };
    for (field, value) in fields {
        let place = format!("{place}.{field}");
        match shape.get(field.as_str()) {
            Some(_) if value.is_null() => {}
            Some(kind) => check(kind, value, &place, faults),
            None => faults.push(format!("{place} is not in the contract")),
        }
    }
}

/// Compares all this with the description (`swagger.v1.json`) that a Gitea serves.
pub fn compare(description: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for known in requests() {
        compare_request(description, &known, &mut faults);
    }
    for (name, fields) in shapes() {
        let properties = &description["definitions"][name]["properties"];
        for (field, kind) in fields {
            let said = said_kind(&properties[field]);
            if said != kind {
                faults.push(format!("{name}.{field} is {said} there, {kind} here"));
            }
        }
    }
    faults
}

fn compare_request(description: &Value, known: &Known, faults: &mut Vec<String>) {
    let path = format!("/repos/{{owner}}/{{repo}}{}", known.path.trim_end_matches('/'));
    let there = &description["paths"][&path][known.method.to_lowercase()];
    let what = format!("{} {path}", known.method);
    if !there.is_object() {
        return faults.push(format!("{what} is not there"));
    }
    let parameters = there["parameters"].as_array().cloned().unwrap_or_default();
    for name in &known.query {
        let is_it = |given: &Value| given["name"] == name.as_str() && given["in"] == "query";
        if !parameters.iter().any(is_it) {
            faults.push(format!("{what} has no {name} in its query"));
        }
    }
    let body = parameters.iter().find(|given| given["in"] == "body");
    let body = body.map(|body| said_kind(&body["schema"]));
    if body != known.body {
        faults.push(format!("{what} takes {body:?} there, {:?} here", known.body));
    }
    let answer = &there["responses"][known.status.to_string()];
    let named = answer["$ref"].as_str().and_then(|name| name.rsplit('/').next());
    let answer = named.map_or(answer, |name| &description["responses"][name]);
    let said = answer.get("schema").map(said_kind);
    if answer.is_null() || said != known.answer {
        faults.push(format!("{what} answers {said:?} there, {:?} here", known.answer));
    }
}

/// The kind of a field in the words of this file.
fn said_kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str() {
        return name.rsplit('/').next().unwrap_or_default().to_owned();
    }
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("string"), Some("date-time")) => "time".to_owned(),
        (Some("string"), _) => "text".to_owned(),
        (Some("integer"), _) => "number".to_owned(),
        (Some("boolean"), _) => "truth".to_owned(),
        (Some("object"), _) => "map".to_owned(),
        (Some("array"), _) => format!("[{}]", said_kind(&schema["items"])),
        (None, _) if schema.as_object().is_some_and(serde_json::Map::is_empty) => "any".to_owned(),
        (other, _) => format!("{other:?}"),
    }
}
