# A file system in user space (fuse(4)) with one directory and one file, the server of which stops to answer: runs its
# words with that mounted at `mounted`. When they say so it stops, and tells them; when they have ended it goes on.
import ctypes, os, select, struct, subprocess, sys, threading

STALLED = {1, 3}  # FUSE_LOOKUP, FUSE_GETATTR
libc = ctypes.CDLL(None, use_errno=True)
device = os.open("/dev/fuse", os.O_RDWR)
data = b"fd=%d,rootmode=40000,user_id=%d,group_id=%d" % (device, os.getuid(), os.getgid())
if libc.mount(b"stalled", b"mounted", b"fuse", 0, data):
    sys.exit("no mount: " + os.strerror(ctypes.get_errno()))
stalls = sys.argv[1] == "stalls"
is_stalled = threading.Event()
waiting = []


def attributes(node):
    mode = 0o40777 if node == 1 else 0o100666
    return struct.pack("<6Q10I", node, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, os.getuid(), os.getgid(), 0, 4096, 0)


def answer(unique, error, body=b""):
    os.write(device, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)


def serve(call, unique, node, body):
    if call == 26:  # FUSE_INIT
        answer(unique, 0, struct.pack("<IIIIHHIIHH7I", 7, 31, 65536, 0, 12, 9, 65536, 1, 1, 0, *[0] * 7))
    elif call == 1 and body.rstrip(b"\0") == b"file":
        answer(unique, 0, struct.pack("<4Q2I", 2, 0, 0, 0, 0, 0) + attributes(2))
    elif call == 1:
        answer(unique, 2)
    elif call in (3, 4):  # FUSE_GETATTR, FUSE_SETATTR
        answer(unique, 0, struct.pack("<QII", 0, 0, 0) + attributes(node))
    elif call in (14, 27):  # FUSE_OPEN, FUSE_OPENDIR
        answer(unique, 0, struct.pack("<QII", 1, 1, 0))
    elif call == 16:  # FUSE_WRITE
        answer(unique, 0, struct.pack("<II", struct.unpack("<QQI", body[:20])[2], 0))
    elif call == 17:  # FUSE_STATFS
        answer(unique, 0, struct.pack("<5Q10I", 1000, 1000, 1000, 100, 100, 4096, 255, 4096, *[0] * 7))
    elif call in (15, 18, 25, 28, 29):  # FUSE_READ, FUSE_RELEASE, FUSE_FLUSH, FUSE_READDIR, FUSE_RELEASEDIR
        answer(unique, 0)
    elif call not in (2, 36, 42):  # FUSE_FORGET, FUSE_INTERRUPT, FUSE_BATCH_FORGET
        answer(unique, 38)


def go_on():
    while True:
        ready, _, _ = select.select([device], [], [], 0.01)
        while waiting and not is_stalled.is_set():
            serve(*waiting.pop(0))
        try:
            message = os.read(device, 1 << 17) if ready else b""
        except OSError:
            return
        if not message:
            continue
        _, call, unique, node = struct.unpack("<IIQQ", message[:24])
        request = (call, unique, node, message[40:])
        if call in STALLED and is_stalled.is_set():
            waiting.append(request)
        else:
            serve(*request)


threading.Thread(target=go_on, daemon=True).start()
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
command = subprocess.Popen(sys.argv[2:], **pipes)
print(command.stdout.readline(), end="")
if stalls:
    is_stalled.set()
print(file=command.stdin, flush=True)
try:
    print("status", command.wait(timeout=60))
except subprocess.TimeoutExpired:
    print("waits")
alive = subprocess.run(["pgrep", "-cxf", "sleep 98765"], capture_output=True, text=True).stdout.strip()
print("left", alive, "stalled", is_stalled.is_set(), flush=True)
is_stalled.clear()
command.wait()
