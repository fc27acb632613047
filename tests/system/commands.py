"""The command in a process of its own, and the one line that it says when something is wrong.

A new interpreter takes two seconds to import torch. So one process imports it, and forks for each command: a fork has
its own standard streams, folder, environment and exit code, as a program has. What a start itself does (help at once,
early signals, closed streams) is tested with `COMMAND`, the program.
"""

import atexit
import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

COMMAND = Path(sys.executable).parent / "regard"
_SECONDS = 300
_SERVER = """
import json, os, socket, sys
import regard.api, regard.cli
requests = socket.socket(fileno=int(sys.argv[1]))
while True:
    text, streams, _, _ = socket.recv_fds(requests, 1 << 20, 3)
    if not text:
        break
    if not (child := os.fork()):
        requests.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        request = json.loads(text)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.argv = ["regard", *request["words"]]
        sys.exit(regard.cli.main())
    for stream in streams:
        os.close(stream)
    requests.sendall(b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@functools.cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair()
    process = subprocess.Popen([sys.executable, "-c", _SERVER, str(theirs.fileno())], pass_fds=[theirs.fileno()])
    theirs.close()
    ours.settimeout(_SECONDS)
    atexit.register(process.kill)
    return ours


def run(*words: object, text: str = "") -> subprocess.CompletedProcess:
    request = {"words": [str(word) for word in words], "folder": os.getcwd(), "environment": dict(os.environ)}
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(text.encode())
        given.seek(0)
        socket.send_fds(_server(), [json.dumps(request).encode()], [each.fileno() for each in (given, out, err)])
        code = int(_server().recv(16))
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(request["words"], code, out.read().decode(), err.read().decode())


def one_line(done: subprocess.CompletedProcess, code: int) -> str:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("regard: ")
    return line
