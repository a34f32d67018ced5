//! Trust on the real server: only accounts that may write code, by any kind of right, are trusted.

use bailiwick_testkit::gitea_server::GiteaServer;
use serde_json::{Value, json};

use super::site::{SCOPES, Site, rule, text};

impl Site {
    /// Creates an account that has only the rights of a new team with this access to units.
    fn member(&self, team: &str, units: &Value) -> String {
        let (org, _) = self.repository.split_once('/').unwrap();
        let name = format!("{team}-{}", GiteaServer::unique_name());
        self.server.account(&name);
        let body = json!({ "name": team, "permission": "write", "units_map": units });
        let id = self.server.admin("POST", &format!("/orgs/{org}/teams"), &body)["id"].clone();
        for part in [format!("members/{name}"), format!("repos/{}", self.repository)] {
            self.server.admin("PUT", &format!("/teams/{id}/{part}"), &Value::Null);
        }
        name
    }

    /// Makes the control plane's account an owner of the organization, with a token that reads its teams.
    fn make_bot_owner(&self) {
        let (org, _) = self.repository.split_once('/').unwrap();
        let teams = self.server.admin("GET", &format!("/orgs/{org}/teams"), &Value::Null);
        let teams = teams.as_array().unwrap();
        let id = &teams.iter().find(|team| team["name"] == "Owners").unwrap()["id"];
        self.server.admin("PUT", &format!("/teams/{id}/members/{}", self.bot), &Value::Null);
        let scopes = [&SCOPES[..], &["read:organization"]].concat();
        let token = self.server.token(&self.bot, &GiteaServer::unique_name(), &scopes);
        self.run_with_input(&["secrets", "set", "forge", "token"], &token).expect_code(0);
    }

    /// Changes the repository, so that its account is checked immediately, and waits for the condition.
    fn wait_until_rights_are_known(&self, poll_every: &str, status: &str) {
        let mut repository = self.json(&["get", "repository", "app"]);
        repository["spec"]["pollEvery"] = json!(poll_every);
        repository.as_object_mut().unwrap().remove("status");
        self.apply(&[repository]).expect_code(0);
        self.wait_until("whether rights are known", || {
            let found = &self.json(&["get", "repository", "app"])["status"];
            let conditions = found["conditions"].as_array().unwrap();
            let known = conditions.iter().find(|one| one["type"] == "ActorRightsKnown")?;
            (known["status"] == status).then_some(())
        });
    }

    /// The trust tier of the run that this account starts with a comment.
    fn trust_of(&self, account: &str) -> String {
        let issue = self.issue(&self.dev, &format!("Work for {account}"));
        self.comment(account, issue, "Please, /agent, do it.");
        self.wait_until("its run", || {
            let runs = self.json(&["get", "runs"]);
            let mut runs = runs.as_array().unwrap().iter();
            let run = runs.find(|run| run["spec"]["sourceRefs"]["issue"] == issue)?;
            Some(text(&run["spec"]["trustTier"]))
        })
    }
}

#[test]
#[ignore = "needs GITEA_URL and GITEA_ADMIN"]
fn only_accounts_that_may_write_code_are_trusted() {
    let mentions = rule("mentions", &["issue-comment"], &json!({ "mention": ["/agent"] }), &[]);
    let site = Site::new(&[mentions]);
    let wiki = site.member("wiki", &json!({ "repo.issues": "write", "repo.wiki": "write" }));
    let coder = site.member("coder", &json!({ "repo.code": "write", "repo.issues": "write" }));
    let mixed = site.member("mixed", &json!({ "repo.code": "write", "repo.issues": "read" }));
    // A token with write access cannot distinguish them.
    site.wait_until_rights_are_known("11s", "False");
    for account in [&wiki, &coder, &site.dev] {
        assert_eq!(site.trust_of(account), "untrusted", "{account}");
    }
    site.make_bot_owner();
    site.wait_until_rights_are_known("12s", "True");
    for account in [&wiki, &site.stranger] {
        assert_eq!(site.trust_of(account), "untrusted", "{account}");
    }
    for account in [&coder, &mixed, &site.dev] {
        assert_eq!(site.trust_of(account), "trusted", "{account}");
    }
}
