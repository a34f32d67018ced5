//! Patches as Codex and OpenCode write them: every file that one names.

use super::Unreadable;
use super::fields::{self, Object};
use crate::call::{Action, Target, Touch};
use crate::tool::{Tool, ToolName};

/// A file of a patch.
struct Patched {
    path: String,
    touch: Touch,
    /// Whether it is a new file.
    made: bool,
}

/// A patch creates files like `Write`, and changes them like `Edit`.
pub(super) fn read(input: &Object) -> Result<(Vec<ToolName>, Action), Unreadable> {
    let mut texts = Vec::new();
    for key in ["command", "input", "patchText", "patch"] {
        texts.extend(fields::optional_text(input, key)?);
    }
    let [patch] = texts.as_slice() else {
        return Err(Unreadable::because("the call has no patch, or several"));
    };
    let patched = targets(patch)?;
    let mut tools: Vec<ToolName> = Vec::new();
    for file in &patched {
        let name = if file.made { "Write" } else { "Edit" };
        let tool = Tool::named(name).map(ToolName::of);
        tools.extend(tool.filter(|tool| !tools.contains(tool)));
    }
    let target = |file: Patched| Target { path: file.path, touch: file.touch };
    Ok((tools, Action::Files(patched.into_iter().map(target).collect())))
}

/// The files of a patch; one that names none, or is not closed, is not understood.
fn targets(patch: &str) -> Result<Vec<Patched>, Unreadable> {
    let mut targets = Vec::new();
    let (mut begun, mut ended) = (false, false);
    for line in patch.lines() {
        // Headers are recognised with blanks around them, as the CLI does.
        let Some(header) = line.trim().strip_prefix("*** ") else { continue };
        let file = |prefix: &str| header.strip_prefix(prefix).map(|path| path.trim().to_owned());
        if header.trim() == "Begin Patch" {
            begun = true;
        } else if header.trim() == "End Patch" {
            ended = true;
        } else if let Some(path) = file("Add File:") {
            targets.push(Patched { path, touch: Touch::Change, made: true });
        } else if let Some(path) = file("Update File:") {
            targets.push(Patched { path, touch: Touch::Change, made: false });
        } else if let Some(path) = file("Delete File:") {
            targets.push(Patched { path, touch: Touch::Delete, made: false });
        } else if let Some(path) = file("Move to:") {
            // The file of the last update moves to this path.
            if let Some(moved) = targets.last_mut() {
                moved.touch = Touch::Delete;
                let from = moved.path.clone();
                targets.push(Patched { path: from, touch: Touch::Change, made: false });
            }
            targets.push(Patched { path, touch: Touch::Change, made: true });
        }
    }
    if !begun || !ended {
        return Err(Unreadable::because("the patch has no beginning or no end"));
    }
    if targets.is_empty() {
        return Err(Unreadable::because("the patch names no file"));
    }
    if targets.iter().any(|target| target.path.is_empty() || target.path.contains('\0')) {
        return Err(Unreadable::because("the patch names a file by a path that cannot be"));
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_a_patch_is_found() {
        let patch = "*** Begin Patch\n*** Add File: a.rs\n+x\n*** Update File: b.rs\n\
                     *** Move to: c.rs\n@@\n-x\n+y\n*** Delete File: d.rs\n*** End Patch\n";
        let files: Vec<(String, Touch)> =
            targets(patch).unwrap().into_iter().map(|file| (file.path, file.touch)).collect();
        for (path, touch) in [
            ("a.rs", Touch::Change),
            ("b.rs", Touch::Delete),
            ("c.rs", Touch::Change),
            ("d.rs", Touch::Delete),
        ] {
            assert!(files.contains(&(path.to_owned(), touch)), "{path}: {files:?}");
        }
    }

    #[test]
    fn truncated_or_empty_patch_is_refused() {
        for patch in
            ["", "*** Begin Patch\n*** Add File: a\n+x\n", "*** Begin Patch\n*** End Patch"]
        {
            assert!(targets(patch).is_err(), "{patch}");
        }
    }
}
