//! The reasons of conditions: codes that programs may rely on.

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

            /// The code.
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
    /// The schema of the adapter is out of date.
    StaleCapabilitySchema,
    /// The tool profile fits.
    ToolProfileAdmitted,
    /// The tool profile does not exist.
    ToolProfileMissing,
    /// A command is allowed that policy denies.
    DeniedShellCommand,
    /// The files are more than policy allows.
    FilesystemScopeTooBroad,
    /// The network is used without a network policy.
    NetworkPolicyMissing,
    /// Every server answers.
    AllRequiredServersReady,
    /// A server does not answer, but may be started later.
    LazyServersAllowed,
    /// The server does not exist.
    McpServerMissing,
    /// A server did not list its tools.
    McpProbeFailed,
    /// A server did not answer in time.
    McpProbeTimedOut,
    /// The provider of a model is not known, or does not match the agent CLI or its login.
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
    /// The source of a skill is not a skill.
    InvalidSkillPackage,
    /// A skill needs a tool that is not admitted.
    RequiredToolNotAdmitted,
    /// A skill may not be used by this stack.
    SkillNotAllowed,
    /// Its prompt fragment breaks policy.
    UnsafePromptFragment,
    /// Every sub-agent fits.
    SubagentsAdmitted,
    /// The sub-agent does not exist.
    SubagentMissing,
    /// The adapter cannot delegate.
    SubagentDispatchUnsupported,
    /// The number of parallel runs exceeds the limit.
    ParallelismExceedsLimit,
    /// The output contract cannot be checked.
    OutputContractUnsupported,
    /// A sub-agent requests more than its stack has.
    SubagentEscalates,
    /// Every label is there and approved.
    ContextLabelsApproved,
    /// A label is not there.
    ContextLabelDeleted,
    /// A label changed after it was pinned.
    StaleContextLabel,
    /// A label contains text that could change how the prompt is built.
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
    /// The binding of the platform differs from the declared one.
    RoleBindingDrifted,
    /// Every secret is granted.
    SecretsGranted,
    /// No grant for a secret.
    MissingSecretGrant,
    /// A key is not in its secret.
    SecretKeyMissing,
    /// The grant does not apply to this repository, ref or trigger.
    SecretNotAllowedHere,
    /// A tool needs a secret that is not granted to it.
    ToolSecretNotGranted,
    /// Every config map is granted.
    ConfigGranted,
    /// No grant for a config map.
    MissingConfigGrant,
    /// A key is not in its config map.
    ConfigKeyMissing,
    /// The grant does not apply to this stack or repository.
    ConfigDenied,
    /// All requirements are met.
    AllConditionsMet,
    /// A requirement is not met.
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
    /// The repository does not exist.
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
    /// The stack does not exist.
    StackMissing,
    /// The stack is not admitted.
    StackNotAdmitted,
    /// The capabilities of the stack's adapter are not known yet.
    CapabilityResolutionUnknown,
    /// The template renders.
    TemplateRendered,
    /// The template uses a field that the payload does not have.
    MissingPayloadField,
    /// The template would use raw payload as instructions.
    UnsafeRawPayload,
    /// An attachment is too large.
    AttachmentTooLarge,
    /// The template cannot be read.
    InvalidTemplate,
    /// The keys are stable and bounded.
    DedupeKeysBounded,
    /// A key grows with the payload, or has no window.
    UnboundedDedupeKey,
    /// There is no run to coalesce with.
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
    /// The bundle is stored.
    BundleRecorded,
    /// The object that the run is about does not exist.
    SourceObjectMissing,
    /// An attachment could not be fetched.
    ArtifactFetchFailed,
    /// Secrets could not be redacted.
    RedactionFailed,
    /// The context is not assembled yet.
    ContextPending,
    /// The workspace is there.
    WorkspaceReady,
    /// The workspace is not there.
    WorkspaceMissing,
    /// A rebase cannot continue.
    RebaseBlocked,
    /// An untrusted ref needs an isolated workspace.
    IsolatedWorkspaceRequired,
    /// The workspace is not created yet.
    WorkspacePending,
    /// A pool has accepted the run.
    RunnerAccepted,
    /// No pool has room.
    NoCapacity,
    /// The pool does not permit the run.
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
    /// No approval is needed.
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
    /// An approval was denied.
    ApprovalRejected,
    /// An approval expired.
    ApprovalExpired,
    /// The artifacts are stored.
    ArtifactsRecorded,
    /// There are no artifacts yet.
    ArtifactsPending,
    /// The patch is not there.
    PatchMissing,
    /// The review cannot be read.
    ReviewArtifactInvalid,
    /// An artifact could not be stored.
    UploadFailed,

    // Identities, bindings, grants, requirements.
    /// The platform's object is as it should be.
    NativeObjectReady,
    /// The identity of the platform differs from the declared one.
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
    /// The binding does not exist on the platform yet.
    NativeBindingMissing,
    /// The binding grants no more than is permitted.
    NoEscalation,
    /// The binding grants more than is permitted.
    EscalationDenied,
    /// The binding grants more than is permitted without an approval.
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
    /// The subject is the declared one.
    GrantMatchesServiceAccount,
    /// The subject may not have it.
    SubjectNotAuthorized,
    /// The granted object has changed.
    GrantTargetDrifted,
    /// The values are older than the policy of rotation allows.
    RotationOverdue,
    /// The needs are known.
    RequirementsCollected,
    /// The owner of the requirements does not exist.
    OwnerMissing,
    /// Each need has its grant.
    EveryGrantResolved,
    /// A need has none.
    PermissionRequirementsBlocked,
    /// Something that it depends on could not be read.
    AccessReviewUnavailable,
    /// Not checked yet.
    NotYetObserved,

    // A repository.
    /// The forge answers.
    ForgeAnswers,
    /// The repository is not connected to a forge.
    NoForge,
    /// The forge responds slowly; only its repository waits.
    ForgeSlow,
    /// The forge cannot be reached, or returns errors.
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
    /// The account has the required permissions.
    ForgeAccountSuffices,
    /// The write access of other accounts can be read.
    ActorRightsReadable,
    /// The write access of other accounts cannot be read, so that their comments and labels are not trusted.
    ActorRightsUnreadable,
    /// The forge has every feature that is used.
    ForgeVersionCurrent,
    /// The forge is too old for some features.
    ForgeVersionOld,
    /// The forge does not report its version.
    ForgeVersionUnknown,
}
