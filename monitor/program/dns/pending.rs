//! A question that was passed on, until its answer comes.

use super::QUERY;
use super::askers::Asker;
use crate::fd::Fd;
use crate::question::{Likeness, Question, Spelling, likeness, spell};
use crate::sys;
use crate::walls::Wall;

/// Zero at the beginning.
pub struct Pending {
    pub used: bool,
    pub asker: Asker,
    asked_as: [u8; 2],
    spelling: Spelling,
    /// The resolver does not answer in the spelling it is asked in: it is asked in small letters.
    pub plain: bool,
    pub server: usize,
    /// The connection to the resolver, where it is asked over TCP.
    pub upstream: Option<usize>,
    pub until: i64,
    /// As the client asked.
    query: [u8; QUERY],
    length: usize,
    /// The socket that it is asked over, also when it is not used.
    pub socket: Fd,
    pub reach: Reach,
}

/// Where a socket leads.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Reach {
    pub outside: bool,
    pub v6: bool,
}

impl Pending {
    /// A client's question, for the first resolver.
    pub fn begin(&mut self, query: &[u8], asker: Asker) {
        self.query[..query.len()].copy_from_slice(query);
        (self.length, self.asker) = (query.len(), asker);
        (self.server, self.upstream, self.plain, self.used) = (0, None, false, true);
    }

    /// As the client asked.
    pub fn query(&self) -> &[u8] {
        &self.query[..self.length]
    }

    /// Another number and spelling for the next try. An attacker who does not see the question must guess both, and the
    /// port.
    pub fn disguise(&mut self) {
        let mut chance = [0u8; 34];
        sys::random(&mut chance);
        self.asked_as.copy_from_slice(&chance[..2]);
        self.spelling.copy_from_slice(&chance[2..]);
        if self.plain {
            self.spelling = [0; 32];
        }
    }

    /// The question as it is asked; answers its length.
    pub fn asked(&self, out: &mut [u8; QUERY]) -> usize {
        out[..self.length].copy_from_slice(&self.query[..self.length]);
        out[..2].copy_from_slice(&self.asked_as);
        if Wall::ResolverQuestions.stands() {
            spell(&mut out[..self.length], &self.spelling);
        }
        self.length
    }

    /// Makes an answer to the question as it was asked an answer to the question of the client, in the client's own
    /// spelling.
    pub fn answer_as_client(&self, answer: &mut [u8]) {
        answer[..2].copy_from_slice(&self.query[..2]);
        if let Some(question) = Question::read(self.query()) {
            answer[12..question.end].copy_from_slice(&self.query[12..question.end]);
        }
    }

    /// How a message is like the answer to this question.
    pub fn likeness(&self, message: &[u8]) -> Likeness {
        let mut asked = [0; QUERY];
        let length = self.asked(&mut asked);
        match likeness(&asked[..length], message) {
            Likeness::OtherSpelling if !Wall::ResolverQuestions.stands() => Likeness::Same,
            Likeness::Other
                if !Wall::ResolverAnswers.stands() && message.len() > length && message[..2] == asked[..2] =>
            {
                Likeness::Same
            }
            likeness => likeness,
        }
    }
}
