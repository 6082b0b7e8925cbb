"""The server process: its address and its end."""

import json
import os
import signal
import socket
import threading
import urllib.request

import pytest
from served_world import FakeMeasuringEncoder

from agentic_r.config import ServeConfig
from agentic_r.export.server.app import build_app
from agentic_r.export.server.run import bind, is_loopback, run_server
from agentic_r.export.server.served import Served


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_after_the_request_in_progress_and_nobody_new_gets_in(number):
    encoder, answers, seen = FakeMeasuringEncoder(), [], []
    before = signal.getsignal(number)

    def ask(address):
        body = json.dumps({"input": ["ab"], "model": "fake:query"}).encode()
        request = urllib.request.Request(f"{address}/v1/embeddings", body, {"Content-Type": "application/json"})
        answers.append(urllib.request.urlopen(request, timeout=60).status)

    def stop_while_at_work(address):
        asking = threading.Thread(target=ask, args=(address,))
        asking.start()
        while not encoder.batches:
            pass
        os.kill(os.getpid(), number)
        port = int(address.rpartition(":")[2])
        try:
            while True:
                socket.create_connection(("127.0.0.1", port), timeout=60).close()
        except OSError:
            seen.append(list(answers))  # closed to others, and the first is not answered yet
        encoder.gate.set()
        asking.join()

    encoder.gate.clear()
    app = build_app(Served("fake", encoder, "f", "float32", None), ServeConfig())
    stopping = []

    def ready(address):
        stopping.append(threading.Thread(target=stop_while_at_work, args=(address,)))
        stopping[0].start()

    run_server(app, bind("127.0.0.1", 0), ServeConfig(), ready=ready)
    stopping[0].join()
    assert (seen, answers) == ([[]], [200])
    assert signal.getsignal(number) is before


def test_where_one_connection_is_allowed_one_is_served():
    statuses, asking = [], []

    def ask(address):
        try:
            statuses.append(urllib.request.urlopen(f"{address}/metrics", timeout=60).status)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    def ready(address):
        asking.append(threading.Thread(target=ask, args=(address,)))
        asking[0].start()

    config = ServeConfig(max_connections=1)
    app = build_app(Served("fake", FakeMeasuringEncoder(), "f", "float32", None), config)
    run_server(app, bind("127.0.0.1", 0), config, ready=ready)
    asking[0].join()
    assert statuses == [200]


def test_only_this_machine_s_own_addresses_are_loopback():
    with bind("127.0.0.1", 0) as here, bind("0.0.0.0", 0) as everywhere:
        assert (is_loopback(here), is_loopback(everywhere)) == (True, False)
