//! Real MCP servers: one that answers, one that never ends, one that hangs, one that crashes, and some
//! that send wrong answers; each runs in a sandbox, and none of them leaves a process.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use bailiwick_model::DiscoveredTool;
use bailiwick_runner::sandbox::Level;
use bailiwick_runner::servers::{NoToolList, Program, TIMEOUT, ToolList, ask_program, ask_remote};

use crate::lab::{becomes_true, launcher, processes_with};

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}}"#;
const TOOLS: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"look","annotations":{"readOnlyHint":true}},{"name":"post"}]}}"#;

fn ask(script: &str, timeout: Duration) -> ToolList {
    let arguments = ["-c".to_owned(), script.to_owned(), "sh".to_owned()];
    let program =
        Program { command: "sh".to_owned(), arguments: arguments.to_vec(), level: Level::Full };
    ask_program(&launcher(), &program, timeout)
}

fn replies(lines: &[&str]) -> String {
    let mut script = String::new();
    for line in lines {
        script.push_str(&format!("read said\nprintf '%s\\n' '{line}'\n"));
    }
    script + "while read said; do :; done"
}

fn expected_tools() -> Vec<DiscoveredTool> {
    let tool = |name: &str, read_only| DiscoveredTool { name: name.to_owned(), read_only };
    vec![tool("look", true), tool("post", false)]
}

fn failed(answer: ToolList) -> String {
    match answer {
        Err(NoToolList::Failed(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn server_is_understood_despite_its_own_requests_and_notifications() {
    let ping = r#"{"jsonrpc":"2.0","id":"q","method":"ping"}"#;
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
    // After its greeting it gets `initialized`, then the request; it asks first, and gets an answer.
    let script = replies(&[HELLO, notification, ping, TOOLS]);
    assert_eq!(ask(&script, TIMEOUT), Ok(expected_tools()));
}

#[test]
fn tool_list_of_several_pages_is_read_and_an_endless_one_is_refused() {
    let first_page = TOOLS.replace("}]}}", "}],\"nextCursor\":\"two\"}}");
    let last_page = r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"last"}]}}"#;
    let script = format!(
        "read a; printf '%s\\n' '{HELLO}'; read b; read c; printf '%s\\n' '{first_page}'; read d; \
         case \"$d\" in *two*) printf '%s\\n' '{last_page}';; esac; cat >/dev/null"
    );
    let names: Vec<String> =
        ask(&script, TIMEOUT).unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["look", "post", "last"]);
    let endless = format!(
        "read a; printf '%s\\n' '{HELLO}'; read b; n=1; while read c; do printf '%s\\n' \
         \"{{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$n,\\\"result\\\":{{\\\"tools\\\":[],\\\"nextCursor\\\":\\\"x\\\"}}}}\"; \
         n=$((n+1)); done"
    );
    assert_eq!(failed(ask(&endless, TIMEOUT)), "its list of tools does not end");
}

#[test]
fn hanging_server_is_stopped_with_all_its_processes() {
    let mark = format!("hangs-{}", std::process::id());
    let script =
        format!("(exec -a {mark} sleep 600) & setsid sleep 600 & : {mark}; exec sleep 600");
    let script = format!("bash -c '{script}' {mark}");
    let short = Duration::from_millis(700);
    assert_eq!(ask(&script, short), Err(NoToolList::TimedOut(short)));
    assert!(becomes_true(|| processes_with(&mark).is_empty()), "{:?}", processes_with(&mark));
}

#[test]
fn crashed_server_is_reported_with_its_cause() {
    let why = failed(ask("echo no configuration >&2; exit 3", TIMEOUT));
    assert!(why.contains("ended with 3") && why.contains("no configuration"), "{why}");
    let why = failed(ask(&format!("read a; printf '%s\\n' '{HELLO}'; kill -9 $$"), TIMEOUT));
    assert!(why.contains("signal 9"), "{why}");
    let missing = Program {
        command: "there-is-no-such-server".to_owned(),
        arguments: Vec::new(),
        level: Level::Full,
    };
    assert!(!failed(ask_program(&launcher(), &missing, TIMEOUT)).is_empty());
}

#[test]
fn wrong_answers_of_a_server_are_refused() {
    let glob = TOOLS.replace("look", "*");
    for (script, expected) in [
        (replies(&["hello there"]), "no message"),
        (replies(&["{}"]), "no JSON-RPC"),
        (
            replies(&[r#"{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"not today"}}"#]),
            "not today",
        ),
        (replies(&[&HELLO.replace("\"tools\":{}", "")]), "no tools"),
        (replies(&[HELLO, "", &glob]), "no name for a tool"),
        ("head -c 20000000 /dev/zero | tr '\\0' ' '; cat".to_owned(), "too much"),
        (
            "while :; do printf '%s\\n' '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}'; done"
                .to_owned(),
            "asks too much",
        ),
    ] {
        let why = failed(ask(&script, TIMEOUT));
        assert!(why.contains(expected), "{expected}: {why}");
    }
}

#[test]
fn server_has_no_network_no_home_and_no_variables_of_ours() {
    let script =
        "env >&2; ls -a \"$HOME\" | tr '\\n' ' ' >&2; cat /proc/net/dev | grep -c : >&2; exit 7";
    let program = |script: &str| Program {
        command: "sh".to_owned(),
        arguments: vec!["-c".to_owned(), script.to_owned()],
        level: Level::Full,
    };
    // Only the last line is reported, so each is checked separately.
    let count = failed(ask_program(&launcher(), &program(script), TIMEOUT));
    assert!(count.ends_with('1'), "only its own loopback: {count}");
    let names = "env | sed 's/=.*//' | sort | tr '\\n' ' ' >&2; exit 7";
    let names = failed(ask_program(&launcher(), &program(names), TIMEOUT));
    for name in ["CARGO_MANIFEST_DIR", "USER", "SHELL"] {
        assert!(!names.contains(name), "{names}");
    }
    assert!(names.contains("PATH") && names.contains("HOME"), "{names}");
}

/// One exchange per connection, like a server of streamable HTTP.
fn serve(answers: Vec<(&'static str, String)>) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let mut heads = Vec::new();
        for (kind, body) in answers {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if line.trim().is_empty() {
                    break;
                }
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                head.push_str(&line.to_ascii_lowercase());
            }
            let mut sent = vec![0; length];
            reader.read_exact(&mut sent).unwrap();
            head.push_str(&String::from_utf8(sent).unwrap());
            heads.push(head);
            let status = if body.is_empty() { "202 Accepted" } else { "200 OK" };
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nMcp-Session-Id: s1\r\nContent-Length: \
                 {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            (&stream).write_all(answer.as_bytes()).unwrap();
        }
        heads
    });
    (url, serving)
}

#[tokio::test]
async fn server_on_the_network_gets_the_same_requests() {
    for kind in ["application/json", "text/event-stream"] {
        let body = |text: &str| match kind {
            "text/event-stream" => format!("event: message\ndata: {text}\n\n"),
            _ => text.to_owned(),
        };
        let answers = vec![(kind, body(HELLO)), (kind, String::new()), (kind, body(TOOLS))];
        let (url, serving) = serve(answers);
        assert_eq!(ask_remote(&url, TIMEOUT).await, Ok(expected_tools()), "{kind}");
        let heads = serving.join().unwrap();
        assert!(heads[0].contains("\"initialize\"") && !heads[0].contains("mcp-session-id"));
        assert!(heads[2].contains("mcp-session-id: s1") && heads[2].contains("tools/list"));
        assert!(heads[2].contains("mcp-protocol-version"), "{}", heads[2]);
    }
    let unreachable = ask_remote("http://127.0.0.1:1/mcp", TIMEOUT).await;
    assert!(failed(unreachable).contains("cannot be reached"));
    // It accepts the connection and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let short = Duration::from_millis(300);
    assert_eq!(ask_remote(&url, short).await, Err(NoToolList::TimedOut(short)));
}
