//! Writing plans: the library's side of [`crate::wire`].

use crate::wire::{HEADER_LEN, Header, OP_END};

/// A plan being written. Each operation gets the sentence that a failure of it is told in.
#[derive(Default)]
pub struct PlanWriter {
    body: Vec<u8>,
    steps: Vec<String>,
    open: Option<usize>,
}

impl PlanWriter {
    /// An empty plan.
    pub fn new() -> PlanWriter {
        PlanWriter::default()
    }

    /// Begins an operation; `sentence` says what it does (`mount proc on /proc`). Its fields follow.
    pub fn op(&mut self, code: u16, sentence: impl Into<String>) -> &mut PlanWriter {
        self.close();
        self.steps.push(sentence.into());
        self.body.extend_from_slice(&code.to_le_bytes());
        self.body.extend_from_slice(&[0; 6]);
        self.open = Some(self.body.len());
        self
    }

    fn close(&mut self) {
        if let Some(start) = self.open.take() {
            let length = (self.body.len() - start) as u32;
            self.body[start - 4..start].copy_from_slice(&length.to_le_bytes());
        }
    }

    /// A 32-bit field.
    pub fn u32(&mut self, value: u32) -> &mut PlanWriter {
        self.body.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A 64-bit field.
    pub fn u64(&mut self, value: u64) -> &mut PlanWriter {
        self.body.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut PlanWriter {
        self.body.extend_from_slice(bytes);
        self
    }

    /// A string field; it may hold any bytes, but those after a NUL are not seen where it is used as a C string.
    pub fn str(&mut self, text: impl AsRef<[u8]>) -> &mut PlanWriter {
        let text = text.as_ref();
        self.u32(text.len() as u32);
        self.body.extend_from_slice(text);
        self.body.push(0);
        self
    }

    /// The finished plan and the sentences of its steps.
    pub fn finish(mut self, mut header: Header) -> (Vec<u8>, Vec<String>) {
        self.op(OP_END, "end");
        self.close();
        self.steps.pop();
        header.length = (HEADER_LEN + self.body.len()) as u32;
        let mut plan = Vec::with_capacity(header.length as usize);
        // SAFETY: Header is repr(C) without padding, so all its bytes are initialised.
        plan.extend_from_slice(&unsafe { std::mem::transmute::<Header, [u8; HEADER_LEN]>(header) });
        plan.extend_from_slice(&self.body);
        (plan, self.steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{OP_HOSTNAME, OP_RLIMIT, Ops, PLAN_MAGIC, VERSION};

    fn header() -> Header {
        // SAFETY: a Header holds integers only.
        let zero: Header = unsafe { std::mem::zeroed() };
        Header { magic: PLAN_MAGIC, version: VERSION, ..zero }
    }

    #[test]
    fn a_plan_reads_back_as_written() {
        let mut plan = PlanWriter::new();
        plan.op(OP_HOSTNAME, "set the host name").str("box");
        plan.op(OP_RLIMIT, "limit").u32(7).u32(0).u64(1 << 40).u64(u64::MAX);
        let (bytes, steps) = plan.finish(header());
        assert_eq!(steps, ["set the host name", "limit"]);
        let (_, mut ops) = Ops::of(&bytes).expect("a plan of our own");
        let mut first = ops.next().expect("first");
        assert_eq!((first.index, first.code, first.payload.cstr()), (0, OP_HOSTNAME, &b"box\0"[..]));
        let mut second = ops.next().expect("second");
        assert_eq!((second.payload.u32(), second.payload.u32()), (7, 0));
        assert_eq!((second.payload.u64(), second.payload.u64()), (1 << 40, u64::MAX));
        assert_eq!(second.payload.cstr(), b"\0");
        assert!(ops.next().is_none());
    }

    #[test]
    fn a_cut_plan_is_refused_or_ends_early() {
        let mut plan = PlanWriter::new();
        plan.op(OP_HOSTNAME, "x").str("box");
        let (bytes, _) = plan.finish(header());
        for cut in 0..bytes.len() {
            assert!(Ops::of(&bytes[..cut]).is_none());
        }
    }
}
