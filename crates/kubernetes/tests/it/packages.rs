//! The Helm chart and the directories for kustomize have the objects that the commands print.

use bailiwick_kubernetes::access::Access;
use bailiwick_kubernetes::manifests::{JobOperator, ManifestFile, Operator, Sandbox, chart};
use k8s_openapi::api::core::v1::{ResourceQuota, Service};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Value, json};

use crate::manifests::{assert_typed, job_operator, operator, server};

fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap()
}

/// What `bailiwick-kubernetes access --image` prints.
fn printed_access(operator: &Operator) -> Vec<Value> {
    let access = Access::of(&operator.place.namespace).yaml().unwrap();
    documents(&(access + &operator.yaml().unwrap()))
}

/// What `bailiwick-kubernetes job-manifests` prints.
fn printed_jobs(operator: &JobOperator) -> Vec<Value> {
    documents(&operator.manifests().yaml().unwrap())
}

#[test]
fn directories_for_kustomize_list_every_printed_object() {
    let plain = server(Sandbox::None);
    for (files, printed) in [
        (plain.kustomize().unwrap(), documents(&plain.yaml().unwrap())),
        (operator().kustomize().unwrap(), printed_access(&operator())),
        (job_operator().manifests().kustomize().unwrap(), printed_jobs(&job_operator())),
    ] {
        let (list, objects) = files.split_last().unwrap();
        assert_eq!(list.path, "kustomization.yaml");
        let list: Value = serde_saphyr::from_str(&list.text).unwrap();
        let paths: Vec<&str> = objects.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(list["resources"], json!(paths));
        let written: Vec<Value> = objects.iter().flat_map(|file| documents(&file.text)).collect();
        assert_eq!(written, printed);
    }
}

/// Renders a template. Supports only what the chart uses: values, conditions, and loops over lists.
fn rendered(template: &str, values: &Value) -> String {
    let lines: Vec<&str> = template.lines().collect();
    rendered_lines(&lines, values, &Value::Null).join("\n")
}

fn rendered_lines(lines: &[&str], values: &Value, item: &Value) -> Vec<String> {
    let mut output = Vec::new();
    let mut rest = lines;
    while let Some((line, after)) = rest.split_first() {
        rest = after;
        let Some(action) = line.strip_prefix("{{- ") else {
            output.push(with_values(line, values, item));
            continue;
        };
        let (body, else_body, after) = block(rest);
        rest = after;
        let (action, value) = action.strip_suffix(" }}").unwrap().split_once(' ').unwrap();
        let value = lookup(value, values, item);
        match action {
            "if" if value == true || value.as_str().is_some_and(|text| !text.is_empty()) => {
                output.extend(rendered_lines(body, values, item))
            }
            "if" => output.extend(rendered_lines(else_body, values, item)),
            "range" => {
                for item in value.as_array().unwrap() {
                    output.extend(rendered_lines(body, values, item));
                }
            }
            _ => panic!("unsupported action {action}"),
        }
    }
    output
}

type Lines<'a> = &'a [&'a str];

/// The lines of a block, those of its `else`, and those after its end.
fn block<'a>(lines: Lines<'a>) -> (Lines<'a>, Lines<'a>, Lines<'a>) {
    let (mut depth, mut middle) = (0, None);
    for (number, line) in lines.iter().enumerate() {
        match *line {
            "{{- end }}" if depth == 0 => {
                let body = &lines[..middle.unwrap_or(number)];
                let else_body = &lines[middle.map_or(number, |middle| middle + 1)..number];
                return (body, else_body, &lines[number + 1..]);
            }
            "{{- end }}" => depth -= 1,
            "{{- else }}" if depth == 0 => middle = Some(number),
            "{{- else }}" => {}
            line if line.starts_with("{{- ") => depth += 1,
            _ => {}
        }
    }
    panic!("a block has no end: {lines:?}");
}

fn with_values(line: &str, values: &Value, item: &Value) -> String {
    let action =
        regex::Regex::new(r"\{\{ (\S+)(?: \| default (\([^)]*\)|\S+))?( \| quote)? \}\}").unwrap();
    let replaced = action.replace_all(line, |found: &regex::Captures<'_>| {
        let mut value = lookup(&found[1], values, item);
        if let Some(default) = found.get(2).filter(|_| value == "") {
            value = lookup(default.as_str(), values, item);
        }
        match found.get(3) {
            Some(_) => value.to_string(),
            None => value.as_str().unwrap().to_owned(),
        }
    });
    replaced.into_owned()
}

fn lookup(name: &str, values: &Value, item: &Value) -> Value {
    match name {
        "." => item.clone(),
        "$.Release.Namespace" => "agents".into(),
        r#"(printf "https://%s" $.Values.host)"# => {
            format!("https://{}", values["host"].as_str().unwrap()).into()
        }
        name => {
            let path = name.trim_start_matches('$').strip_prefix(".Values.").unwrap();
            let found = values.pointer(&format!("/{}", path.replace('.', "/")));
            found.unwrap_or_else(|| panic!("no value {path}")).clone()
        }
    }
}

fn text(files: &[ManifestFile], path: &str) -> String {
    files.iter().find(|file| file.path == path).unwrap().text.clone()
}

/// The default values of the chart, with the required values.
fn values(files: &[ManifestFile]) -> Value {
    let mut values: Value = serde_saphyr::from_str(&text(files, "values.yaml")).unwrap();
    values["image"] = "registry.example/bailiwick:1".into();
    values["host"] = "agents.example".into();
    values
}

/// The objects of the templates in a directory, or of all of them.
fn objects(files: &[ManifestFile], directory: &str, values: &Value) -> Vec<Value> {
    let templates = files.iter().filter(|file| file.path.starts_with(directory));
    let mut objects = Vec::new();
    for template in templates {
        let rendered = rendered(&template.text, values);
        assert!(!rendered.contains("{{") && !rendered.contains("values-"), "{rendered}");
        assert!(!rendered.contains("240.0.0."), "{rendered}");
        if !rendered.trim().is_empty() {
            objects.extend(documents(&rendered));
        }
    }
    objects
}

#[test]
fn chart_renders_the_printed_objects() {
    let files = chart("1.2.3").unwrap();
    let chart: Value = serde_saphyr::from_str(&text(&files, "Chart.yaml")).unwrap();
    assert_eq!((&chart["apiVersion"], &chart["version"]), (&"v2".into(), &"1.2.3".into()));
    for sandbox in [Sandbox::None, Sandbox::InPod] {
        let mut values = values(&files);
        values["agents"] = (sandbox == Sandbox::InPod).into();
        let printed = documents(&server(sandbox).yaml().unwrap());
        // The namespace is that of the release.
        assert_eq!(objects(&files, "templates/", &values), printed[1..].to_vec());
        values["ingress"]["enabled"] = true.into();
        values["metrics"]["annotations"] = true.into();
        values["networkPolicy"]["enabled"] = false.into();
        let ingress = rendered(&text(&files, "templates/ingress.yaml"), &values);
        assert_typed::<k8s_openapi::api::networking::v1::Ingress>(
            &serde_saphyr::from_str(&ingress).unwrap(),
        );
        let service = rendered(&text(&files, "templates/service.yaml"), &values);
        let service: Value = serde_saphyr::from_str(&service).unwrap();
        assert_eq!(service["metadata"]["annotations"]["prometheus.io/port"], "7840");
        assert_typed::<Service>(&service);
        let network = rendered(&text(&files, "templates/networkpolicy.yaml"), &values);
        assert_eq!(network.trim(), "");
    }
}

#[test]
fn chart_renders_the_printed_operator() {
    let files = chart("1.2.3").unwrap();
    let mut values = values(&files);
    values["operator"]["enabled"] = true.into();
    assert_eq!(objects(&files, "templates/operator/", &values), printed_access(&operator()));
    assert_eq!(objects(&files, "templates/jobs/", &values), Vec::<Value>::new());
    values["server"] = "https://agents.example:8443".into();
    values["operator"]["namespace"] = "team".into();
    values["operator"]["image"] = "registry.example/operator:2".into();
    values["operator"]["token"] = json!({ "secret": "access", "key": "admin" });
    let mut changed = operator();
    changed.place.namespace = "team".parse().unwrap();
    changed.image = "registry.example/operator:2".to_owned();
    changed.server = "https://agents.example:8443".parse().unwrap();
    changed.token = "access/admin".parse().unwrap();
    assert_eq!(objects(&files, "templates/operator/", &values), printed_access(&changed));
}

#[test]
fn chart_renders_the_printed_operator_of_jobs() {
    let files = chart("1.2.3").unwrap();
    let mut values = values(&files);
    values["jobs"]["enabled"] = true.into();
    let mut defaults = job_operator();
    defaults.attempts = vec!["bailiwick-attempts".parse().unwrap()];
    defaults.server_networks.clear();
    defaults.model_networks.clear();
    assert_eq!(objects(&files, "templates/jobs/", &values), printed_jobs(&defaults));
    assert_eq!(objects(&files, "templates/operator/", &values), Vec::<Value>::new());
    values["jobs"]["installation"] = "second".into();
    values["jobs"]["image"] = "registry.example/jobs:2".into();
    values["jobs"]["namespaces"] = json!(["attempts", "untrusted"]);
    values["jobs"]["serverNetworks"] = json!(["198.51.100.7/32"]);
    values["jobs"]["modelNetworks"] = json!(["203.0.113.0/24", "2001:db8::/32"]);
    values["database"] = json!({ "secret": "db", "key": "address" });
    let mut changed = job_operator();
    changed.installation = "second".parse().unwrap();
    changed.image = "registry.example/jobs:2".to_owned();
    changed.model_networks.push("2001:db8::/32".parse().unwrap());
    changed.database = "db/address".parse().unwrap();
    let printed = printed_jobs(&changed);
    assert_eq!(objects(&files, "templates/jobs/", &values), printed);
    values["jobs"]["quotaPods"] = "20".into();
    changed.quota_pods = Some(Quantity("20".to_owned()));
    let limited = printed_jobs(&changed);
    assert_eq!(objects(&files, "templates/jobs/", &values), limited);
    assert_eq!(limited.len(), printed.len() + 2, "a quota in each namespace");
    for quota in limited.iter().filter(|one| one["kind"] == "ResourceQuota") {
        assert_typed::<ResourceQuota>(quota);
        assert_eq!(quota["spec"]["hard"], json!({ "pods": "20" }));
    }
    values["jobs"]["quotaPods"] = "".into();
    // Someone else creates the namespaces.
    values["jobs"]["createNamespaces"] = false.into();
    assert_eq!(objects(&files, "templates/jobs/", &values), printed[2..].to_vec());
}
