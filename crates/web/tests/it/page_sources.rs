//! Reads the routes from the source of the router, and parts of HTML tags.

const ROUTER: &str = include_str!("../../src/pages.rs");

/// A method and a pattern of the router.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) path: String,
}

/// Every route of the pages.
pub(crate) fn routes() -> Vec<Route> {
    let constant = |name: &str| {
        let start = format!("const {name}: &str = \"");
        let (_, rest) = ROUTER.split_once(&start).expect("a constant with the path of a route");
        rest.split('"').next().unwrap().to_owned()
    };
    let mut all = Vec::new();
    let source = ROUTER.split("#[cfg(test)]").next().unwrap();
    for part in source.split(".route(").skip(1) {
        let (path, handlers) = part.split_once(',').unwrap();
        let path = path.trim();
        let path = match path.strip_prefix('"') {
            Some(text) => text.trim_end_matches('"').to_owned(),
            None => constant(path),
        };
        let path = format!("/ui{}", path.trim_end_matches('/'));
        for (method, call) in [("GET", "get("), ("POST", "post(")] {
            let calls = handlers.split([' ', '\n', '.']).any(|word| word.starts_with(call));
            if calls {
                all.push(Route { method, path: path.clone() });
            }
        }
        let methods = all.iter().filter(|route| route.path == path).count();
        assert!(methods > 0, "the methods of {path} are unknown");
    }
    all
}

/// The value of an attribute.
pub(crate) fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    Some(rest.split('"').next()?.to_owned())
}

/// The text of an element without its tags.
pub(crate) fn label(element: &str) -> String {
    let mut text = String::new();
    let mut is_tag = false;
    for letter in element.chars() {
        match letter {
            '<' => is_tag = true,
            '>' => is_tag = false,
            other if !is_tag => text.push(other),
            _ => {}
        }
    }
    text.trim().to_owned()
}
