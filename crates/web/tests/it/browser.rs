//! A client like a browser: it stores the cookie and sends its origin. One request per connection.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) struct Browser {
    pub(crate) address: SocketAddr,
    pub(crate) cookie: Option<String>,
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: BTreeMap<String, String>,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

pub(crate) fn form(fields: &[(&str, &str)]) -> String {
    let encoded = |text: &str| -> String {
        let encode_byte = |byte: u8| match byte.is_ascii_alphanumeric() {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        };
        text.bytes().map(encode_byte).collect()
    };
    let pairs = fields.iter().map(|(key, value)| format!("{key}={}", encoded(value)));
    pairs.collect::<Vec<_>>().join("&")
}

impl Browser {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, cookie: None }
    }

    fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
        let own_origin = format!("http://{}", self.address);
        let mut text = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            text += &format!("host: {}\r\n", self.address);
        }
        for (name, value) in headers {
            let value = if *value == "OWN" { &own_origin } else { *value };
            text += &format!("{name}: {value}\r\n");
        }
        if let Some(cookie) = &self.cookie {
            text += &format!("cookie: {cookie}\r\n");
        }
        if method == "POST" {
            text += "content-type: application/x-www-form-urlencoded\r\n";
        }
        text += &format!("content-length: {}\r\n\r\n{body}", body.len());
        text
    }

    async fn send(&self, request: &str) -> Reply {
        let exchange = async {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).await.unwrap();
            String::from_utf8(bytes).expect("a page is UTF-8")
        };
        let text = tokio::time::timeout(TIMEOUT, exchange).await.expect("a response in time");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let pairs = lines.filter_map(|line| line.split_once(':'));
        let headers =
            pairs.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
        Reply { status, headers: headers.collect(), text: body.to_owned() }
    }

    fn store_cookie(&mut self, reply: &Reply) {
        if let Some(cookie) = reply.headers.get("set-cookie") {
            let pair = cookie.split(';').next().unwrap_or_default().to_owned();
            self.cookie = (!pair.ends_with('=')).then_some(pair);
        }
    }

    pub(crate) async fn get(&mut self, path: &str) -> Reply {
        let reply = self.get_with(path, &[]).await;
        self.store_cookie(&reply);
        reply
    }

    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        self.send(&self.request("GET", path, headers, "")).await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Reply {
        let same_origin = [("origin", "OWN"), ("sec-fetch-site", "same-origin")];
        let reply = self.post_with(path, body, &same_origin).await;
        self.store_cookie(&reply);
        reply
    }

    pub(crate) async fn post_with(
        &self,
        path: &str,
        body: &str,
        headers: &[(&str, &str)],
    ) -> Reply {
        self.send(&self.request("POST", path, headers, body)).await
    }

    /// Reads a stream until a message with this text is complete.
    pub(crate) async fn stream(&self, path: &str, headers: &[(&str, &str)], until: &str) -> String {
        let read = async {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            let request = self.request("GET", path, headers, "");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut text = String::new();
            let is_complete =
                |text: &str| text.split_once(until).is_some_and(|(_, rest)| rest.contains("\n\n"));
            while !is_complete(&text) {
                let mut bytes = [0; 4096];
                let count = stream.read(&mut bytes).await.unwrap();
                assert!(count > 0, "the stream ended: {text}");
                text += &String::from_utf8_lossy(&bytes[..count]);
            }
            text
        };
        tokio::time::timeout(TIMEOUT, read).await.expect("a message in time")
    }
}
