//! Why a condition stands as it does: codes that programs may rely on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// A stable code; the message beside it is for people.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)*
        }

        impl Reason {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// As it is written.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// What it means, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)* }
            }
        }
    };
}

reasons! {
    // A stack.
    /// The adapter was probed.
    AdapterManifestLoaded,
    /// The adapter's program is not installed, or does not answer.
    AdapterUnavailable,
    /// No adapter has this name.
    UnsupportedBaseAgent,
    /// What is known of the adapter is older than it.
    StaleCapabilitySchema,
    /// The tool profile fits.
    ToolProfileAdmitted,
    /// There is no such tool profile.
    ToolProfileMissing,
    /// A command is allowed that policy denies.
    DeniedShellCommand,
    /// The files are more than policy allows.
    FilesystemScopeTooBroad,
    /// The network is used and nothing says how.
    NetworkPolicyMissing,
    /// Every server answers.
    AllRequiredServersReady,
    /// A server does not answer, but may be started later.
    LazyServersAllowed,
    /// There is no such server.
    McpServerMissing,
    /// A server did not answer when asked for its tools.
    McpProbeFailed,
    /// A server did not answer in time.
    McpProbeTimedOut,
    /// The provider of a model is not known, or does not go with the agent program or its login.
    UnsupportedProvider,
    /// A server answered, and does not have a tool that is needed.
    McpToolMissing,
    /// A server needs a secret that is not there.
    McpSecretMissing,
    /// A server may not be used here.
    McpServerNotAllowed,
    /// Every skill was found and fits.
    SkillsFound,
    /// A skill is not there.
    SkillMissing,
    /// The instructions of the repository that a stack names are not there.
    AgentsDocMissing,
    /// A skill's source is no skill.
    InvalidSkillPackage,
    /// A skill needs a tool that is not admitted.
    RequiredToolNotAdmitted,
    /// A skill may not be used by this stack.
    SkillNotAllowed,
    /// Its prompt fragment breaks policy.
    UnsafePromptFragment,
    /// Every sub-agent fits.
    SubagentsAdmitted,
    /// There is no such sub-agent.
    SubagentMissing,
    /// The adapter cannot delegate.
    SubagentDispatchUnsupported,
    /// More at once than the limit.
    ParallelismExceedsLimit,
    /// What it must return cannot be checked.
    OutputContractUnsupported,
    /// A sub-agent asks for more than its stack has.
    SubagentEscalates,
    /// Every label is there and approved.
    ContextLabelsApproved,
    /// A label is not there.
    ContextLabelDeleted,
    /// A label changed after it was pinned.
    StaleContextLabel,
    /// A label's text tries to do what text may not.
    UnsafeInjectionToken,
    /// A label waits for its reviewer.
    ContextLabelNotReviewed,
    /// Policy allows it.
    PolicyAdmitted,
    /// The repository is not trusted.
    UntrustedRepository,
    /// The approval mode is not allowed.
    ForbiddenApprovalMode,
    /// Privileged secrets would reach a fork.
    PrivilegedSecretsOnFork,
    /// The role of the kit is not there.
    KitRoleMissing,
    /// Work that is not trusted is bound by the default branch, and that cannot be found.
    TrustedKitMissing,
    /// The identity is ready.
    ServiceAccountReady,
    /// The identity is not there.
    ServiceAccountMissing,
    /// Tokens may not be projected.
    TokenProjectionForbidden,
    /// The pool may not use the identity.
    ServiceAccountCannotUseRunner,
    /// The roles are bound.
    RequiredRolesAllowed,
    /// A binding is not there.
    MissingRoleBinding,
    /// A role of the whole cluster is not allowed.
    ClusterRoleDenied,
    /// The platform's binding is not what was asked for.
    RoleBindingDrifted,
    /// Every secret is granted.
    SecretsGranted,
    /// Nothing grants a secret.
    MissingSecretGrant,
    /// A key is not in its secret.
    SecretKeyMissing,
    /// The grant does not hold for this repository, ref or trigger.
    SecretNotAllowedHere,
    /// A tool needs a secret that is not granted to it.
    ToolSecretNotGranted,
    /// Every config map is granted.
    ConfigGranted,
    /// Nothing grants a config map.
    MissingConfigGrant,
    /// A key is not in its config map.
    ConfigKeyMissing,
    /// The grant does not hold for this stack or repository.
    ConfigDenied,
    /// Everything that is required holds.
    AllConditionsMet,
    /// Something that is required does not hold.
    RequirementsUnmet,
    /// Something that is required is not known.
    RequirementsUnknown,

    // A trigger rule.
    /// The sources are set up.
    SourcesReady,
    /// A webhook has no secret to check its signature with.
    WebhookSecretMissing,
    /// No such workflow was ever seen.
    UnknownCiWorkflow,
    /// The schedule cannot be read.
    InvalidSchedule,
    /// There is no such repository.
    RepositoryMissing,
    /// The matcher compiles.
    MatcherCompiled,
    /// A JSONPath cannot be read.
    InvalidJsonPath,
    /// A label in the matcher is not known.
    UnknownLabelMatcher,
    /// A failure signature cannot be read.
    UnsupportedFailureSignature,
    /// A glob cannot be read.
    InvalidGlob,
    /// The stack is ready.
    StackReady,
    /// There is no such stack.
    StackMissing,
    /// The stack is not admitted.
    StackNotAdmitted,
    /// Nobody knows yet what the stack's adapter can do.
    CapabilityResolutionUnknown,
    /// The template renders.
    TemplateRendered,
    /// The template uses a field that the payload does not have.
    MissingPayloadField,
    /// The template would put raw payload where instructions stand.
    UnsafeRawPayload,
    /// What would be attached is too large.
    AttachmentTooLarge,
    /// The template cannot be read.
    InvalidTemplate,
    /// The keys are stable and bounded.
    DedupeKeysBounded,
    /// A key grows with the payload, or has no window.
    UnboundedDedupeKey,
    /// Coalescing has nothing to coalesce with.
    MissingCoalescingTarget,
    /// Two settings contradict each other.
    ConflictingConcurrencyPolicy,
    /// The rule is active.
    RuleActive,
    /// The rule is a draft.
    RuleDraft,
    /// The rule is paused.
    RulePaused,
    /// The rule is disabled.
    RuleDisabled,
    /// The rule is archived.
    RuleArchived,

    // A run.
    /// The bundle is kept.
    BundleRecorded,
    /// What the run is about is not there.
    SourceObjectMissing,
    /// An attachment could not be fetched.
    ArtifactFetchFailed,
    /// Secrets could not be taken out.
    RedactionFailed,
    /// The context is not assembled yet.
    ContextPending,
    /// The workspace is there.
    WorkspaceReady,
    /// The workspace is not there.
    WorkspaceMissing,
    /// A rebase cannot go on.
    RebaseBlocked,
    /// An untrusted ref needs a workspace of its own.
    IsolatedWorkspaceRequired,
    /// The workspace is not made yet.
    WorkspacePending,
    /// A pool has taken it.
    RunnerAccepted,
    /// No pool has room.
    NoCapacity,
    /// The pool may not take it.
    ForbiddenRunner,
    /// It waited for too long.
    QueueTimeout,
    /// It waits for its turn.
    Queued,
    /// The image of its pod cannot be pulled.
    ImagePullFailed,
    /// No node has room for its pod, or none fits.
    Unschedulable,
    /// A quota of the namespace of its pod is used up.
    QuotaExceeded,
    /// The API server refuses its pod.
    PodNotAdmitted,
    /// The container of its pod cannot be started.
    ContainerNotStarted,
    /// Its pod used more memory than its limit.
    OutOfMemory,
    /// The node of its pod needed what it used.
    Evicted,
    /// A pod with a higher priority needed the place of its pod.
    Preempted,
    /// The node of its pod is gone.
    NodeLost,
    /// Its pod took longer than its deadline.
    DeadlineExceeded,
    /// The sandbox inside of its pod is weaker than what it needs.
    SandboxInsufficient,
    /// The worker in its pod lost it, or the server did not accept that worker.
    WorkerLost,
    /// The worker in its pod ended with an error.
    WorkerFailed,
    /// The session is bound.
    SessionReady,
    /// The adapter's program cannot be started here.
    GatewayUnavailable,
    /// The session is not known yet.
    PendingHandoff,
    /// The program did not start.
    LaunchFailed,
    /// Nobody has to be asked.
    NoApprovalRequired,
    /// Everybody has answered with yes.
    ApprovalsGranted,
    /// A tool call waits for a person.
    WaitingForToolApproval,
    /// A write-back waits for a person.
    WaitingForWriteBackApproval,
    /// A secret waits for a person.
    WaitingForSecretApproval,
    /// A host waits for a person.
    WaitingForNetworkApproval,
    /// A release waits for a person.
    WaitingForReleaseApproval,
    /// A person said no.
    ApprovalRejected,
    /// Nobody answered in time.
    ApprovalExpired,
    /// What was made is kept.
    ArtifactsRecorded,
    /// Nothing is made yet.
    ArtifactsPending,
    /// The patch is not there.
    PatchMissing,
    /// The review cannot be read.
    ReviewArtifactInvalid,
    /// It could not be kept.
    UploadFailed,

    // Identities, bindings, grants, requirements.
    /// The platform's object is as it should be.
    NativeObjectReady,
    /// The platform's identity is not what was asked for.
    ServiceAccountDrifted,
    /// Tokens may be projected.
    TokenProjectionAllowed,
    /// The life of a token is out of bounds.
    TokenLifetimeOutOfBounds,
    /// The secrets for pulling images are there.
    ImagePullSecretsFound,
    /// One of them is not.
    ImagePullSecretMissing,
    /// The role is there.
    RoleFound,
    /// The role is not there.
    RoleMissing,
    /// Those who get it are there.
    SubjectsFound,
    /// One of them is not.
    SubjectMissing,
    /// The binding is as it should be.
    RoleBindingReady,
    /// The platform's binding differs.
    NativeBindingDrifted,
    /// There is no such binding on the platform yet.
    NativeBindingMissing,
    /// It gives no more than is allowed.
    NoEscalation,
    /// It gives more than is allowed.
    EscalationDenied,
    /// It gives more than is allowed without a person.
    EscalationNeedsApproval,
    /// The secret is there.
    SecretFound,
    /// The secret is not there.
    SecretMissing,
    /// The keys are there.
    KeysFound,
    /// The config map is there.
    ConfigMapFound,
    /// The config map is not there.
    ConfigMapMissing,
    /// The subject is the one that is asked for.
    GrantMatchesServiceAccount,
    /// The subject may not have it.
    SubjectNotAuthorized,
    /// What is granted has changed since.
    GrantTargetDrifted,
    /// The values are older than the policy of rotation allows.
    RotationOverdue,
    /// The needs are known.
    RequirementsCollected,
    /// What has the needs is not there.
    OwnerMissing,
    /// Each need has its grant.
    EveryGrantResolved,
    /// A need has none.
    PermissionRequirementsBlocked,
    /// What it depends on could not be looked at.
    AccessReviewUnavailable,
    /// Nobody has looked yet.
    NotYetObserved,

    // A repository.
    /// The forge answers.
    ForgeAnswers,
    /// The repository has no forge that is asked.
    NoForge,
    /// The forge takes long to answer; its repository waits, others do not.
    ForgeSlow,
    /// The forge cannot be reached, or answers with an error of its own.
    ForgeUnreachable,
    /// The forge refuses our requests.
    ForgeRefused,
    /// The credential for the forge is not set, or cannot be decrypted.
    CredentialMissing,
    /// The forge does not accept the token.
    ForgeTokenRejected,
    /// The forge has no such repository, or does not show it to the account.
    ForgeRepositoryNotFound,
    /// The repository has another name or address now.
    ForgeRepositoryRenamed,
    /// The token lacks a scope that is needed.
    ForgeScopeMissing,
    /// The account may not write to the repository.
    ForgeWriteAccessMissing,
    /// The account may do what is needed.
    ForgeAccountSuffices,
    /// The write access of other accounts can be read.
    ActorRightsReadable,
    /// The write access of other accounts cannot be read, so that their comments and labels are not trusted.
    ActorRightsUnreadable,
    /// The forge has every feature that is used.
    ForgeVersionCurrent,
    /// The forge is too old for some features.
    ForgeVersionOld,
    /// The forge does not tell its version.
    ForgeVersionUnknown,
}
