//! Authorization plugins in front of the routes: each request and its answer is shown to them, as dockerd shows it.

use crate::answer::{is_json, refusal};
use crate::context::Context;
use crate::document::Document;
use crate::message::{Body, BodyOut, Headers, Request, Response};
use crate::versions::Version;
use coracle::model::to_base64;
use coracle::{Authorization, Error, Result};
use serde_json::{Map, Value, json};
use std::io::Cursor;

/// The largest body that plugins are shown, in bytes: dockerd's bound.
const SHOWN: usize = 1 << 20;
/// Header fields with passwords, which plugins are not shown, and `Host`, which dockerd does not count among the fields.
const HIDDEN: [&str; 3] = ["X-Registry-Auth", "X-Registry-Config", "Host"];

/// Answers a request that has found its route, if all plugins consent to the request and to the answer.
pub(crate) fn guarded(
    chain: &Authorization,
    context: &Context,
    version: &Version,
    mut request: Request,
    answer: impl FnOnce(Request) -> Response,
) -> Response {
    let refused = |error: &Error| context.mark(refusal(version, error.http_status(), error.message()));
    let target = request.target.clone();
    let mut question = match show_request(context, &mut request) {
        Ok(Some(question)) => question,
        Ok(None) => {
            let text =
                format!("the request body is larger than {SHOWN} bytes, the most that authorization plugins are shown");
            return context.mark(refusal(version, 413, &text));
        }
        Err(error) => return refused(&error),
    };
    if let Err(error) = chain.ask_request(&question) {
        return refused(&error);
    }
    let mut answer = answer(request);
    let asked = show_answer(&mut question, &target, &mut answer).and_then(|()| chain.ask_response(&question));
    match asked {
        Ok(()) => answer,
        Err(error) => refused(&error),
    }
}

/// The question about a request. Its document is read whole, and put back for the route. None: it is too large.
fn show_request(context: &Context, request: &mut Request) -> Result<Option<Value>> {
    let mut question = Map::new();
    if let Some(user) = request.client.user() {
        add_text(&mut question, "User", user.name());
        add_text(&mut question, "UserAuthNMethod", user.method());
        let certificates: Vec<String> = user.certificates().map(|der| to_base64(pem(der).as_bytes())).collect();
        if !certificates.is_empty() {
            question.insert("RequestPeerCertificates".into(), json!(certificates));
        }
    }
    add_text(&mut question, "RequestMethod", &request.method);
    add_text(&mut question, "RequestUri", &request.target);
    question.insert("RequestHeaders".into(), shown_headers(&request.headers));
    if is_json(&request.headers) && !is_login(&request.target) && !request.body.is_empty() {
        let document = context.documents().read(&mut request.body, crate::answer::body_error)?;
        if document.len() > SHOWN {
            return Ok(None);
        }
        add_body(&mut question, "RequestBody", &document);
        let length = document.len() as u64;
        request.body = Body::stream(Cursor::new(document), Some(length));
    }
    Ok(Some(Value::Object(question)))
}

/// Adds the answer to the question. A document is written into memory for that. Streams and connections are shown before
/// they begin, without what they will carry.
fn show_answer(question: &mut Value, target: &str, answer: &mut Response) -> Result<()> {
    if let BodyOut::Document(_) = answer.body {
        let mut bytes = Vec::new();
        if let BodyOut::Document(write) = std::mem::replace(&mut answer.body, BodyOut::Bytes(Vec::new())) {
            write(&mut bytes).map_err(|e| Error::io("write the answer", &e))?;
        }
        answer.body = BodyOut::Bytes(bytes);
    }
    let Value::Object(question) = question else {
        return Err(Error::internal("the question of an authorization plugin is not an object"));
    };
    question.insert("ResponseStatusCode".into(), json!(answer.status));
    question.insert("ResponseHeaders".into(), shown_headers(&answer.headers));
    if let BodyOut::Bytes(bytes) = &answer.body
        && bytes.len() <= SHOWN
        && is_json(&answer.headers)
        && !is_login(target)
    {
        add_body(question, "ResponseBody", bytes);
    }
    Ok(())
}

fn add_text(question: &mut Map<String, Value>, key: &str, text: &str) {
    if !text.is_empty() {
        question.insert(key.into(), json!(text));
    }
}

fn add_body(question: &mut Map<String, Value>, key: &str, bytes: &[u8]) {
    if !bytes.is_empty() {
        question.insert(key.into(), json!(to_base64(bytes)));
    }
}

/// Whether the bodies of a target are passwords and tokens: `/auth`, with or without a version.
fn is_login(target: &str) -> bool {
    crate::target::path_of(target) == "/auth"
}

/// The last value of each field, by names as Go's servers write them.
fn shown_headers(headers: &Headers) -> Value {
    let mut shown = Map::new();
    for (name, value) in headers.iter() {
        if !HIDDEN.iter().any(|hidden| hidden.eq_ignore_ascii_case(name)) {
            shown.insert(canonical(name), json!(value));
        }
    }
    Value::Object(shown)
}

/// `content-type` as `Content-Type`.
fn canonical(name: &str) -> String {
    let mut first = true;
    let letter = |c: char| {
        let upper = std::mem::replace(&mut first, c == '-');
        if upper { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
    };
    name.chars().map(letter).collect()
}

/// A certificate in PEM.
fn pem(der: &[u8]) -> String {
    let text = to_base64(der);
    let mut out = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out.push_str("-----END CERTIFICATE-----\n");
    out
}

impl AsRef<[u8]> for Document {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_fields_are_those_of_go() {
        assert_eq!(canonical("content-type"), "Content-Type");
        assert_eq!(canonical("X-REGISTRY-auth"), "X-Registry-Auth");
    }

    #[test]
    fn passwords_are_not_shown() {
        let mut headers = Headers::new();
        headers.add("x-registry-auth", "secret");
        headers.add("Host", "h");
        headers.add("Accept", "a");
        headers.add("accept", "b");
        assert_eq!(shown_headers(&headers), json!({ "Accept": "b" }));
        // The last two reach another route, whose document no plugin may miss.
        for (target, login) in [
            ("/auth", true),
            ("/v1.24/auth?x=/y", true),
            ("/v1.24/info?a=/auth", false),
            ("http://auth?/v1.24/containers/create", false),
            ("/v1.24/containers/auth", false),
        ] {
            assert_eq!(is_login(target), login, "{target}");
        }
    }
}
