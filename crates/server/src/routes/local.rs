//! Routes for the agents of this machine, and for workers on others.

use bailiwick_fleet::ports::LocalVerb;

use super::{APPROVER, Access, Call, LocalPart, Method, Row, VIEWER, WorkerCall};

/// Routes for the agents of this machine; their full paths.
pub(super) const LOCAL: &[Row] = {
    use Method::{Delete, Get, Post};
    const RUNS: &str = "/api/v1alpha1/local/runs";
    const ANSWERS: &str = "/api/v1alpha1/answers";
    const FILTERS: &str = "/api/v1alpha1/saved-filters";
    const FILTER: &str = "/api/v1alpha1/saved-filters/{name}";
    const ALL_RUNS: &str = "/api/v1alpha1/all-runs";
    const STAGES: &str = "/api/v1alpha1/all-runs/stages";
    const RUN: &str = "/api/v1alpha1/local/runs/{name}";
    const EVENTS: &str = "/api/v1alpha1/local/runs/{name}/events";
    const DIFF: &str = "/api/v1alpha1/local/runs/{name}/diff";
    const CHECKS: &str = "/api/v1alpha1/local/runs/{name}/checks";
    const CONTEXT: &str = "/api/v1alpha1/local/runs/{name}/context";
    const POLICY: &str = "/api/v1alpha1/local/runs/{name}/policy";
    const EXPLAIN: &str = "/api/v1alpha1/local/runs/{name}/explain";
    const COST: &str = "/api/v1alpha1/local/runs/{name}/cost";
    const LINEAGE: &str = "/api/v1alpha1/local/runs/{name}/lineage";
    const ARTIFACTS: &str = "/api/v1alpha1/local/runs/{name}/artifacts";
    const ARTIFACT: &str = "/api/v1alpha1/local/runs/{name}/artifacts/{artifact}";
    const QUESTIONS: &str = "/api/v1alpha1/local/questions";
    const CLAIMS: &str = "/api/v1alpha1/local/claims";
    const NUMBERS: &str = "/api/v1alpha1/numbers";
    const ANSWER: &str = "/api/v1alpha1/local/runs/{name}/questions/{question}/answer";
    const STOP: &str = "/api/v1alpha1/local/runs/{name}/stop";
    const MESSAGE: &str = "/api/v1alpha1/local/runs/{name}/message";
    const RESUME: &str = "/api/v1alpha1/local/runs/{name}/resume";
    const VERIFY: &str = "/api/v1alpha1/local/runs/{name}/verify";
    const LAND: &str = "/api/v1alpha1/local/runs/{name}/land";
    const JOBS: &str = "/api/v1alpha1/local/jobs";
    const JOB: &str = "/api/v1alpha1/local/jobs/{name}";
    const REJECT: &str = "/api/v1alpha1/local/runs/{name}/reject";
    const RESPAWN: &str = "/api/v1alpha1/local/runs/{name}/respawn";
    const ROLLBACK: &str = "/api/v1alpha1/local/runs/{name}/rollback";
    const REMOVE: &str = "/api/v1alpha1/local/runs/{name}/remove";
    const fn part(path: &'static str, part: LocalPart, summary: &'static str) -> Row {
        (Get, path, Call::LocalPart(part), VIEWER, None, summary)
    }
    const fn verb(path: &'static str, verb: LocalVerb, summary: &'static str) -> Row {
        (Post, path, Call::LocalVerb(verb), Access::Scope(verb.scope()), None, summary)
    }
    &[
        (Get, ALL_RUNS, Call::RunList, VIEWER, None, "List agents and runs of the control plane"),
        (Get, STAGES, Call::StageCounts, VIEWER, None, "Count agents and runs by stage"),
        (Get, ANSWERS, Call::RecentAnswers, VIEWER, None, "List who answered what lately"),
        (Get, FILTERS, Call::SavedFilters, VIEWER, None, "List your saved filters of runs"),
        (Post, FILTERS, Call::SaveFilter, VIEWER, None, "Save a filter of runs for yourself"),
        (Delete, FILTER, Call::DeleteFilter, VIEWER, None, "Delete one of your saved filters"),
        (Get, RUNS, Call::LocalRuns, VIEWER, None, "List the agents of this machine"),
        (Get, RUN, Call::LocalRun, VIEWER, None, "Read an agent of this machine"),
        (Get, EVENTS, Call::LocalRunEvents, VIEWER, None, "Read or search the events of an agent"),
        (Get, DIFF, Call::LocalRunDiff, VIEWER, None, "Read what an agent changed"),
        (Get, CHECKS, Call::LocalRunChecks, VIEWER, None, "Read the checks of an agent's work"),
        part(CONTEXT, LocalPart::Context, "Read what an agent was told"),
        part(POLICY, LocalPart::Policy, "Read the limits of an agent"),
        (
            Get,
            EXPLAIN,
            Call::LocalExplain,
            VIEWER,
            None,
            "Explain what the limits say to a command",
        ),
        part(COST, LocalPart::Cost, "Read what an agent has used"),
        part(LINEAGE, LocalPart::Lineage, "Read where an agent comes from"),
        part(ARTIFACTS, LocalPart::Artifacts, "List the files of an agent"),
        (Get, ARTIFACT, Call::LocalArtifact, VIEWER, None, "Read a file of an agent"),
        (Get, QUESTIONS, Call::LocalQuestions, VIEWER, None, "List questions that wait"),
        (Get, CLAIMS, Call::LocalClaims, VIEWER, None, "List the paths that agents have claimed"),
        (Get, NUMBERS, Call::Numbers, VIEWER, None, "Count runs, denials, cost and durations"),
        (Post, ANSWER, Call::LocalAnswer, APPROVER, None, "Answer a question of an agent"),
        verb(STOP, LocalVerb::Stop, "Stop an agent; its work is kept"),
        verb(MESSAGE, LocalVerb::Message, "Send a message to an agent"),
        verb(RESUME, LocalVerb::Resume, "Continue an agent that has ended"),
        verb(VERIFY, LocalVerb::Verify, "Check an agent's work, as a job"),
        verb(LAND, LocalVerb::Land, "Verify and land an agent's work, as a job"),
        (Get, JOBS, Call::LocalJobs, VIEWER, None, "List the jobs of this server"),
        (Get, JOB, Call::LocalJob, VIEWER, None, "Read a job with its progress and result"),
        verb(REJECT, LocalVerb::Reject, "Reject an agent's work"),
        verb(RESPAWN, LocalVerb::Respawn, "Create and start a new agent for the same task"),
        verb(ROLLBACK, LocalVerb::Rollback, "Revert what an agent landed, as a job"),
        verb(REMOVE, LocalVerb::Remove, "Remove an agent's worktree and private files"),
    ]
};

/// Routes for workers; their full paths.
pub(super) const WORKERS: &[Row] = {
    use Method::{Get, Post, Put};
    const REPOSITORY: &str = "/workers/v1/attempts/{name}/repository";
    const REPORT: &str = "/workers/v1/attempts/{name}/report";
    const WORK: &str = "/workers/v1/attempts/{name}/work";
    const FINISH: &str = "/workers/v1/attempts/{name}/finish";
    const fn row(method: Method, path: &'static str, call: WorkerCall, about: &'static str) -> Row {
        (method, path, Call::Worker(call), Access::Worker, None, about)
    }
    &[
        row(Post, "/workers/v1/join", WorkerCall::Join, "Join a pool with a token for one use"),
        row(Post, "/workers/v1/renew", WorkerCall::Renew, "Renew the credential of a worker"),
        row(Get, "/workers/v1/poll", WorkerCall::Poll, "Wait for an attempt and claim it"),
        row(Post, REPOSITORY, WorkerCall::Repository, "Read the commits of a claimed attempt"),
        row(Post, REPORT, WorkerCall::Report, "Report progress and keep the lease"),
        row(Put, WORK, WorkerCall::Work, "Send the work of an attempt as a git bundle"),
        row(Post, FINISH, WorkerCall::Finish, "Report the end of an attempt"),
    ]
};
