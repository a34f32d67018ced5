//! How manifests are assembled.

mod faults;
mod shipped;
mod substrate;

use bailiwick_kit::manifest::{Manifest, read};
use bailiwick_model::Source;

/// A valid manifest with a role of the kit.
const MANIFEST: &str = "name = \"mine\"
description = \"Use it: \\\"now\\\".\"
substrate_role = \"read-only\"
tools = [\"Read\", \"Grep\"]
role = \"\"\"
You look.
\"\"\"

[[block]]
title = \"FIRST\"
text = \"Do this.\"

[[block]]
title = \"SECOND\"
text = \"\"\"

Then that.
\"\"\"

[[handoff]]
to = \"critic\"
when = \"it is done\"
";

fn source(text: &str) -> Source {
    Source::new("manifests/mine.toml", text)
}

fn manifest(text: &str) -> Manifest {
    read(&source(text)).unwrap_or_else(|problems| panic!("{text}\n{problems:?}"))
}
