//! How an object becomes a template. What stands for a value in it is in no other place, and is replaced.

use crate::manifests::ManifestFile;

/// What stands for a value, and the template for it, in the order of replacement.
const VALUES: [(&str, &str); 21] = [
    ("values-image", "{{ $.Values.image | quote }}"),
    ("values-host", "{{ $.Values.host | quote }}"),
    (ADDRESS, "{{ $.Values.server | default (printf \"https://%s\" $.Values.host) | quote }}"),
    ("values-database-secret", "{{ $.Values.database.secret | quote }}"),
    ("values-database-key", "{{ $.Values.database.key | quote }}"),
    ("values-ingress-namespace", "{{ $.Values.ingress.namespace | quote }}"),
    ("values-ingress-class", "{{ $.Values.ingress.className | quote }}"),
    ("values-tls-secret", "{{ $.Values.ingress.tlsSecret | quote }}"),
    ("424242Gi", "{{ $.Values.storage | quote }}"),
    ("values-operator-namespace", "{{ $.Values.operator.namespace | quote }}"),
    ("values-operator-image", "{{ $.Values.operator.image | default $.Values.image | quote }}"),
    ("values-token-secret", "{{ $.Values.operator.token.secret | quote }}"),
    ("values-token-key", "{{ $.Values.operator.token.key | quote }}"),
    ("values-jobs-image", "{{ $.Values.jobs.image | default $.Values.image | quote }}"),
    // Names have it as their last part.
    ("-values-installation", "-{{ $.Values.jobs.installation | default $.Release.Namespace }}"),
    (
        "values-installation",
        "{{ $.Values.jobs.installation | default $.Release.Namespace | quote }}",
    ),
    (QUOTA_PODS, "{{ $.Values.jobs.quotaPods | quote }}"),
    (JOB_NAMESPACE, "{{ . | quote }}"),
    (SERVER_NETWORK, "{{ . | quote }}"),
    (MODEL_NETWORK, "{{ . | quote }}"),
    // It is a part of other texts.
    (NAMESPACE, "{{ $.Release.Namespace }}"),
];
/// The namespace of the release.
pub(super) const NAMESPACE: &str = "values-namespace";
/// The address of the server.
pub(super) const ADDRESS: &str = "https://values-server";
/// How many pods a namespace for Jobs may have.
pub(super) const QUOTA_PODS: &str = "values-quota-pods";
/// An item of a list: a namespace for Jobs.
pub(super) const JOB_NAMESPACE: &str = "values-attempts";
/// An item of a list: a network of the server.
pub(super) const SERVER_NETWORK: &str = "240.0.0.1/32";
/// An item of a list: a network of the model services.
pub(super) const MODEL_NETWORK: &str = "240.0.0.2/32";

/// A template with this text.
pub(super) fn template(path: &str, text: &str) -> ManifestFile {
    let replace = |text: String, (name, value): (&str, &str)| text.replace(name, value);
    let text = VALUES.into_iter().fold(text.to_owned(), replace);
    ManifestFile { path: format!("templates/{path}"), text }
}

/// The text if a value is true; otherwise the other one.
pub(super) fn when(value: &str, text: &str, otherwise: Option<&str>) -> String {
    let otherwise = otherwise.map(|text| format!("{{{{- else }}}}\n{}\n", text.trim_end()));
    format!(
        "{{{{- if .Values.{value} }}}}\n{}\n{}{{{{- end }}}}\n",
        text.trim_end(),
        otherwise.unwrap_or_default()
    )
}

/// The text for each item of a list.
pub(super) fn for_each(list: &str, text: &str) -> String {
    format!("{{{{- range .Values.{list} }}}}\n{}\n{{{{- end }}}}\n", text.trim_end())
}

/// The argument of a command, with the flag before it, for each item of a list.
pub(super) fn for_each_argument(list: &str, argument: &str, text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.trim_start().strip_prefix("- ") == Some(argument) {
            let flag = lines.pop().unwrap_or_default();
            lines.push(for_each(list, &format!("{flag}\n{line}")).trim_end().to_owned());
        } else {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n")
}
