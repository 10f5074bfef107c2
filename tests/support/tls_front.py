"""TLS before a server that has none: tls_front.py DIR PORT SERVER.

TLS with DIR/cert.pem and DIR/key.pem at PORT of 127.0.0.1. The bytes of each connection go to the port SERVER of 127.0.0.1,
and its bytes come back. A client that refuses the certificate ends its own connection only.
"""

import select
import socket
import ssl
import sys
import threading
from pathlib import Path

DIR, PORT, SERVER = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
CONTEXT.load_cert_chain(DIR / "cert.pem", DIR / "key.pem")


def relay(client, server):
    while True:
        # The client's socket may have been read farther than what was taken of it.
        ready = [client] if client.pending() else select.select([client, server], [], [])[0]
        for source in ready:
            piece = source.recv(65536)
            if not piece:
                return
            (server if source is client else client).sendall(piece)


def serve(connection):
    try:
        with CONTEXT.wrap_socket(connection, server_side=True) as client:
            with socket.create_connection(("127.0.0.1", SERVER)) as server:
                relay(client, server)
    except OSError:
        connection.close()


listener = socket.create_server(("127.0.0.1", PORT))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
