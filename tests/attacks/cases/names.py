"""Hosts by name: those that are not permitted, reached through what leads to those that are."""

import os
import socket
import threading
import time

from case import Case, Policy

# Each reaches the server at PORT of 127.0.0.2, which is not permitted, and sends TOKEN; without a proxy directly.
OTHER_ADDRESS = {
    "a tunnel to its address": "tunnel('127.0.0.2', PORT).sendall(TOKEN)",
    "its address as one number": "tunnel('2130706434', PORT).sendall(TOKEN)",
    "its address in hexadecimal": "tunnel('0x7f.0.0.2', PORT).sendall(TOKEN)",
    "its address in octal": "tunnel('0177.0.0.02', PORT).sendall(TOKEN)",
    "its address without zeros": "tunnel('127.2', PORT).sendall(TOKEN)",
    "its address mapped to IPv6": "tunnel('[::ffff:127.0.0.2]', PORT, '127.0.0.2').sendall(TOKEN)",
    "a permitted name before it, as a user": "tunnel('localhost@127.0.0.2', PORT, '127.0.0.2').sendall(TOKEN)",
    "a permitted name in Host": "tunnel('127.0.0.2', PORT, fields='Host: localhost\\r\\n').sendall(TOKEN)",
    "SOCKS": "socks('127.0.0.2', PORT).sendall(TOKEN)",
    "SOCKS, by the address as a number": "socks('2130706434', PORT).sendall(TOKEN)",
    "a request": "asked('127.0.0.2', PORT, 'GET http://127.0.0.2:%d/%s HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n' % (PORT, TEXT))",
    "the second request of a connection": """
first = 'GET http://localhost:%d/ HTTP/1.1\\r\\nHost: localhost:%d\\r\\n\\r\\n' % (GOOD, GOOD)
second = 'GET http://127.0.0.2:%d/%s HTTP/1.1\\r\\nHost: 127.0.0.2:%d\\r\\n\\r\\n' % (PORT, TEXT, PORT)
if hop('http'):
    asked('localhost', GOOD, first + second)
else:
    asked('127.0.0.2', PORT, second)""",
    "a request in the body of one whose length is said twice": """
second = 'GET http://127.0.0.2:%d/%s HTTP/1.1\\r\\nHost: 127.0.0.2:%d\\r\\n\\r\\n' % (PORT, TEXT, PORT)
first = ('POST http://localhost:%d/ HTTP/1.1\\r\\nHost: localhost:%d\\r\\nContent-Length: %d\\r\\n'
         'Transfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n' % (GOOD, GOOD, len(second) + 5))
if hop('http'):
    asked('localhost', GOOD, first + second)
else:
    asked('127.0.0.2', PORT, second)""",
}
# Each asks the permitted server at GOOD for the site `TEXT`.test, which is not permitted.
OTHER_SITE = {
    "the host of a request": "asked('localhost', GOOD, 'GET http://localhost:%d/ HTTP/1.1\\r\\nHost: %s.test\\r\\n\\r\\n' % (GOOD, TEXT))",
    "the host of a request in a tunnel": "tunnel('localhost', GOOD).sendall(b'GET / HTTP/1.1\\r\\nHost: %s.test\\r\\n\\r\\n' % TOKEN)",
    "the host of the second request in a tunnel": """
s = tunnel('localhost', GOOD)
s.sendall(b'GET / HTTP/1.1\\r\\nHost: localhost:%d\\r\\n\\r\\n' % GOOD)
s.recv(1000)
s.sendall(b'GET / HTTP/1.1\\r\\nHost: %s.test\\r\\n\\r\\n' % TOKEN)""",
    "a host with a user": "tunnel('localhost', GOOD).sendall(b'GET / HTTP/1.1\\r\\nHost: localhost:80@%s.test\\r\\n\\r\\n' % TOKEN)",
    "the host of a request after a permitted one": """
tunnel('localhost', GOOD).sendall(
    b'GET / HTTP/1.1\\r\\nHost: localhost:%d\\r\\nHost: %s.test\\r\\n\\r\\n' % (GOOD, TOKEN))""",
    "the name in TLS": "tunnel('localhost', GOOD).sendall(hello(TEXT + '.test'))",
    "the name in TLS, after an alert": "tunnel('localhost', GOOD).sendall(b'\\x15\\x03\\x03\\0\\2\\1\\x5a' + hello(TEXT + '.test'))",
    "the name in TLS, in records of another version": """
text = hello(TEXT + '.test')
tunnel('localhost', GOOD).sendall(text[:1] + b'\\x03\\x09' + text[3:])""",
    "the name in a second ClientHello, which the server asks for": """
s = tunnel('localhost', GOOD)
s.sendall(hello('localhost'))
s.recv(1000)
s.sendall(hello(TEXT + '.test'))""",
}
REACHED = "An address that no rule permits is reached through the proxy"
FRONTED = "A site that no rule permits is asked for at a permitted server"
HELPERS = """
import base64, ssl, urllib.parse
def hop(kind):
    names = ('http_proxy',) if kind == 'http' else ('all_proxy', 'ALL_PROXY', 'SOCKS_PROXY', 'ftp_proxy')
    urls = [urllib.parse.urlsplit(os.environ[name]) for name in names if name in os.environ]
    return next((url for url in urls if kind != 'socks' or url.scheme.startswith('socks')), None)
def credentials(url):
    words = f'{urllib.parse.unquote(url.username)}:{urllib.parse.unquote(url.password)}' if url.username else ''
    return f'Proxy-Authorization: Basic {base64.b64encode(words.encode()).decode()}\\r\\n' if words else ''
def opened(host, port):
    s = socket.create_connection((host, port), 5)
    s.settimeout(5)
    return s
def tunnel(host, port, plain=None, fields=''):
    url = hop('http')
    if not url:
        return opened(plain or host, port)
    s = opened(url.hostname, url.port)
    s.sendall(f'CONNECT {host}:{port} HTTP/1.1\\r\\n{fields or f"Host: {host}:{port}" + chr(13) + chr(10)}{credentials(url)}\\r\\n'.encode())
    if b' 200 ' not in s.recv(4096):
        raise OSError('refused')
    return s
def socks(host, port):
    url = hop('socks')
    if not url:
        return opened(host, port)
    s = opened(url.hostname, url.port)
    s.sendall(b'\\5\\2\\0\\2' if url.username else b'\\5\\1\\0')
    if s.recv(2) == b'\\5\\2':
        user, word = (urllib.parse.unquote(part).encode() for part in (url.username, url.password))
        s.sendall(b'\\1' + bytes([len(user)]) + user + bytes([len(word)]) + word)
        s.recv(2)
    s.sendall(b'\\5\\1\\0\\3' + bytes([len(host)]) + host.encode() + struct.pack('!H', port))
    if s.recv(100)[1]:
        raise OSError('refused')
    return s
def asked(host, port, text):
    url = hop('http')
    s = opened(url.hostname, url.port) if url else opened(host, port)
    s.sendall(text.replace('\\r\\n\\r\\n', '\\r\\n' + (credentials(url) if url else '') + '\\r\\n').encode())
    while s.recv(4096):
        pass
def hello(name):
    to_server = ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), to_server, server_hostname=name)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return to_server.read()
TOKEN = TEXT.encode()
"""
# HelloRetryRequest (RFC 8446, 4.1.4), behind the session: TLS_AES_128_GCM_SHA256, TLS 1.3, and a share of secp256r1.
RETRY_RANDOM = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
RETRY_END = bytes.fromhex("130100000c002b0002030400330002") + b"\0\x17"


def retry(hello):
    session = hello[44 : 44 + hello[43]] if len(hello) > 43 else b""
    body = b"\x03\x03" + RETRY_RANDOM + bytes([len(session)]) + session + RETRY_END
    message = b"\x02" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x03" + len(message).to_bytes(2, "big") + message


class Site:
    """A server that answers requests and ClientHellos, and keeps what it is asked."""

    def __init__(self, world, host):
        self.world, self.seen = world, b""
        self.listener = socket.create_server((host, 0))
        self.listener.settimeout(0.1)
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self.listen)]
        self.threads[0].start()
        world.end_with(self.end)

    @property
    def port(self):
        return self.listener.getsockname()[1]

    def end(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join()
        self.listener.close()

    def listen(self):
        while not self.is_over.is_set():
            try:
                client, _ = self.listener.accept()
            except TimeoutError:
                continue
            self.threads.append(threading.Thread(target=self.answer, args=[client]))
            self.threads[-1].start()

    def answer(self, client):
        client.settimeout(0.1)
        with client:
            while not self.is_over.is_set():
                try:
                    data = client.recv(65536)
                    self.seen += data
                    if data[:1] == b"\x16":
                        client.sendall(retry(data))
                    for _ in range(data.count(b"\r\n\r\n")):
                        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                    if not data:
                        return
                except TimeoutError:
                    pass
                except OSError:
                    return

    def saw(self, token):
        end = time.monotonic() + (5 if self.world.is_expected else 0.3)
        while token not in self.seen and time.monotonic() < end:
            time.sleep(0.01)
        return token in self.seen


def sites(world):
    world.token = "token-" + os.urandom(8).hex()
    world.good, world.bad = Site(world, "127.0.0.1"), Site(world, "127.0.0.2")
    return {"PORT": world.bad.port, "GOOD": world.good.port, "TEXT": world.token}


def cases():
    policy = Policy(hosts=("localhost", "127.0.0.1"))
    allowed = HELPERS + "tunnel('localhost', GOOD).sendall(b'GET /%s HTTP/1.1\\r\\nHost: localhost:%d\\r\\n\\r\\n' % (TOKEN, GOOD))"
    for group, ways, name in ((REACHED, OTHER_ADDRESS, "bad"), (FRONTED, OTHER_SITE, "good")):
        for what, code in ways.items():
            yield Case(
                group, what, HELPERS + code,
                lambda world, name=name: getattr(world, name).saw(world.token.encode()),
                allowed, lambda world: world.good.saw(world.token.encode()),
                policy=policy, setup=sites,
            )
