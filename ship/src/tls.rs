//! TLS on a connected socket. The files are read for each connection, so that renewed certificates are used.

use crate::cursor::Fault;
use crate::drivers::TlsFiles;
use crate::files;
use crate::net::{PATIENCE, Problem, send_some, wait};
use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{MsgFlags, recv};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

fn failed(errno: i32) -> Problem {
    Problem::Failed(Fault::Secure, errno)
}

/// An agreed session.
pub(crate) struct Session(ClientConnection);

impl Session {
    /// Agrees with the receiver on a session.
    pub(crate) fn agree(
        socket: &OwnedFd,
        host: &str,
        files: &TlsFiles,
        stop: BorrowedFd<'_>,
    ) -> Result<Session, Problem> {
        let config = config(files)?;
        let name = ServerName::try_from(host.to_owned()).map_err(|_| failed(libc::EINVAL))?;
        let session = ClientConnection::new(Arc::new(config), name).map_err(|_| failed(libc::EPROTO))?;
        let mut session = Session(session);
        let until = Instant::now() + PATIENCE;
        session.flush(socket, Some(until), stop)?;
        while session.0.is_handshaking() {
            let left = until.saturating_duration_since(Instant::now());
            wait(socket.as_fd(), PollFlags::POLLIN, left, stop)?;
            // Also for a receiver that sends without end.
            if Instant::now() >= until {
                return Err(failed(libc::ETIMEDOUT));
            }
            match session.take(socket) {
                Ok(0) => return Err(failed(libc::ECONNRESET)),
                Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(errno) => {
                    // The reason for the receiver.
                    let _ = session.flush(socket, Some(until), stop);
                    return Err(failed(errno as i32));
                }
            }
            session.flush(socket, Some(until), stop)?;
        }
        Ok(session)
    }

    /// Encrypts and sends all bytes.
    pub(crate) fn send(
        &mut self,
        socket: &OwnedFd,
        bytes: &[u8],
        until: Option<Instant>,
        stop: BorrowedFd<'_>,
    ) -> Result<(), Problem> {
        // A receiver's alert, or its end.
        match self.take(socket) {
            Ok(0) => return Err(Problem::Failed(Fault::Send, libc::ECONNRESET)),
            Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => return Err(Problem::Failed(Fault::Send, errno as i32)),
        }
        self.0.writer().write_all(bytes).map_err(|_| Problem::Failed(Fault::Send, libc::EIO))?;
        self.flush(socket, until, stop)
    }

    /// Received bytes, decrypted.
    pub(crate) fn receive(&mut self, socket: &OwnedFd, block: &mut [u8]) -> nix::Result<usize> {
        match self.0.reader().read(block) {
            Ok(length) => return Ok(length),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return Err(Errno::ECONNRESET),
        }
        if self.take(socket)? == 0 {
            return Ok(0);
        }
        self.0.reader().read(block).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => Errno::EAGAIN,
            _ => Errno::ECONNRESET,
        })
    }

    fn flush(&mut self, socket: &OwnedFd, until: Option<Instant>, stop: BorrowedFd<'_>) -> Result<(), Problem> {
        let mut out = Vec::new();
        while self.0.wants_write() {
            self.0.write_tls(&mut out).map_err(|_| failed(libc::EIO))?;
        }
        let mut rest = out.as_slice();
        while !rest.is_empty() {
            let taken = send_some(socket, rest, until, stop, || false)?;
            rest = &rest[taken..];
        }
        Ok(())
    }

    fn take(&mut self, socket: &OwnedFd) -> nix::Result<usize> {
        let mut block = [0; 8192];
        let got = recv(socket.as_raw_fd(), &mut block, MsgFlags::MSG_DONTWAIT)?;
        let mut rest = &block[..got];
        while !rest.is_empty() {
            self.0.read_tls(&mut rest).map_err(|_| Errno::EPROTO)?;
            self.0.process_new_packets().map_err(|_| Errno::EPROTO)?;
        }
        Ok(got)
    }
}

/// A signature by RSA (PKCS #1, version 1.5) with SHA-256; `None`: the text has no key of that kind.
pub(crate) fn sign_rs256(key: &str, text: &[u8]) -> Option<Vec<u8>> {
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).ok()?;
    let key = ring::sign::any_supported_type(&key).ok()?;
    key.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256])?.sign(text).ok()
}

/// Errors: a file cannot be read, or holds something else.
fn config(files: &TlsFiles) -> Result<ClientConfig, Problem> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|_| failed(libc::EPROTO))?;
    let builder = if files.skips_check {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Unchecked(provider)))
    } else {
        builder.with_root_certificates(authorities(files.authorities.as_deref())?)
    };
    match (&files.certificate, &files.key) {
        (Some(certificate), Some(key)) => {
            let wrong = unusable(Fault::Key)(Errno::ENOKEY);
            let key =
                PrivateKeyDer::from_pem_slice(&files::read(key).map_err(unusable(Fault::Key))?).map_err(|_| wrong)?;
            builder.with_client_auth_cert(certificates(certificate, Fault::Certificate)?, key).map_err(|_| wrong)
        }
        (None, None) => Ok(builder.with_no_client_auth()),
        (Some(_), None) => Err(unusable(Fault::Key)(Errno::ENOKEY)),
        (None, Some(_)) => Err(unusable(Fault::Certificate)(Errno::ENOKEY)),
    }
}

/// A file of an option cannot be used.
fn unusable(fault: Fault) -> impl Fn(Errno) -> Problem {
    move |errno| Problem::Failed(fault, errno as i32)
}

fn authorities(file: Option<&Path>) -> Result<RootCertStore, Problem> {
    let mut store = RootCertStore::empty();
    let all = match file {
        Some(file) => certificates(file, Fault::Authorities)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    match store.add_parsable_certificates(all) {
        (0, _) if file.is_some() => Err(unusable(Fault::Authorities)(Errno::ENOKEY)),
        (0, _) => Err(failed(libc::ENOKEY)),
        _ => Ok(store),
    }
}

fn certificates(file: &Path, fault: Fault) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let text = files::read(file).map_err(unusable(fault))?;
    let all = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    all.map_err(|_| unusable(fault)(Errno::ENOKEY))
}

/// Takes every certificate of a receiver: `skip-verify`. The signature of the session is still checked.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
