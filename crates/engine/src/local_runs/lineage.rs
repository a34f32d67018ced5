//! The lineage of an agent: its predecessors and successors.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::{LocalLineage, LocalRelation, LocalRelative, LocalRunError};
use bailiwick_lifecycle::ports::{RunStore as _, StoreError};
use bailiwick_model::{AgentId, Run};

use super::list::seconds;
use super::{LedgerRuns, store_error};

/// Agents of one lineage that are shown.
const MAX_RELATIVES: usize = 200;

/// An agent and its predecessor.
type Known = (Run, Option<(AgentId, LocalRelation)>);

impl LedgerRuns {
    pub(super) fn read_lineage(&self, run: &Run) -> Result<LocalLineage, LocalRunError> {
        let read = self.open()?.with(async |store| {
            let delegates = store.delegates().await?;
            let started_by: BTreeMap<&AgentId, &AgentId> =
                delegates.iter().filter_map(|one| Some((&one.run, one.parent.as_ref()?))).collect();
            // Up to the first agent.
            let (mut first, mut climbed) = (run.clone(), 0);
            while climbed < MAX_RELATIVES {
                climbed += 1;
                let named = match started_by.get(&first.id) {
                    Some(parent) => Some((*parent).clone()),
                    None => first.parent_branch.as_deref().and_then(agent_id),
                };
                let above = match (named, &first.fork_parent_id) {
                    (Some(parent), _) => store.find(&parent).await?,
                    (None, Some(dna)) => one_of(store.find_by_dna_prefix(dna).await?, dna),
                    (None, None) => None,
                };
                match above.filter(|above| above.id != first.id) {
                    Some(above) => first = above,
                    None => break,
                }
            }
            // Down to the last ones.
            let mut all: Vec<Known> = vec![(first, None)];
            let mut next = 0;
            while let Some((above, _)) = all.get(next).cloned() {
                next += 1;
                let mut found = Vec::new();
                for one in delegates.iter().filter(|one| one.parent.as_ref() == Some(&above.id)) {
                    found.extend(
                        store.find(&one.run).await?.map(|run| (run, LocalRelation::Started)),
                    );
                }
                for run in store.descendants(&above.id).await? {
                    let is_child = run.parent_branch.as_deref() == Some(above.id.as_str());
                    found.extend(is_child.then_some((run, LocalRelation::Started)));
                }
                if let Some(dna) = &above.dna {
                    for run in store.forked_or_created_by(dna).await? {
                        found.push((run, LocalRelation::Respawned));
                    }
                }
                for (run, relation) in found {
                    if all.len() <= MAX_RELATIVES && !all.iter().any(|(one, _)| one.id == run.id) {
                        all.push((run, Some((above.id.clone(), relation))));
                    }
                }
            }
            Ok::<_, StoreError>(all)
        });
        let mut all = read.map_err(store_error)?;
        let is_incomplete = all.len() > MAX_RELATIVES;
        all.truncate(MAX_RELATIVES);
        Ok(LocalLineage { items: in_order(&all), is_incomplete })
    }
}

fn agent_id(text: &str) -> Option<AgentId> {
    AgentId::parse(text.strip_prefix("agent/").unwrap_or(text)).ok()
}

/// The run with exactly this identity.
fn one_of(runs: Vec<Run>, dna: &str) -> Option<Run> {
    runs.into_iter().find(|run| run.dna.as_deref() == Some(dna))
}

/// Each agent after the one that it comes from.
fn in_order(all: &[Known]) -> Vec<LocalRelative> {
    let mut items = Vec::new();
    let mut open: Vec<(usize, u32)> = if all.is_empty() { Vec::new() } else { vec![(0, 0)] };
    while let Some((index, depth)) = open.pop() {
        let Some((run, from)) = all.get(index) else { continue };
        items.push(LocalRelative {
            run: run.id.to_string(),
            name: run.name.to_string(),
            state: run.status.to_string(),
            parent: from.as_ref().map(|(parent, _)| parent.to_string()),
            relation: from.as_ref().map(|(_, relation)| *relation),
            depth,
            created_at: seconds(run.started_ts),
        });
        let children = all
            .iter()
            .enumerate()
            .filter(|(_, (_, from))| from.as_ref().is_some_and(|(parent, _)| *parent == run.id));
        let children: Vec<usize> = children.map(|(index, _)| index).collect();
        open.extend(children.into_iter().rev().map(|index| (index, depth + 1)));
    }
    items
}
