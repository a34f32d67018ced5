//! Advice for a setup that failed because of its package sources.

use super::gateway::Refusals;

/// Advice for a registry that requires a login.
const WITHOUT_LOGIN: &str = "a setup is given no passwords and no tokens. Name a registry that needs none, or install \
     the packages in your checkout and take `setup` out of the task: agents and checks see them there";

/// Words beside a status that distinguish it from other numbers.
const BESIDE_STATUS: [&str; 7] =
    ["unauthorized", "forbidden", "authoriz", "authentic", "status", "error", "http"];

/// One sentence for each cause that was seen; `None` if there was none.
pub(crate) fn advice(refusals: &Refusals, printed: &str) -> Option<String> {
    let list = |hosts: &std::collections::BTreeSet<String>| {
        hosts.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
    };
    let mut causes = Vec::new();
    if !refusals.hosts.is_empty() {
        causes.push(format!(
            "it asked for hosts that a setup cannot reach: {}. If it needs them, add them to `hosts` under \
             [workspace] of the task",
            list(&refusals.hosts)
        ));
    }
    if !refusals.without_login.is_empty() {
        causes.push(format!("{} wants a login: {WITHOUT_LOGIN}", list(&refusals.without_login)));
    } else if refusals.hosts.is_empty() && mentions_login(printed) {
        causes.push(format!("a registry wants a login (401 or 403): {WITHOUT_LOGIN}"));
    }
    (!causes.is_empty()).then(|| causes.join("\n"))
}

/// Whether a package manager reports that access was denied: nothing else can see the content of a tunnel.
fn mentions_login(printed: &str) -> bool {
    printed.lines().any(|line| {
        let line = line.to_ascii_lowercase();
        let mut words = line.split(|letter: char| !letter.is_ascii_alphanumeric());
        let status = words.any(|word| ["401", "403", "e401", "e403"].contains(&word));
        status && BESIDE_STATUS.iter().any(|word| line.contains(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_errors_of_package_managers_are_recognised() {
        for line in [
            "npm error code E401",
            "npm error 401 Unauthorized - GET https://npm.corp.example/x",
            "ERROR: HTTP error 403 while getting https://pip.corp.example/simple/x/",
            "error Error: https://npm.corp.example/x: Request failed \"401 Unauthorized\"",
            "  HTTP status client error (401 Unauthorized) for url (https://pip.corp.example/simple/x/)",
            "[ERROR] status code: 401, reason phrase: Unauthorized (401)",
            "> Could not GET 'https://m.example/x'. Received status code 403 from server: Forbidden",
            "go: example.org/x@v1.0.0: reading https://proxy.example/x.mod: 403 Forbidden",
        ] {
            let message = advice(&Refusals::default(), &format!("fetching\n{line}\n"));
            assert!(message.is_some_and(|text| text.contains("wants a login")), "{line}");
        }
        for line in ["added 403 packages in 5s", "404 Not Found", "error: no such file", "line 401"]
        {
            assert_eq!(advice(&Refusals::default(), line), None, "{line}");
        }
    }

    #[test]
    fn refused_host_is_named_and_not_reported_as_a_missing_login() {
        let hosts = ["x.example:443".to_owned()].into();
        let refusals = Refusals { hosts, ..Refusals::default() };
        let message = advice(&refusals, "error: 403 Forbidden").unwrap();
        assert!(message.contains("x.example:443") && !message.contains("login"), "{message}");
        let without_login = ["npm.corp.example".to_owned()].into();
        let refusals = Refusals { without_login, ..Refusals::default() };
        let message = advice(&refusals, "").unwrap();
        assert!(message.starts_with("npm.corp.example wants a login"), "{message}");
    }
}
