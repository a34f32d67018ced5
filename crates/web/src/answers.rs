//! Who answered what lately.

use bailiwick_resources::{Kind, Moment};
use bailiwick_server::{ApiError, RecentAnswer, RecentAnswers, Session};

use crate::fleet::object_path;
use crate::site::Site;
use crate::text::{Time, encoded, line};

const MAX_NAME: usize = 120;
const MAX_ABOUT: usize = 300;

/// An answer of a person, on one line.
pub(crate) struct AnswerLine {
    pub(crate) number: u64,
    pub(crate) at: Time,
    pub(crate) actor: String,
    pub(crate) answer: String,
    pub(crate) href: String,
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) reason: String,
}

pub(crate) async fn read(
    site: &Site,
    session: &Session,
    now: Moment,
) -> Result<Vec<AnswerLine>, ApiError> {
    let read: RecentAnswers = site.api.get(session, "/api/v1alpha1/answers").await?;
    Ok(read.items.iter().map(|one| AnswerLine::new(&site.base, one, now)).collect())
}

impl AnswerLine {
    fn new(base: &str, answer: &RecentAnswer, now: Moment) -> Self {
        let mut parts = answer.subject.splitn(3, '/');
        let (href, name) = match (parts.next(), parts.next(), parts.next()) {
            (Some("LocalRun"), Some(run), None) => (format!("{base}/local/{}", encoded(run)), run),
            (Some("AgentApproval"), Some(namespace), Some(name)) => {
                (object_path(base, namespace, Kind::AgentApproval, name), name)
            }
            (_, _, _) => (format!("{base}/inbox"), answer.subject.as_str()),
        };
        Self {
            number: answer.number,
            at: Time::new(answer.at, now),
            actor: line(&answer.actor, MAX_NAME),
            answer: match answer.answer.as_str() {
                "approve" => "approved".to_owned(),
                "deny" => "denied".to_owned(),
                other => line(other, MAX_NAME),
            },
            href,
            name: line(name, MAX_NAME),
            about: line(&answer.about, MAX_ABOUT),
            reason: line(&answer.reason, MAX_ABOUT),
        }
    }
}
