# SPDX-License-Identifier: Apache-2.0
"""Uses OpenSSL of its own (Python's ssl) before, between and after calls of the driver: beside_ssl.py CERTIFICATE KEY CA.
Prints `ready`, waits for a line, copies in bulk, prints `right`. Each use of ssl is a whole handshake with itself, by the
settings of the process's own OpenSSL, and the same before and after."""

import ctypes
import ssl
import sys

certificate, key, ca = sys.argv[1:]
BYTES = 24 << 20  # so much opens the bulk lanes


def must(code):
    if code != 0:
        print("error", code, flush=True)
        sys.exit(3)


def handshake():
    """What a client and a server of Python's OpenSSL agree on, over memory."""
    accepts, connects = (
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH),
        ssl.create_default_context(cafile=ca),
    )
    accepts.load_cert_chain(certificate, key)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = accepts.wrap_bio(to_server, to_client, server_side=True)
    client = connects.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    ends = [client, server]
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                pass
    client.write(b"through")
    assert server.read() == b"through"
    return (
        ssl.OPENSSL_VERSION,
        client.version(),
        client.cipher(),
        sorted(each["name"] for each in connects.get_ciphers()),
    )


def loaded(name):
    """The files of that name that are mapped into this process."""
    with open("/proc/self/maps") as maps:
        return sorted({line.split()[-1] for line in maps if name in line})


before, libraries = handshake(), loaded("libcrypto")
cuda = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
must(cuda.cuInit(0))
assert loaded("libfarcall-tls"), "tls:// was not used"
assert handshake() == before
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
must(cuda.cuCtxSetCurrent(context))
must(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(BYTES)))
must(cuda.cuMemsetD8_v2(address, 1, ctypes.c_size_t(BYTES)))
must(cuda.cuCtxSynchronize())
print("ready", flush=True)
sys.stdin.readline()
sent = bytes(range(256)) * (BYTES // 256)
back = ctypes.create_string_buffer(BYTES)
must(cuda.cuMemcpyHtoD_v2(address, sent, ctypes.c_size_t(BYTES)))
assert handshake() == before
must(cuda.cuMemcpyDtoH_v2(back, address, ctypes.c_size_t(BYTES)))
must(cuda.cuMemFree_v2(address))
assert back.raw == sent
assert handshake() == before
assert loaded("libcrypto") == libraries, loaded(
    "libcrypto"
)  # no other OpenSSL came into the process's
print("right", flush=True)
