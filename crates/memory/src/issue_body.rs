//! The place of the checkpoint in the body of an issue: the first YAML block below its heading.

use thiserror::Error;

use crate::checkpoint::{Checkpoint, CheckpointError};

const HEADING: &str = "## GNS Checkpoint";

/// Why a body has no checkpoint that can be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BodyError {
    #[error("the issue has no checkpoint")]
    Missing,
    #[error("the issue has {0} checkpoints")]
    Several(usize),
    #[error("the heading `{HEADING}` has no YAML block below it")]
    NoBlock,
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

/// The bytes of the YAML between its fences, and those of the whole part from heading to closing fence.
struct Place {
    yaml: std::ops::Range<usize>,
    whole: std::ops::Range<usize>,
}

/// The checkpoint in the body of an issue.
pub fn find_checkpoint(body: &str, issue: u64) -> Result<Checkpoint, BodyError> {
    let place = place(body)?;
    Ok(Checkpoint::parse(body.get(place.yaml).unwrap_or_default(), issue)?)
}

/// The body with this checkpoint in place of the one that it has, or at its end. The rest stays as people wrote it.
pub fn with_checkpoint(body: &str, checkpoint: &Checkpoint) -> Result<String, BodyError> {
    let block = format!("{HEADING}\n\n```yaml\n{}\n```", checkpoint.render()?.trim_end());
    match place(body) {
        Ok(place) => {
            let (before, after) = (body.get(..place.whole.start), body.get(place.whole.end..));
            Ok(format!("{}{block}{}", before.unwrap_or_default(), after.unwrap_or_default()))
        }
        Err(BodyError::Missing) if body.trim().is_empty() => Ok(format!("{block}\n")),
        Err(BodyError::Missing) => Ok(format!("{}\n\n{block}\n", body.trim_end())),
        Err(error) => Err(error),
    }
}

/// The body without its checkpoint.
pub(crate) fn without_checkpoint(body: &str) -> String {
    match place(body) {
        Ok(place) => {
            let (before, after) = (body.get(..place.whole.start), body.get(place.whole.end..));
            format!("{}{}", before.unwrap_or_default(), after.unwrap_or_default())
        }
        Err(_) => body.to_owned(),
    }
}

fn place(body: &str) -> Result<Place, BodyError> {
    let mut headings = Vec::new();
    let mut fence: Option<&str> = None;
    let mut at = 0;
    let mut lines: Vec<(usize, &str)> = Vec::new();
    for line in body.split_inclusive('\n') {
        lines.push((at, line));
        at += line.len();
    }
    for (index, (_, line)) in lines.iter().enumerate() {
        let text = line.trim_end();
        match fence {
            Some(open) if text == open => fence = None,
            Some(_) => {}
            None if text.starts_with("```") => fence = Some("```"),
            None if text.starts_with("~~~") => fence = Some("~~~"),
            None if text == HEADING => headings.push(index),
            None => {}
        }
    }
    let heading = match headings.as_slice() {
        [] => return Err(BodyError::Missing),
        [one] => *one,
        more => return Err(BodyError::Several(more.len())),
    };
    let below = lines.iter().skip(heading + 1);
    let is_heading = |line: &str| line.starts_with("## ") || line.starts_with("# ");
    let open = below
        .clone()
        .take_while(|(_, line)| !is_heading(line))
        .find(|(_, line)| matches!(line.trim_end(), "```yaml" | "```yml"))
        .ok_or(BodyError::NoBlock)?;
    let start = open.0 + open.1.len();
    let close = below
        .clone()
        .find(|(at, line)| *at >= start && line.trim_end() == "```")
        .ok_or(BodyError::NoBlock)?;
    let begin = lines.get(heading).map_or(0, |(at, _)| *at);
    Ok(Place { yaml: start..close.0, whole: begin..close.0 + close.1.trim_end().len() })
}
