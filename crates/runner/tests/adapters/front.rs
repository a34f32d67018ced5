//! The address of a model together with our HTTP gate, for programs that start no gate process.

use std::future::Future;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bailiwick_runner::agents::adapter::{Adapter, ControlProtocol, Gate};
use bailiwick_runner::proxy::{
    Admission, HttpGate, Key, ModelRequest, ModelResponse, Models, Observer, Proxy, Setup,
    ToolCall, Upstream, start,
};
use tokio::runtime::Runtime;

use crate::stage::gate_answer;

/// The server stops when this is dropped.
pub(crate) struct Front {
    proxy: Proxy,
    _runtime: Runtime,
}

impl Front {
    /// Starts in front of a model with this gate; `None` for a program that does not need it.
    pub(crate) fn before(adapter: &dyn Adapter, gate: &Gate, model: &str) -> Option<Self> {
        let session = Mutex::new(adapter.http_gate()?);
        let dialect = adapter.dialect().unwrap().as_str();
        let runtime = Runtime::new().unwrap();
        let setup = Setup {
            wire: adapter.model_api().unwrap(),
            upstream: Some(Upstream {
                base: format!("{model}/v1"),
                key: Key::new("authorization", "Bearer held-by-bailiwick").unwrap(),
                origin: None,
            }),
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
            hosts: Vec::new(),
            models: Models::Any,
            searches: false,
            callers: None,
            observer: Arc::new(AllowAll),
            http_gate: Some(Arc::new(ScriptGate { session, gate: gate.clone(), dialect })),
        };
        let proxy = start(setup, runtime.handle()).unwrap();
        Some(Self { proxy, _runtime: runtime })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.proxy.address())
    }
}

/// Asks the gate script.
struct ScriptGate {
    session: Mutex<Box<dyn ControlProtocol>>,
    gate: Gate,
    dialect: &'static str,
}

impl HttpGate for ScriptGate {
    fn ask<'a>(
        &'a self,
        posted: &'a [u8],
    ) -> Pin<Box<dyn Future<Output = Option<String>> + Send + 'a>> {
        let message = self.session.lock().unwrap().parse(std::str::from_utf8(posted).unwrap());
        Box::pin(async move { gate_answer(message?, &self.gate, self.dialect) })
    }
}

/// Allows every request.
struct AllowAll;

impl Observer for AllowAll {
    fn admit<'a>(
        &'a self,
        _: ModelRequest,
    ) -> Pin<Box<dyn Future<Output = Admission> + Send + 'a>> {
        Box::pin(std::future::ready(Admission::Pass))
    }

    fn on_tool_call(&self, _: Option<&str>, _: &ToolCall) {}

    fn on_response(&self, _: ModelResponse) {}

    fn on_connect(&self, _: &str, _: bool) {}
}
