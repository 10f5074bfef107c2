//! The encoders: rtnetlink ([`link`]) and nf_tables ([`nft`]) messages as bytes, on [`message`].

pub(crate) mod link;
pub(crate) mod message;
pub(crate) mod nft;
