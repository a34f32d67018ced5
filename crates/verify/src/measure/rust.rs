//! Finds the functions of Rust source with syn: free and nested functions, methods and trait defaults.
//! Macros are not expanded.

use std::str::FromStr;

use proc_macro2::{Span, TokenStream};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{FnArg, ImplItemFn, ItemFn, ItemImpl, ItemMod, ItemTrait, Signature, TraitItemFn};

use super::{Function, MeasureError, Measured, depth};

/// The parser recurses at each bracket and operator.
const PARSER_STACK_BYTES: usize = 256 << 20;

/// Measures on a separate thread, which has a large stack and frees the parser's tables at its end.
pub(super) fn measure(text: &str) -> Result<Measured, MeasureError> {
    let text = text.to_owned();
    let thread = std::thread::Builder::new().stack_size(PARSER_STACK_BYTES);
    let spawned = thread.spawn(move || parse(&text));
    let handle = spawned.map_err(|error| MeasureError::NotStarted(error.to_string()))?;
    handle.join().unwrap_or(Err(MeasureError::ParserCrashed))
}

fn parse(text: &str) -> Result<Measured, MeasureError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let tokens = match text.strip_prefix("#!") {
        // A shebang line becomes a comment; `#![…]` is an attribute.
        Some(rest) if !rest.trim_start().starts_with('[') => {
            TokenStream::from_str(&format!("//{rest}"))
        }
        _ => TokenStream::from_str(text),
    };
    let tokens = tokens.map_err(|error| MeasureError::NotTokens { line: line_of(error.span()) })?;
    depth::check(tokens.clone())?;
    let file: syn::File = syn::parse2(tokens).map_err(|error| MeasureError::Syntax {
        line: line_of(error.span()),
        message: error.to_string(),
    })?;
    let mut finder = Finder { names: Vec::new(), found: Vec::new() };
    finder.visit_file(&file);
    Ok(Measured { functions: finder.found })
}

fn line_of(span: Span) -> usize {
    span.start().line
}

struct Finder {
    names: Vec<String>,
    found: Vec<Function>,
}

impl Finder {
    /// Records a function and visits its body.
    fn record(
        &mut self,
        signature: &Signature,
        body: Option<Span>,
        inside: impl FnOnce(&mut Self),
    ) {
        let line = signature.span().start().line;
        let text = body.unwrap_or_else(|| signature.span()).source_text().unwrap_or_default();
        self.names.push(signature.ident.to_string());
        self.found.push(Function {
            path: self.names.join("::"),
            line,
            lines: body.map_or(0, |body| (body.end().line + 1).saturating_sub(line)),
            parameters: signature.inputs.iter().filter(|input| is_parameter(input)).count(),
            body: text.lines().map(str::trim).collect::<Vec<_>>().join("\n"),
        });
        inside(self);
        self.names.pop();
    }

    fn within(&mut self, name: String, inside: impl FnOnce(&mut Self)) {
        self.names.push(name);
        inside(self);
        self.names.pop();
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        let body = item.block.brace_token.span.join();
        self.record(&item.sig, Some(body), |finder| visit::visit_item_fn(finder, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        let body = item.block.brace_token.span.join();
        self.record(&item.sig, Some(body), |finder| visit::visit_impl_item_fn(finder, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        let body = item.default.as_ref().map(|block| block.brace_token.span.join());
        self.record(&item.sig, body, |finder| visit::visit_trait_item_fn(finder, item));
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.within(item.ident.to_string(), |finder| visit::visit_item_mod(finder, item));
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.within(item.ident.to_string(), |finder| visit::visit_item_trait(finder, item));
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let of = source(item.self_ty.span());
        let name = match &item.trait_ {
            Some((path, _)) => format!("<{of} as {}>", source(path.span())),
            None => of,
        };
        self.within(name, |finder| visit::visit_item_impl(finder, item));
    }
}

/// The source text, with single spaces.
fn source(span: Span) -> String {
    let text = span.source_text().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_parameter(input: &FnArg) -> bool {
    match input {
        FnArg::Receiver(_) => false,
        FnArg::Typed(_) => true,
    }
}

#[cfg(test)]
mod tests;
