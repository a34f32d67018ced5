//! What a person can set.

/// `values.yaml` of the chart.
pub(super) const VALUES_YAML: &str = "\
# Container image with bailiwick, git and the agent programs. The operators need bailiwick-kubernetes in it, too.
image: \"\"
# Host name that people and forges use.
host: \"\"
# Address of the server, as the operator and the pods of attempts dial it. The default is https:// and the host name.
server: \"\"
# Secret in the namespace of the release, and its key with the address of the database, as postgres://…
database:
  secret: database
  key: url
# Let agents and checks run in the pod of the server. Its namespace must enforce the Pod Security Standard `privileged`.
agents: false
# Size of the volume for repositories and runs.
storage: 20Gi
ingress:
  # Make an Ingress for the host name.
  enabled: false
  className: nginx
  # Namespace of the ingress controller, from which requests come.
  namespace: ingress-nginx
  # Secret with the certificate of the host name.
  tlsSecret: bailiwick-tls
networkPolicy:
  enabled: true
metrics:
  # Annotate the Service, so that Prometheus finds /metrics. Prometheus needs a token with the scope viewer.
  annotations: false
operator:
  # Keep a namespace in step with the server. Install the kinds first: bailiwick-kubernetes crds | kubectl apply -f -
  enabled: false
  # The namespace. It must exist.
  namespace: agents
  # Secret in this namespace, and its key with a token of the server with the scope admin.
  token:
    secret: operator
    key: token
  # The default is the image of the server.
  image: \"\"
jobs:
  # Run the attempts of pools with `runsOn: jobs`, each in a Kubernetes Job.
  enabled: false
  # Name of this installation, which no other one in the cluster has. The default is the namespace of the release.
  installation: \"\"
  # Namespaces for Jobs: those that pools name. The first is that of all other pools.
  namespaces:
  - bailiwick-attempts
  # Make the namespaces, which enforce the Pod Security Standard `privileged`. The end of the release deletes them.
  createNamespaces: true
  # How many pods each of these namespaces may have at the same time, such as 20. If empty, there is no quota.
  quotaPods: \"\"
  # Networks of the server, such as 203.0.113.7/32. If there are none, every address at the server's port.
  serverNetworks: []
  # Networks of the model services. If there are none, every address at port 443.
  modelNetworks: []
  # Image of the operator for Jobs, and of the Jobs. The default is the image of the server.
  image: \"\"
";
