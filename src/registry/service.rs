//! Git's service on any server of HTTP: one question and answer each request.

use super::auth::basic;
use super::transport::{Answer, Ask, Payload, Transport};
use super::url::{Url, split_user, unescape};
use crate::error::{Error, ErrorKind, Result};
use std::io::Read;

/// Behind the address of a repository: where its service greets, and where the service answers.
const GREETING: &str = "/info/refs?service=git-upload-pack";
const QUESTIONS: &str = "/git-upload-pack";

/// A repository on a server.
pub(crate) struct Service<'a> {
    transport: &'a Transport,
    /// After redirects: of them, only those of the first request are followed.
    base: Url,
    /// Another server named this one.
    redirected: bool,
    authorization: Option<String>,
}

impl<'a> Service<'a> {
    /// Asks for a service's greeting. A user and a password in the address go to its server, and stand in no error.
    pub(crate) fn open(url: &str, transport: &'a Transport) -> Result<(Service<'a>, Box<dyn Read + Send>)> {
        let (address, user) = split_user(url);
        let first = Url::parse(&address).map_err(|_| Error::invalid("not an http or https URL"))?;
        let authorization = user.map(|user| {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            basic(&unescape(name), &unescape(password))
        });
        let greeting = first.at(&format!("{}{GREETING}", first.target.trim_end_matches('/')));
        let headers = headers();
        let ask = Ask { headers, authorization: authorization.clone(), ..Ask::get(greeting) };
        let answer = send(transport, ask)?;
        let Some(base) = answer.url.target.strip_suffix(GREETING) else {
            return Err(Error::internal(format!("the server led to {}, where no git is served", answer.url.shown())));
        };
        let base = answer.url.at(base);
        let (redirected, at_home) = (base.is_redirected_from(&first), base.same_origin(&first));
        let authorization = authorization.filter(|_| at_home);
        Ok((Service { transport, base, redirected, authorization }, Box::new(answer.reader())))
    }

    /// Sends a question; answers the body of the server's answer.
    pub(crate) fn ask(&self, question: &[u8]) -> Result<Box<dyn Read + Send>> {
        let mut headers = headers();
        headers.push(("content-type", "application/x-git-upload-pack-request".into()));
        headers.push(("accept", "application/x-git-upload-pack-result".into()));
        let url = self.base.at(&format!("{}{QUESTIONS}", self.base.target));
        let authorization = self.authorization.clone();
        let body = Payload::Bytes(question);
        let ask = Ask { method: "POST", url, redirected: self.redirected, headers, authorization, body };
        Ok(Box::new(send(self.transport, ask)?.reader()))
    }
}

fn headers() -> Vec<(&'static str, String)> {
    vec![("accept-encoding", "identity".into()), ("git-protocol", "version=2".into())]
}

fn send(transport: &Transport, ask: Ask<'_>) -> Result<Answer> {
    let answer = transport.send(ask).map_err(|e| e.with_kind(ErrorKind::Internal))?;
    match answer.status {
        200 => Ok(answer),
        401 => {
            Err(Error::internal("the server asks for a user and a password (status 401): write them into the address"))
        }
        404 => Err(Error::invalid("the server has no such repository (status 404)")),
        other => Err(Error::internal(format!("the server answers with status {other}"))),
    }
}
